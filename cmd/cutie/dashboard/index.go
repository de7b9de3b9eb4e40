package dashboard

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
	"cutie/queuefs"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// A Service is what the page of the service shows: the part of it that a reader may see.
type Service struct {
	Info    home.ServiceInfo
	Node    state.Node     // of a home in an object store
	Queues  []ledger.State // at most [IndexQueues]
	Trends  []Trend        // of these queues; nil: unknown
	Trend   Trend          // of all queues together
	Own     []OwnQueue     // queues that the reader may use, but not read
	Next    string         // query of the page of the queues after these; "": there are none
	Totals  Totals
	Points  []Point   // of the last hour; nil: the reader may not see them, or there are none
	Trouble []Trouble // of the whole service
}

// Totals are over all queues that a reader may see.
type Totals struct {
	Queues                        int
	Pending, Held, Leased, Failed int64
	Mirrored                      Mirrored
	Worst                         []ledger.State // with the most failed jobs, at most [WorstQueues]
}

// WorstQueues is how many queues with failed jobs stand above the list.
const WorstQueues = 5

// IndexQueues is how many queues the page of the service has.
const IndexQueues = 100

// An indexPage lists queues with the figures for operators.
type indexPage struct {
	head
	Lead, Scheme, Read string
	Node               nodeNote
	Alarm              alarm
	Mirrors            *mirrorNote
	Tiles              []tile
	Charts             chartsPart
	Queues             []indexQueue
	Own                []link
	Next               string
	Actions            []action
}

// A nodeNote is a daemon among others with the same home.
type nodeNote struct {
	state.Node
	Lag string // of a standby
}

func newNodeNote(n state.Node, now time.Time) nodeNote {
	note := nodeNote{Node: n}
	if !n.UpToDate.IsZero() {
		note.Lag = now.Sub(n.UpToDate).Round(time.Millisecond).String()
	}
	return note
}

// A Trouble is a fault of the whole service in words for everyone.
type Trouble struct {
	Text  string
	Topic string // part of the manual that helps, such as "operating#what-to-do-when"
}

type alarm struct {
	Trouble []cured
	Failed  []link
}

// A cured trouble has the URL of the help.
type cured struct{ Text, Cure string }

type indexQueue struct {
	ledger.State
	ID, Name, Ref, FailedRef string
	Counts                   [5]string // pending, on hold, in work, failed, consumed
	Oldest                   string    // age of the oldest pending job
	Growth                   string    // of the pending jobs
	Badges                   []string
	Last, Ago                string // of the last event
}

// Index returns the page of the service. create says whether the reader may make a
// queue.
func Index(v Site, s *Service, create bool, now time.Time) []byte {
	p := indexPage{head: v.head(clean(s.Info.Name)), Own: ownLinks(v.Base, s.Own), Lead: s.Info.Description, Scheme: s.Info.Scheme, Next: s.Next,
		Read: v.Base.Ref("read"), Node: newNodeNote(s.Node, now), Alarm: newAlarm(v.Base, s.Trouble, s.Totals.Worst), Tiles: totalTiles(v.Base, s),
		Charts: newChartsPart(s.Points, s.Trend, s.Totals.Pending, v.Base, "", now), Mirrors: newMirrorNote(v.Base, &s.Totals.Mirrored)}
	if len(p.Path) > 0 && p.Path[0].Class == "" {
		p.Path[0].Ref = "" // the reader is there
	}
	for i := range s.Queues {
		p.Queues = append(p.Queues, s.row(v.Base, i, now))
	}
	if create {
		a := createQueue
		a.Action = v.page("state")
		p.Actions = []action{a}
	}
	return v.write("index", p)
}

// IndexParts are the parts of this page that change.
func IndexParts(base state.Base, s *Service, now time.Time) []Part {
	parts := []Part{newPart("node", "node", newNodeNote(s.Node, now)), newPart("alarm", "alarm", newAlarm(base, s.Trouble, s.Totals.Worst)),
		newPart("mirrors", "mirror note", newMirrorNote(base, &s.Totals.Mirrored)), newPart("tiles", "tiles", totalTiles(base, s)), newPart("charts", "charts part", newChartsPart(s.Points, s.Trend, s.Totals.Pending, base, "", now))}
	for i := range s.Queues {
		q := s.row(base, i, now)
		parts = append(parts, newPart(q.ID, "queue row", q))
	}
	return parts
}

// row returns the row of a queue.
func (s *Service) row(base state.Base, i int, now time.Time) indexQueue {
	q := newIndexQueue(base, &s.Queues[i], now)
	if q.Growth = "–"; i < len(s.Trends) {
		q.Growth = s.Trends[i].Sign()
	}
	return q
}

func newAlarm(base state.Base, trouble []Trouble, worst []ledger.State) alarm {
	a := alarm{}
	for _, t := range trouble {
		a.Trouble = append(a.Trouble, cured{t.Text, base.Ref(ManualDir) + "/" + t.Topic})
	}
	for i := range worst {
		q := newIndexQueue(base, &worst[i], time.Time{})
		a.Failed = append(a.Failed, link{q.FailedRef, fmt.Sprintf("%s: %s", q.Name, grouped(fmt.Sprint(q.Failed)))})
	}
	return a
}

func totalTiles(base state.Base, s *Service) []tile {
	count := func(n int64) string { return grouped(fmt.Sprint(n)) }
	t := []tile{{Label: word(s.Totals.Queues, "queue"), Count: count(int64(s.Totals.Queues))}, {Label: "pending", Count: count(s.Totals.Pending)},
		{Label: "on hold", Count: count(s.Totals.Held)}, {Label: "in work", Count: count(s.Totals.Leased), Ref: base.Ref("workers")},
		{Label: "failed", Count: count(s.Totals.Failed)}}
	if s.Totals.Failed > 0 {
		t[4].Class = "stop"
	}
	return t
}

func newIndexQueue(base state.Base, s *ledger.State, now time.Time) indexQueue {
	ref := base.Ref("state", s.Info.ID)
	q := indexQueue{State: *s, ID: "q-" + s.Info.ID, Name: clipped(clean(s.Info.Name)), Ref: state.XHTML.Ask(ref),
		FailedRef: base.Ref("failures", s.Info.ID),
		Last:      s.LastEvent.UTC().Format(time.DateTime), Ago: state.Ago(now, s.LastEvent)}
	for i, n := range [...]int64{s.Pending, s.Held, s.Leased, s.Failed, s.Consumed} {
		q.Counts[i] = grouped(fmt.Sprint(n))
	}
	if q.Oldest = "–"; !s.Oldest.IsZero() && !now.IsZero() {
		q.Oldest = lasting(now.Sub(s.Oldest).Seconds())
	}
	if q.Name == "" {
		q.Name = s.Info.ID
	}
	if !s.Info.Paused.IsZero() {
		q.Badges = append(q.Badges, "paused")
	}
	if s.Info.Closed {
		q.Badges = append(q.Badges, "closed")
	}
	if s.Shut {
		q.Badges = append(q.Badges, "shut")
	}
	if s.Mirror.Live() {
		q.Badges = append(q.Badges, "mirror")
	}
	return q
}

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
		return answer(w, OwnQueues(b.site(r, ""), b.Service.Info().Name, own, b.trouble()))
	}
	s := b.service(readable, r.URL.Query().Get("after"), mayReadAll(r), now)
	s.Info.BaseURI, s.Own = string(v.Base), own
	return answer(w, Index(v, s, access.CallerOf(r.Context()).May(web.Admin, ""), now))
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
func (b *Board) usable(r *http.Request) (all []OwnQueue) {
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

func ownQueue(q *queuefs.Queue, after url.Values) OwnQueue {
	return OwnQueue{ID: q.ID(), Info: q.Info(), Mirror: q.Mirror().Live(), After: after}
}

// own answers with the forms of a queue for callers who may not read it.
func (b *Board) own(w http.ResponseWriter, r *http.Request) error {
	q, err := b.queue(r)
	if err != nil {
		return err
	}
	o := ownQueue(q, r.URL.Query())
	return answer(w, Own(b.site(r, ""), &o, b.trouble()))
}

// service describes the service by its readable queues, from the one after a name on.
// whole says these are all queues.
func (b *Board) service(queues []*queuefs.Queue, after string, whole bool, now time.Time) *Service {
	s := &Service{Info: b.Service.Info(), Node: state.NodeOf(b.Service), Trouble: b.trouble()}
	from := 0
	if q, err := b.Service.Queue(after); err == nil {
		from = slices.Index(queues, q) + 1
	}
	for _, q := range queues[from:min(len(queues), from+IndexQueues)] {
		s.Queues, s.Trends = append(s.Queues, q.State()), append(s.Trends, b.History.Trend(q.ID(), now))
	}
	if n := len(s.Queues); from+n < len(queues) {
		s.Next = "?after=" + url.QueryEscape(s.Queues[n-1].Info.ID)
	}
	if whole {
		s.Points, s.Totals, s.Trend = b.History.Of("", Hour, now), b.all.of(queues, now), b.History.Trend("", now)
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
	last Totals
}

const (
	manyQueues  = 2000
	totalsEvery = 5 * time.Second
)

func (t *totals) of(queues []*queuefs.Queue, now time.Time) Totals {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(queues) < manyQueues || now.Sub(t.at) > totalsEvery {
		t.last, t.at = totalsOf(queues), now
	}
	return t.last
}

func totalsOf(queues []*queuefs.Queue) Totals {
	t := Totals{Queues: len(queues)}
	for _, q := range queues {
		s := q.State()
		t.Mirrored.Add(&s)
		t.Pending, t.Held, t.Leased, t.Failed = t.Pending+s.Pending, t.Held+s.Held, t.Leased+s.Leased, t.Failed+s.Failed
		if s.Failed > 0 {
			if t.Worst = append(t.Worst, s); len(t.Worst) > 10*WorstQueues {
				t.Worst = mostFailed(t.Worst)
			}
		}
	}
	t.Worst = mostFailed(t.Worst)
	return t
}

// mostFailed returns the queues with the most failed jobs.
func mostFailed(queues []ledger.State) []ledger.State {
	slices.SortStableFunc(queues, func(a, b ledger.State) int { return cmp.Compare(b.Failed, a.Failed) })
	return queues[:min(len(queues), WorstQueues)]
}

func (b *Board) trouble() []Trouble {
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
	return b.Hub.Serve(w, r, strings.Join(key, "\n"), func() []Part {
		now := time.Now()
		if whole {
			queues = b.Service.Queues()
		}
		return IndexParts(base, b.service(queues, after, whole, now), now)
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
	id, err := job.ParseID(r.PathValue("job"))
	if err != nil {
		return web.NotHere
	}
	seen, err := strconv.ParseUint(r.URL.Query().Get("sequence"), 10, 63)
	if err != nil {
		return web.Errorf(http.StatusBadRequest, "parameter sequence: %v", err)
	}
	base := b.base(r)
	var parts []Part
	last := ^job.Seq(0)
	return b.Hub.Serve(w, r, fmt.Sprintf("%s\njob/%s/%s/%d", base, q.ID(), id, seen), func() []Part {
		if now := q.State().Seq; now != last { // else the job is as it was
			j, err := q.Job(id)
			switch {
			case err == nil:
				parts = JobParts(base, &j, job.Seq(seen))
			case errors.Is(err, ledger.ErrNoJob):
				parts = JobParts(base, nil, job.Seq(seen))
			}
			last = now
		}
		return parts
	})
}

// queueParts returns a function for the parts of the page of a queue. It reads job files
// only after an event.
func (b *Board) queueParts(base state.Base, q *queuefs.Queue, requeue bool) func() []Part {
	var a *QueueAside
	seq := job.Seq(0)
	return func() []Part {
		now := time.Now()
		s := q.State()
		if a == nil || s.Seq != seq {
			a = b.Queue(q.ID())
			seq = s.Seq
		}
		if a == nil {
			return nil
		}
		a.Trouble, a.Points, a.Trend = b.trouble(), b.History.Of(q.ID(), Hour, now), b.History.Trend(q.ID(), now)
		return QueueParts(base, &s, a, requeue, now)
	}
}
