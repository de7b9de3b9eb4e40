package rdm

import (
	"fmt"
	"html"
	"strings"

	"cutie/publisher/soif"
)

// describeStatus answers status-request, to a browser with the bare page.
func (x *exchange) describeStatus() error {
	queues, err := x.readable()
	if err != nil {
		return err
	}
	info := x.h.svc.Info()
	var b strings.Builder
	b.WriteString("<UL>\n")
	for _, q := range queues {
		st := q.State()
		fmt.Fprintf(&b, "<LI><A HREF=\"%s\">%s</A>: %d pending, %d consumed, %d deleted", html.EscapeString(x.base.Ref("state", q.ID())),
			html.EscapeString(q.ID()), st.Pending, st.Consumed, st.Deleted)
		if st.Held > 0 {
			fmt.Fprintf(&b, ", %d held", st.Held)
		}
		if !st.Info.Paused.IsZero() {
			b.WriteString(", paused")
		}
		b.WriteString("\n")
	}
	b.WriteString("</UL>\n")
	doing := "running"
	if x.h.svc.Err() != nil {
		doing = "storage failed"
	}
	title := taxonomyID(&info) + ": " + doing
	if x.wantsPage() {
		x.w.Header().Set("Content-Type", pageType)
		return x.out.write(x.page(title, b.String()))
	}
	head := Header{Type: StatusResponse}
	if x.catalog != nil {
		head.Catalog = x.answered()
	}
	return x.answer(&head, appendStatus(nil, x.base.Ref("state"), nil, page(title, b.String())))
}

// appendStatus appends a status message: facts for programs, and a page.
func appendStatus(dst []byte, url string, facts []soif.Attribute, text string) []byte {
	dst = soif.AppendHead(dst, statusObject, url)
	dst = soif.AppendAttribute(dst, "Content-Type", "text/html")
	for _, a := range facts {
		dst = soif.AppendAttribute(dst, a.Name, a.Value)
	}
	return soif.AppendEnd(soif.AppendAttribute(dst, "Status-Message", text))
}
