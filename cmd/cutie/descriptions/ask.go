package descriptions

import (
	"cmp"
	"context"
	"errors"
	"html"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/output"
	"cutie/publisher/rdm"
	"cutie/publisher/soif"
)

// query reads the options for a query. The file of --remember, if there is one, says
// from which date to ask.
func (r *rdmCall) query(client *rdm.Client, typ rdm.Type) (q rdm.Request, memory *remembered, err error) {
	q = rdm.Request{Type: typ, Catalog: client.CatalogID(r.catalog), Scope: r.scope,
		Attributes: r.attributes, Order: r.order, Hits: r.hits}
	switch {
	case r.since != "" && r.scope != "", r.remember != "" && (r.since != "" || r.scope != ""):
		err = fault.Usagef("--scope, --since and --remember exclude each other")
	case r.remember != "" && r.hits != "":
		err = fault.Usagef("--remember wants all results, --hits leaves some out")
	case r.since != "":
		var t time.Time
		if t, err = time.Parse(time.RFC3339, r.since); err != nil {
			t, err = http.ParseTime(r.since)
		}
		if err != nil {
			err = fault.Usagef("--since %.40q is no date such as 2026-01-31T10:00:00Z", r.since)
		}
		q.Scope = rdm.Since(t)
	case r.remember != "":
		if memory, err = readRemembered(r.remember, client.URL, q.Catalog); err == nil {
			q.Scope = memory.scope(q.Type)
		}
	}
	return q, memory, err
}

// ask sends a query and prints the answer.
func (r *rdmCall) ask(ctx context.Context, client *rdm.Client, typ rdm.Type) error {
	q, memory, err := r.query(client, typ)
	if err != nil {
		return err
	}
	var columns []string
	if strings.EqualFold(r.form, tableForm) && (q.Type == rdm.RDRequest || q.Type == rdm.RDRequestDeleted) {
		q.Attributes = cmp.Or(q.Attributes, "Status,Size,RD-Last-Modified,Title")
		columns = strings.Split(q.Attributes, ",")
	}
	show := output.NewProgress(r.Stderr, "receiving", -1, 0)
	defer show.Clear()
	reply, err := client.Ask(ctx, q, show)
	if err != nil {
		return fault.About(r.Args[1], restError(err))
	}
	defer reply.Close()
	if reply.Error != "" && !strings.HasPrefix(reply.Error, "0 ") { // from a server without a status for it
		return fault.About(r.Args[1], errors.New(reply.Error))
	}
	if q.Type == rdm.StatusRequest && !r.flags.Changed("form") {
		return r.printStatus(reply)
	}
	var newest time.Time
	err = printObjects(r.Call, r.form, columns, func(p *objectPrinter) (err error) {
		newest, err = r.printReply(p, reply)
		return err
	})
	if err != nil {
		return fault.About(r.Args[1], err)
	}
	if reply.Error != "" {
		r.Sayf("%s", reply.Error)
	}
	if memory == nil {
		return nil
	}
	// The objects are printed and safe: they need not come again.
	return memory.advance(q.Type, reply.Until, newest)
}

// printReply prints objects and returns the newest of their dates.
func (r *rdmCall) printReply(p *objectPrinter, reply *rdm.Reply) (newest time.Time, err error) {
	for {
		o, err := reply.Read()
		if err == io.EOF {
			return newest, nil
		}
		if err != nil {
			return newest, err
		}
		if t, err := http.ParseTime(o.Value("RD-Last-Modified")); err == nil && t.After(newest) {
			newest = t
		}
		if err := p.print(&o); err != nil {
			return newest, err
		}
	}
}

var tags = regexp.MustCompile(`(?i)<li>|<[^>]*>`)

// printStatus prints the page of a status message as text.
func (r *rdmCall) printStatus(reply *rdm.Reply) error {
	o, err := reply.Read()
	if err == io.EOF {
		o, err = soif.Object{}, errors.New("answer has no status message")
	}
	if err != nil {
		return fault.About(r.Args[1], err)
	}
	_, body, ok := strings.Cut(o.Value("Status-Message"), "<BODY>")
	if !ok {
		body = o.Value("Status-Message")
	}
	body = tags.ReplaceAllStringFunc(body, func(tag string) string {
		if strings.EqualFold(tag, "<li>") {
			return "  "
		}
		return ""
	})
	var text strings.Builder
	for line := range strings.Lines(html.UnescapeString(body)) {
		if line = strings.TrimRight(line, " \r\n"); line != "" {
			text.WriteString(output.OneLine(line) + "\n")
		}
	}
	return r.Out.Emit([]byte(text.String()))
}
