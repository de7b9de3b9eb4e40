package dashboard

import "cutie/queuefs/uws"

// UWS writes a page of UWS: a job, a list of jobs, or an error.
func (Pages) UWS(p *uws.Page) []byte {
	switch p.Body.(type) {
	case *uws.JobPage:
		return appendPage(nil, "uws-job", p)
	case *uws.ListPage:
		return appendPage(nil, "uws-list", p)
	}
	return appendPage(nil, "uws-fail", p)
}
