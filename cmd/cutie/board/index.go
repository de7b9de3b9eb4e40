package board

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"cutie/cmd/cutie/access"
	"cutie/cmd/cutie/dashboard"
	"cutie/cmd/cutie/live"
	"cutie/queuefs"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// index answers with the page of the service as it is.
func (b *Board) index(w http.ResponseWriter, r *http.Request) error {
	now := time.Now()
	livePath := "/live"
	if after := r.URL.Query().Get("after"); after != "" {
		livePath += "?after=" + url.QueryEscape(after)
	}
	v := b.site(r, livePath)
	readable, own := b.readable(r), b.usable(r)
	if len(readable) == 0 && !mayReadAll(r) {
		return answer(w, dashboard.OwnQueues(b.site(r, ""), b.Service.Info().Name, own, b.trouble()))
	}
	s := b.service(readable, r.URL.Query().Get("after"), mayReadAll(r), now)
	s.Info.BaseURI, s.Own = string(v.Base), own
	return answer(w, dashboard.Index(v, s, access.CallerOf(r.Context()).May(web.Admin, ""), now))
}

// readable returns the queues open to the caller of a request.
func (b *Board) readable(r *http.Request) []*queuefs.Queue {
	caller := access.CallerOf(r.Context())
	all := b.Service.Queues()
	if caller.May(web.Read, "") {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(q *queuefs.Queue) bool { return !caller.May(web.Read, q.ID()) })
}

// mostOwn is how many queues to use a page lists.
const mostOwn = 1000

// usable returns queues that the caller of a request may use, but not read.
func (b *Board) usable(r *http.Request) (all []dashboard.OwnQueue) {
	caller := access.CallerOf(r.Context())
	if caller.May(web.Read, "") {
		return nil
	}
	for _, q := range b.Service.Queues() {
		if id := q.ID(); !caller.May(web.Read, id) && (caller.May(web.Submit, id) || caller.May(web.Consume, id) || caller.May(web.Delete, id)) && len(all) < mostOwn {
			all = append(all, ownQueue(q, nil))
		}
	}
	return all
}

func ownQueue(q *queuefs.Queue, after url.Values) dashboard.OwnQueue {
	return dashboard.OwnQueue{ID: q.ID(), Info: q.Info(), Mirror: q.Mirror().Live(), After: after}
}

// own answers with the forms of a queue for callers who may not read it.
func (b *Board) own(w http.ResponseWriter, r *http.Request) error {
	q, err := b.queue(r)
	if err != nil {
		return err
	}
	o := ownQueue(q, r.URL.Query())
	return answer(w, dashboard.Own(b.site(r, ""), &o, b.trouble()))
}

// service describes the service by its readable queues, from the one after a name on.
// whole says these are all queues.
func (b *Board) service(queues []*queuefs.Queue, after string, whole bool, now time.Time) *dashboard.Service {
	s := &dashboard.Service{Info: b.Service.Info(), Node: state.NodeOf(b.Service), Trouble: b.trouble()}
	from := 0
	if q, err := b.Service.Queue(after); err == nil {
		from = slices.Index(queues, q) + 1
	}
	for _, q := range queues[from:min(len(queues), from+dashboard.IndexQueues)] {
		s.Queues, s.Trends = append(s.Queues, q.State()), append(s.Trends, dashboard.TrendOf(b.History, q.ID(), now))
	}
	if n := len(s.Queues); from+n < len(queues) {
		s.Next = "?after=" + url.QueryEscape(s.Queues[n-1].Info.ID)
	}
	if whole {
		s.Points, s.Totals, s.Trend = b.points("", now), b.all.of(queues, now), dashboard.TrendOf(b.History, "", now)
	} else {
		s.Totals = totalsOf(queues)
	}
	return s
}

// totals are over all queues. With many of them they are taken from time to time alone:
// 100,000 queues take a tenth of a second.
type totals struct {
	mu   sync.Mutex
	at   time.Time
	last dashboard.Totals
}

const (
	manyQueues  = 2000
	totalsEvery = 5 * time.Second
)

func (t *totals) of(queues []*queuefs.Queue, now time.Time) dashboard.Totals {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(queues) < manyQueues || now.Sub(t.at) > totalsEvery {
		t.last, t.at = totalsOf(queues), now
	}
	return t.last
}

func totalsOf(queues []*queuefs.Queue) dashboard.Totals {
	t := dashboard.Totals{Queues: len(queues)}
	for _, q := range queues {
		s := q.State()
		t.Mirrored.Add(&s)
		t.Pending, t.Held, t.Leased, t.Failed = t.Pending+s.Pending, t.Held+s.Held, t.Leased+s.Leased, t.Failed+s.Failed
		if s.Failed > 0 {
			if t.Worst = append(t.Worst, s); len(t.Worst) > 10*dashboard.WorstQueues {
				t.Worst = mostFailed(t.Worst)
			}
		}
	}
	t.Worst = mostFailed(t.Worst)
	return t
}

// mostFailed returns the queues with the most failed jobs.
func mostFailed(queues []queuefs.QueueState) []queuefs.QueueState {
	slices.SortStableFunc(queues, func(a, b queuefs.QueueState) int { return cmp.Compare(b.Failed, a.Failed) })
	return queues[:min(len(queues), dashboard.WorstQueues)]
}

func (b *Board) trouble() []dashboard.Trouble {
	if b.Trouble == nil {
		return nil
	}
	return b.Trouble()
}

// liveIndex sends the parts of the page of the service. Watchers with the same queues
// share them.
func (b *Board) liveIndex(w http.ResponseWriter, r *http.Request) error {
	base, after, whole := b.base(r), r.URL.Query().Get("after"), mayReadAll(r)
	key := []string{string(base), after, "all"}
	queues := b.readable(r)
	if !whole {
		key[2] = "some"
		for _, q := range queues {
			key = append(key, q.ID())
		}
	}
	if r.URL.Query().Get("page") == "workers" {
		key[2] += " workers"
		return b.Hub.Serve(w, r, strings.Join(key, "\n"), workersParts(base, "", func() []*queuefs.Queue {
			if whole {
				return b.Service.Queues()
			}
			return queues
		}))
	}
	return b.Hub.Serve(w, r, strings.Join(key, "\n"), func() []live.Part {
		now := time.Now()
		if whole {
			queues = b.Service.Queues()
		}
		return dashboard.IndexParts(base, b.service(queues, after, whole, now), now)
	})
}

// liveQueue sends the parts of the page of a queue.
func (b *Board) liveQueue(w http.ResponseWriter, r *http.Request) error {
	q, err := b.queue(r)
	if err != nil {
		return err
	}
	base := b.base(r)
	if r.URL.Query().Get("page") == "workers" {
		return b.Hub.Serve(w, r, string(base)+"\nworkers/"+q.ID(), workersParts(base, q.ID(), func() []*queuefs.Queue { return []*queuefs.Queue{q} }))
	}
	may := web.MayOf(r.Context())
	requeue := may == nil || may(http.MethodPost, base.Ref("requeue", q.ID())[len(base):])
	return b.Hub.Serve(w, r, fmt.Sprintf("%s\n/%s/%t", base, q.ID(), requeue), b.queueParts(base, q, requeue))
}

// liveJob says that a job has changed after the event seen.
func (b *Board) liveJob(w http.ResponseWriter, r *http.Request) error {
	q, err := b.queue(r)
	if err != nil {
		return err
	}
	id, err := queuefs.ParseJobID(r.PathValue("job"))
	if err != nil {
		return web.NotHere
	}
	seen, err := strconv.ParseUint(r.URL.Query().Get("sequence"), 10, 63)
	if err != nil {
		return web.Errorf(http.StatusBadRequest, "parameter sequence: %v", err)
	}
	base := b.base(r)
	var parts []live.Part
	last := ^queuefs.Seq(0)
	return b.Hub.Serve(w, r, fmt.Sprintf("%s\njob/%s/%s/%d", base, q.ID(), id, seen), func() []live.Part {
		if now := q.State().Seq; now != last { // else the job is as it was
			j, err := q.Job(id)
			switch {
			case err == nil:
				parts = dashboard.JobParts(base, &j, queuefs.Seq(seen))
			case errors.Is(err, queuefs.ErrNoJob):
				parts = dashboard.JobParts(base, nil, queuefs.Seq(seen))
			}
			last = now
		}
		return parts
	})
}

// queueParts returns a function for the parts of the page of a queue. It reads job files
// only after an event.
func (b *Board) queueParts(base state.Base, q *queuefs.Queue, requeue bool) func() []live.Part {
	var a *dashboard.QueueAside
	seq := queuefs.Seq(0)
	return func() []live.Part {
		now := time.Now()
		s := q.State()
		if a == nil || s.Seq != seq {
			a = b.Queue(q.ID())
			seq = s.Seq
		}
		if a == nil {
			return nil
		}
		a.Trouble, a.Points, a.Trend = b.trouble(), b.points(q.ID(), now), dashboard.TrendOf(b.History, q.ID(), now)
		return dashboard.QueueParts(base, &s, a, requeue, now)
	}
}
