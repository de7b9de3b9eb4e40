package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"syscall"
	"time"

	"cutie/cmd/cutie/access"
	"cutie/publisher"
	"cutie/queuefs/rest"
	"cutie/wellknown"
)

// PublishingPath is where an administrator asks how publishing goes, and lets
// it happen now.
const PublishingPath = "/publish"

// A publishing answers POST /publish, which makes at once what is to be
// published, and GET /publish/status. Both answer with the status.
type publishing struct {
	pub    *publisher.Publisher
	refuse func(http.ResponseWriter, *http.Request, error)
}

// A Published is the status of publishing, as it is sent.
type Published struct {
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
	Error     string  `json:"error,omitempty"`
}

// NewPublishing returns the handler; refuse answers with an error.
func NewPublishing(pub *publisher.Publisher, refuse func(http.ResponseWriter, *http.Request, error)) http.Handler {
	return &publishing{pub, refuse}
}

func (p *publishing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == PublishingPath && r.Method == http.MethodPost:
		if err := p.pub.Publish(r.Context()); err != nil {
			p.refuse(w, r, unpublished(r.Context(), err))
			return
		}
	case r.URL.Path == PublishingPath:
		w.Header().Set("Allow", "POST")
		p.refuse(w, r, &rest.Error{Status: http.StatusMethodNotAllowed, Message: "method not allowed"})
		return
	case r.URL.Path != PublishingPath+"/status":
		p.refuse(w, r, &rest.Error{Status: http.StatusNotFound, Message: "not found"})
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		p.refuse(w, r, &rest.Error{Status: http.StatusMethodNotAllowed, Message: "method not allowed"})
		return
	}
	body, err := json.MarshalIndent(PublishingStatus(p.pub), "", "  ")
	if err != nil {
		p.refuse(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Write(append(body, '\n'))
}

// unpublished is the answer to an administrator where something could not be
// published: all that is known of it.
func unpublished(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	e := &rest.Error{Status: http.StatusInternalServerError, Message: strings.ReplaceAll(err.Error(), "\n", "; ")}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		e.Status = http.StatusInsufficientStorage
	}
	return e
}

// robots returns nil if there is to be no /robots.txt.
func (d *daemon) robots() http.Handler {
	if !d.Robots {
		return nil
	}
	return http.HandlerFunc(d.listForRobots)
}

// listForRobots names the Resource Lists that whoever asks may read.
func (d *daemon) listForRobots(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	caller := access.CallerOf(r.Context())
	var lists []string
	for _, q := range d.svc.Queues() {
		if caller.May(access.Read, q.ID()) {
			lists = append(lists, d.pub.ResourceLists(q.ID())...)
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Write([]byte(wellknown.Robots(lists)))
}

// PublishingStatus is the status of a publisher.
func PublishingStatus(pub *publisher.Publisher) Published {
	s := Published{BaseURI: pub.BaseURI() + "/", Sets: []PublishedSet{}}
	if err := pub.Failure(); err != nil {
		s.Error = err.Error()
	}
	for _, st := range pub.State() {
		set := PublishedSet{Queue: st.Queue, Set: st.Set.String(), Event: uint64(st.Event), Cursor: uint64(st.Read),
			LagEvents: uint64(st.Event - st.Read), Lag: st.Lag.Round(time.Microsecond).Seconds(),
			Open: st.Open, Lists: st.Lists, Waiting: st.Waiting, Packages: st.Packages, Dumps: st.Dumps, Octets: st.Octets}
		if st.Err != nil {
			set.Error = st.Err.Error()
		}
		s.Sets = append(s.Sets, set)
	}
	return s
}
