package dashboard

import (
	"net/http"

	"cutie/queuefs/state"
	"cutie/queuefs/uws"
	"cutie/queuefs/web"
)

// A uwsPage is a page of UWS with the links at its top.
type uwsPage struct {
	*uws.Page
	Path []crumb
}

// UWS writes a page of UWS: a job, a list of jobs, or an error.
func (Pages) UWS(p *uws.Page) []byte {
	u := uwsPage{Page: p, Path: steps(p.May, string(p.Base)+"/")}
	if queue := p.Base.Ref("state", p.Queue); p.May == nil || p.May("GET", queue[len(p.Base):]) {
		u.Path = append(u.Path, crumb{"step", state.XHTML.Ask(queue), p.Name})
	} else {
		u.Path = append(u.Path, crumb{"step", p.Base.Ref(OwnDir, p.Queue), p.Name})
	}
	u.Path = append(append(u.Path, crumb{"step", p.List + "?format=html", "UWS jobs"}), besides(p.Base, p.May)...)
	switch f := p.Body.(type) {
	case *uws.JobPage:
		return appendPage(nil, "uws-job", u)
	case *web.Failure:
		words := remedyOf(f.Status)
		if f.Status == http.StatusForbidden && f.Queue != "" { // the caller was admitted
			words = ofUWS
		}
		return appendPage(nil, "fail", failed(p.Base, f, words))
	}
	return appendPage(nil, "uws-list", u)
}
