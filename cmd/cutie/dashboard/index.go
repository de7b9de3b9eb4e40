package dashboard

import (
	"fmt"
	"time"

	"cutie/cmd/cutie/history"
	"cutie/cmd/cutie/live"
	"cutie/queuefs"
	"cutie/queuefs/state"
)

// A Service is what the page of the service shows: the part of it that a reader may see.
type Service struct {
	Info    queuefs.ServiceInfo
	Node    state.Node           // of a home in an object store
	Queues  []queuefs.QueueState // at most [IndexQueues]
	Trends  []Trend              // of these queues; nil: unknown
	Trend   Trend                // of all queues together
	Own     []OwnQueue           // queues that the reader may use, but not read
	Next    string               // query of the page of the queues after these; "": there are none
	Totals  Totals
	Points  []history.Point // of the last hour; nil: the reader may not see them, or there are none
	Trouble []Trouble       // of the whole service
}

// Totals are over all queues that a reader may see.
type Totals struct {
	Queues                        int
	Pending, Held, Leased, Failed int64
	Mirrored                      Mirrored
	Worst                         []queuefs.QueueState // with the most failed jobs, at most [WorstQueues]
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
	queuefs.QueueState
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
func IndexParts(base state.Base, s *Service, now time.Time) []live.Part {
	parts := []live.Part{newPart("node", "node", newNodeNote(s.Node, now)), newPart("alarm", "alarm", newAlarm(base, s.Trouble, s.Totals.Worst)),
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

func newAlarm(base state.Base, trouble []Trouble, worst []queuefs.QueueState) alarm {
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

func newIndexQueue(base state.Base, s *queuefs.QueueState, now time.Time) indexQueue {
	ref := base.Ref("state", s.Info.ID)
	q := indexQueue{QueueState: *s, ID: "q-" + s.Info.ID, Name: clipped(clean(s.Info.Name)), Ref: state.XHTML.Ask(ref),
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
