package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs/anvl"
	"cutie/queuefs/bulk"
	"cutie/queuefs/events"
	"cutie/queuefs/job"
	"cutie/queuefs/state"
)

// State returns the state of a job, of a queue if job is "", or of the service
// if queue is "" too, in the given form, unchanged. page selects the listed
// jobs of a queue; without it there are [state.DefaultJobs].
func (c *Client) State(ctx context.Context, form state.Form, queue, job string, page ...bulk.Filter) ([]byte, error) {
	segments := []string{"state"}
	query := url.Values{}
	if queue != "" {
		segments = append(segments, queue)
	}
	if job != "" {
		segments = append(segments, job)
	}
	for _, p := range page {
		setFilter(query, &p)
	}
	return c.state(ctx, http.MethodGet, form, c.ref(query, segments...), nil, nil)
}

// setFilter adds the parameters of a filter.
func setFilter(query url.Values, p *bulk.Filter) {
	set(query, "status", p.Status.String(), p.Status != 0)
	set(query, "outcome", p.Outcome.String(), p.Outcome != 0)
	set(query, "held", "true", p.Held)
	set(query, "batch", p.Batch, p.Batch != "")
	set(query, "submitter", p.Submitter, p.Submitter != "")
	set(query, "after", p.After.String(), p.After != 0)
	set(query, "limit", strconv.Itoa(max(p.Limit, 0)), p.Limit != 0)
}

// set adds a parameter if it is given.
func set(query url.Values, name, value string, given bool) {
	if given {
		query.Set(name, value)
	}
}

// Service returns the state of the service, with all queues. It sends one request for
// each [state.MaxQueues] of them.
func (c *Client) Service(ctx context.Context) (all state.Service, err error) {
	for after := ""; ; {
		query := url.Values{}
		set(query, "after", after, after != "")
		data, err := c.state(ctx, http.MethodGet, state.ANVL, c.ref(query, "state"), nil, nil)
		some, err := decoded(data, err, state.ServiceClass, func(d *state.Document) (state.Service, error) { return d.Service(), nil })
		if err != nil {
			return state.Service{}, err
		}
		queues := append(all.Queues, some.Queues...)
		all, all.Queues = some, queues
		if len(some.Queues) < state.MaxQueues || some.Queues[len(some.Queues)-1] == after {
			return all, nil
		}
		after = some.Queues[len(some.Queues)-1]
	}
}

// Queue returns the state of a queue with a page of its jobs.
func (c *Client) Queue(ctx context.Context, queue string, page bulk.Filter) (state.Queue, error) {
	return decodeQueue(c.State(ctx, state.ANVL, queue, "", page))
}

// Job returns a job. Its Extra is nil.
func (c *Client) Job(ctx context.Context, queue, job string) (job.Job, error) {
	return decodeJob(c.State(ctx, state.ANVL, queue, job))
}

// Jobs yields jobs of a queue in FIFO order, with one request for each page of
// [state.MaxJobs] of them; their Extra is nil. Limit of page is the most jobs
// in all, 0 for any number. Jobs submitted meanwhile are included. An error
// comes last.
func (c *Client) Jobs(ctx context.Context, queue string, page bulk.Filter) iter.Seq2[job.Job, error] {
	return func(yield func(job.Job, error) bool) {
		left := page.Limit
		if left == 0 {
			left = math.MaxInt
		}
		for left > 0 {
			page.Limit = min(left, state.MaxJobs)
			if page.Submitter != "" {
				page.Limit = state.MaxJobs // to be looked at
			}
			next, more, err := c.pageOfJobs(ctx, queue, page, func(j job.Job) bool {
				left--
				return yield(j, nil) && left > 0
			})
			if err != nil {
				yield(job.Job{}, err)
				return
			}
			if !more {
				return
			}
			page.After = next
		}
	}
}

// pageOfJobs yields the jobs of one answer, and returns the job before the next
// answer. more is false if there is none, or if give returns false.
func (c *Client) pageOfJobs(ctx context.Context, queue string, page bulk.Filter, give func(job.Job) bool) (next job.ID, more bool, err error) {
	resp, err := c.jobStates(ctx, state.ANVL, queue, page)
	if err != nil {
		return 0, false, err
	}
	defer resp.Body.Close()
	r := anvl.NewReader(resp.Body)
	r.Limit = maxState
	var text []byte
	for {
		record, err := r.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, false, err
		}
		text = anvl.AppendRecord(text[:0], record)
		j, err := decodeJob(text, nil)
		if err != nil {
			return 0, false, err
		}
		if !give(j) {
			return 0, false, nil
		}
	}
	next, err = nextPage(resp.Header, page)
	return next, next != 0, err
}

// nextPage returns the job before the page in the Link of an answer, 0 if there
// is none.
func nextPage(header http.Header, page bulk.Filter) (job.ID, error) {
	ref := linkTo(header, "next")
	if ref == "" {
		return 0, nil
	}
	u, err := url.Parse(ref)
	if err != nil {
		return 0, err
	}
	next, err := job.ParseID(u.Query().Get("after"))
	if err == nil && next <= page.After {
		err = errors.New("the next page of jobs does not lie behind this one")
	}
	return next, err
}

// JobStates returns the states of a page of jobs as one document, in the given
// form and as the service wrote it; to be closed after use. next is the After of
// the page behind it, 0 if there is none. As for [Client.State] a Limit of 0 is
// [state.DefaultJobs].
func (c *Client) JobStates(ctx context.Context, form state.Form, queue string, page bulk.Filter) (states io.ReadCloser, next job.ID, err error) {
	resp, err := c.jobStates(ctx, form, queue, page)
	if err != nil {
		return nil, 0, err
	}
	if next, err = nextPage(resp.Header, page); err != nil {
		resp.Body.Close()
		return nil, 0, err
	}
	return resp.Body, next, nil
}

func (c *Client) jobStates(ctx context.Context, form state.Form, queue string, page bulk.Filter) (*http.Response, error) {
	query := url.Values{"detail": {"true"}}
	setFilter(query, &page)
	return c.send(ctx, http.MethodGet, c.ref(query, "state", queue), form.MediaType(), nil, nil)
}

// linkTo returns the target of the Link header of a relation (RFC 8288) as a
// service of this package writes it, "" if there is none.
func linkTo(header http.Header, relation string) string {
	for _, link := range header["Link"] {
		target, rest, ok := strings.Cut(strings.TrimPrefix(link, "<"), ">")
		if ok && strings.Contains(rest, `rel="`+relation+`"`) {
			return target
		}
	}
	return ""
}

// Events selects the events to follow.
type Events struct {
	Queue  string // "" for all queues
	From   int64  // number of the first event of the queue; 0 for events from now on
	Kind   string // kinds, separated by commas; "" for all
	Status string // statuses after the event, separated by commas; "" for all
	// Lost gets the reason for the end of a connection before it is made again; nil
	// if nobody wants to know.
	Lost func(error)
}

// Reset is the kind of an Event in place of events that the service no longer has: the
// reader gets the state at State, and goes on with the events after Seq.
const Reset = "reset"

// An Event is a change of a job or of the properties of a queue.
type Event struct {
	Queue  string    // cleaned identifier; "" for all of them
	Seq    int64     // its number in the queue
	Time   time.Time // zero for a Reset
	Kind   string    // such as submit, consume, requeue, delete and cull, or Reset
	Job    string    // "" for the properties of the queue
	From   string    // status before; "" for a new job
	To     string    // status after; "" for a job that is gone
	State  string    // URL of the state of the job or queue; "" for a job that is gone
	Size   int64     // octets of the payload
	Type   string    // media type of the payload
	Reason string    // for a Reset
	Data   []byte    `json:"-"` // all of it in JSON, good until the next Event
}

func decodeEvent(kind string, data []byte) (Event, error) {
	var e Event
	if err := json.Unmarshal(data, &e); err != nil {
		return e, fmt.Errorf("event %s: %w", kind, err)
	}
	e.Kind, e.Data = kind, data
	return e, nil
}

// Follow gives each event to take, over as many connections as needed, until take or
// the service refuses or ctx ends. The first connection must succeed; later ones are
// tried without an end. Each event comes at least once; Queue and Seq tell them apart.
func (c *Client) Follow(ctx context.Context, e Events, take func(Event) error) error {
	query, path := url.Values{}, []string{"events"}
	if e.Queue != "" {
		path = append(path, e.Queue)
	}
	set(query, "from", strconv.FormatInt(e.From, 10), e.From > 0)
	set(query, "kind", e.Kind, e.Kind != "")
	set(query, "status", e.Status, e.Status != "")
	ref := c.ref(query, path...)
	open := func(ctx context.Context, last string) (io.ReadCloser, error) {
		header := http.Header{}
		if last != "" {
			header.Set("Last-Event-ID", last)
		}
		resp, err := c.send(ctx, http.MethodGet, ref, "text/event-stream, "+state.ANVL.MediaType(), header, nil)
		if err != nil {
			return nil, err
		}
		return resp.Body, nil
	}
	lost := e.Lost
	if lost == nil {
		lost = func(error) {}
	}
	return events.Follow(ctx, events.Source{Open: open, Lost: lost}, func(kind string, data []byte) error {
		got, err := decodeEvent(kind, data)
		if err != nil {
			return err
		}
		return take(got)
	})
}
