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

// totals are over all queues that a reader may see.
type totals struct {
	queues                        int
	pending, held, leased, failed int64
	mirrored                      mirrored
	worst                         []ledger.State // with the most failed jobs, at most worstQueues
}

// worstQueues is how many queues with failed jobs stand above the list.
const worstQueues = 5

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

// parts are the parts of the page that change.
func (p *indexPage) parts() []Part {
	parts := []Part{newPart("node", "node", p.Node), newPart("alarm", "alarm", p.Alarm), newPart("mirrors", "mirror note", p.Mirrors),
		newPart("tiles", "tiles", p.Tiles), newPart("charts", "charts part", p.Charts)}
	for _, q := range p.Queues {
		parts = append(parts, newPart(q.ID, "queue row", q))
	}
	return parts
}

func newAlarm(base state.Base, trouble []Trouble, worst []ledger.State) alarm {
	a := alarm{}
	for _, t := range trouble {
		a.Trouble = append(a.Trouble, cured{t.Text, base.Ref(ManualDir) + "/" + t.Topic})
	}
	for i := range worst {
		q := newIndexQueue(base, &worst[i], time.Time{})
		a.Failed = append(a.Failed, link{q.FailedRef, fmt.Sprintf("%s: %s", q.Name, figure(q.Failed))})
	}
	return a
}

func totalTiles(base state.Base, t *totals) []tile {
	tiles := []tile{{Label: word(t.queues, "queue"), Count: figure(t.queues)}, {Label: "pending", Count: figure(t.pending)},
		{Label: "on hold", Count: figure(t.held)}, {Label: "in work", Count: figure(t.leased), Ref: base.Ref("workers")},
		{Label: "failed", Count: figure(t.failed)}}
	if t.failed > 0 {
		tiles[4].Class = "stop"
	}
	return tiles
}

func newIndexQueue(base state.Base, s *ledger.State, now time.Time) indexQueue {
	ref := base.Ref("state", s.Info.ID)
	q := indexQueue{State: *s, ID: "q-" + s.Info.ID, Name: shortName(s.Info), Ref: state.XHTML.Ask(ref),
		FailedRef: base.Ref("failures", s.Info.ID),
		Last:      s.LastEvent.UTC().Format(time.DateTime), Ago: state.Ago(now, s.LastEvent)}
	for i, n := range [...]int64{s.Pending, s.Held, s.Leased, s.Failed, s.Consumed} {
		q.Counts[i] = figure(n)
	}
	if q.Oldest = "–"; !s.Oldest.IsZero() && !now.IsZero() {
		q.Oldest = lasting(now.Sub(s.Oldest).Seconds())
	}
	q.Badges = badgesOf(s.Info)
	if s.Shut {
		q.Badges = append(q.Badges, "shut")
	}
	if s.Mirror.Live() {
		q.Badges = append(q.Badges, "mirror")
	}
	return q
}

// badgesOf says what a queue does not do at present.
func badgesOf(info home.QueueInfo) (words []string) {
	if !info.Paused.IsZero() {
		words = append(words, "paused")
	}
	if info.Closed {
		words = append(words, "closed")
	}
	return words
}

// index answers with the page of the service as it is.
func (b *Board) index(w http.ResponseWriter, r *http.Request) error {
	livePath := "/live"
	after := r.URL.Query().Get("after")
	if after != "" {
		livePath += "?after=" + url.QueryEscape(after)
	}
	v := b.site(r, livePath)
	readable, own, name := b.readable(r), b.usable(v, r), clean(b.Service.Info().Name)
	if len(readable) == 0 && !mayReadAll(r) {
		v.Live = ""
		p := &ownPage{head: v.head(name).there(), Alarm: newAlarm(v.Base, b.trouble(), nil), Queues: own}
		if len(own) == 0 {
			p.None = "There is no queue yet that you may use."
		}
		return answer(w, v.write("own", p))
	}
	p := b.service(v.Base, readable, after, mayReadAll(r), time.Now())
	p.head, p.Own = v.head(name).there(), own
	if access.CallerOf(r.Context()).May(web.Admin, "") {
		a := createQueue
		a.Action = v.page("state")
		p.Actions = []action{a}
	}
	return answer(w, v.write("index", p))
}

// there is the head of the page that the first step of its way leads to.
func (h head) there() head {
	if len(h.Path) > 0 && h.Path[0].Class == "" {
		h.Path[0].Ref = ""
	}
	return h
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

// usable returns links to queues that the caller of a request may use, but not read.
func (b *Board) usable(v Site, r *http.Request) (all []link) {
	caller := access.CallerOf(r.Context())
	if caller.May(web.Read, "") {
		return nil
	}
	for _, q := range b.Service.Queues() {
		if id := q.ID(); !caller.May(web.Read, id) && (caller.May(web.Submit, id) || caller.May(web.Consume, id) || caller.May(web.Delete, id)) && len(all) < mostOwn {
			all = append(all, link{v.Base.Ref(OwnDir, id), shortName(q.Info())})
		}
	}
	return all
}

// shortName is the name of a queue for people.
func shortName(info home.QueueInfo) string { return cmp.Or(clipped(clean(info.Name)), info.ID) }

// service describes the service by its readable queues, from the one after a name on.
// whole says these are all queues.
func (b *Board) service(base state.Base, queues []*queuefs.Queue, after string, whole bool, now time.Time) *indexPage {
	info := b.Service.Info()
	p := &indexPage{Lead: info.Description, Scheme: info.Scheme, Read: base.Ref("read"), Node: newNodeNote(state.NodeOf(b.Service), now)}
	from := 0
	if q, err := b.Service.Queue(after); err == nil {
		from = slices.Index(queues, q) + 1
	}
	end := min(len(queues), from+IndexQueues)
	for _, q := range queues[from:end] {
		s := q.State()
		row := newIndexQueue(base, &s, now)
		row.Growth = b.History.Trend(q.ID(), now).Sign()
		p.Queues = append(p.Queues, row)
	}
	if from < end && end < len(queues) {
		p.Next = "?after=" + url.QueryEscape(queues[end-1].ID())
	}
	var t totals
	if whole {
		t = b.all.of(queues, now)
		p.Charts = newChartsPart(b.History.Of("", Hour, now), b.History.Trend("", now), t.pending, base, "", now)
	} else {
		t = totalsOf(queues)
		p.Charts = newChartsPart(nil, Trend{}, t.pending, base, "", now)
	}
	p.Alarm, p.Mirrors, p.Tiles = newAlarm(base, b.trouble(), t.worst), newMirrorNote(base, &t.mirrored), totalTiles(base, &t)
	return p
}

// lastTotals are totals over all queues. With many of them they are taken from time to time
// alone: 100,000 queues take a tenth of a second.
type lastTotals struct {
	mu   sync.Mutex
	at   time.Time
	last totals
}

const (
	manyQueues  = 2000
	totalsEvery = 5 * time.Second
)

func (t *lastTotals) of(queues []*queuefs.Queue, now time.Time) totals {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(queues) < manyQueues || now.Sub(t.at) > totalsEvery {
		t.last, t.at = totalsOf(queues), now
	}
	return t.last
}

func totalsOf(queues []*queuefs.Queue) totals {
	t := totals{queues: len(queues)}
	for _, q := range queues {
		s := q.State()
		t.mirrored.add(&s)
		t.pending, t.held, t.leased, t.failed = t.pending+s.Pending, t.held+s.Held, t.leased+s.Leased, t.failed+s.Failed
		if s.Failed > 0 {
			if t.worst = append(t.worst, s); len(t.worst) > 10*worstQueues {
				t.worst = mostFailed(t.worst)
			}
		}
	}
	t.worst = mostFailed(t.worst)
	return t
}

// mostFailed returns the queues with the most failed jobs.
func mostFailed(queues []ledger.State) []ledger.State {
	slices.SortStableFunc(queues, func(a, b ledger.State) int { return cmp.Compare(b.Failed, a.Failed) })
	return queues[:min(len(queues), worstQueues)]
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
		return b.service(base, queues, after, whole, now).parts()
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
