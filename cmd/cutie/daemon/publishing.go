package daemon

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"cutie/cmd/cutie/access"
	"cutie/publisher"
	"cutie/queuefs"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
	"cutie/wellknown"

	"github.com/rs/zerolog"
)

// PublishingPath is where an administrator asks how publishing goes, and lets
// it happen now.
const PublishingPath = "/publish"

// A publishing answers POST /publish, which makes at once what is to be
// published, and GET /publish/status. Both answer with the status.
type publishing struct{ pub *publisher.Publisher }

// A Published is the status of publishing, as it is sent.
type Published struct {
	state.Typed
	BaseURI string         `json:"baseURI"`
	Error   string         `json:"error,omitempty"` // why nothing is published any more
	Sets    []PublishedSet `json:"sets"`
}

// A PublishedSet is the status of one set.
type PublishedSet struct {
	Queue     string  `json:"queue"`
	Set       string  `json:"set"`
	Event     uint64  `json:"event"`
	Cursor    uint64  `json:"cursor"`
	LagEvents uint64  `json:"lagEvents"`
	Lag       float64 `json:"lagSeconds"`
	Open      int     `json:"openEntries"`
	Lists     int     `json:"closedLists"`
	Waiting   int     `json:"listsWithoutPackages"`
	Packages  int     `json:"packages"`
	Dumps     int     `json:"resourceDumps"`
	Octets    int64   `json:"octets"`
	LeftOut   int     `json:"leftOut,omitempty"`   // files that packages of changes lack
	Lost      int     `json:"lostFiles,omitempty"` // damaged, and set aside for good
	Error     string  `json:"error,omitempty"`
}

func (p *publishing) Routes() []web.Route {
	status := func(w http.ResponseWriter, _ *http.Request) error { return web.AnswerJSON(w, PublishingStatus(p.pub)) }
	return []web.Route{
		{Method: http.MethodPost, Path: PublishingPath, Need: web.Everywhere(web.Admin),
			Serve: func(w http.ResponseWriter, r *http.Request) error {
				if err := p.pub.Publish(r.Context()); err != nil {
					return unpublished(r.Context(), err)
				}
				return status(w, r)
			}},
		{Method: http.MethodGet, Path: PublishingPath + "/status", Need: web.Everywhere(web.Admin), Serve: status},
	}
}

// unpublished is the answer to an administrator after a failure to publish, with
// all details.
func unpublished(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	e, _ := web.ErrorOf(err)
	return &web.Error{Status: e.Status, Message: strings.ReplaceAll(err.Error(), "\n", "; ")}
}

// listForRobots names the Resource Lists that the caller may read, for Destinations,
// and then the same without terms of ResourceSync, for search engines.
func (d *daemon) listForRobots(w http.ResponseWriter, r *http.Request) error {
	caller := access.CallerOf(r.Context())
	var lists, plain []string
	for _, q := range d.svc.Queues() {
		if caller.May(web.Read, q.ID()) {
			lists = append(lists, d.pub.ResourceLists(q.ID())...)
			plain = append(plain, d.pub.Sitemaps(q)...)
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Write([]byte(wellknown.Robots(append(lists, plain...))))
	return nil
}

// PublishingStatus is the status of a publisher.
func PublishingStatus(pub *publisher.Publisher) Published {
	s := Published{Typed: state.PublishingClass.Typed(), BaseURI: pub.BaseURI() + "/", Sets: []PublishedSet{}}
	if err := pub.Failure(); err != nil {
		s.Error = err.Error()
	}
	for _, st := range pub.State() {
		set := PublishedSet{Queue: st.Queue, Set: st.Set.String(), Event: uint64(st.Event), Cursor: uint64(st.Read),
			LagEvents: uint64(st.Event - st.Read), Lag: st.Lag.Round(time.Microsecond).Seconds(),
			Open: st.Open, Lists: st.Lists, Waiting: st.Waiting, Packages: st.Packages, Dumps: st.Dumps, Octets: st.Octets,
			LeftOut: st.Left, Lost: st.Lost}
		switch {
		case st.Err != nil:
			set.Error = st.Err.Error()
		case st.Lost > 0:
			set.Error = fmt.Sprintf("damaged files that were set aside: %d; see the log", st.Lost)
		}
		s.Sets = append(s.Sets, set)
	}
	return s
}

// announce logs that the published history is about to begin anew, with another base
// URI or version. Without a word of the operator that is only done for a base URI on
// loopback: mirrors on other machines cannot follow one, and a free port is another
// one each time.
func (o *Options) announce(svc *queuefs.Service, source *publisher.Options) {
	c, changed := publisher.Changed(svc.Dir(), *source)
	if !changed {
		return
	}
	level := zerolog.WarnLevel
	if c.FromVersion == c.ToVersion && onLoopback(c.FromBase) {
		level, source.Anew = zerolog.InfoLevel, true
	}
	if source.Anew {
		o.Log.WithLevel(level).Str("base", c.ToBase).Stringer("version", c.ToVersion).Str("formerBase", c.FromBase).Stringer("formerVersion", c.FromVersion).
			Msg("published history begins anew, so does every mirror")
	}
}

// onLoopback reports whether a base URI leads to this machine alone.
func onLoopback(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return ip != nil && ip.IsLoopback() || u.Hostname() == "localhost"
}
