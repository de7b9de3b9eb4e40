package dashboard

import (
	"time"

	"cutie/queuefs"
	"cutie/queuefs/state"
)

// An indexPage lists queues with the figures for operators.
type indexPage struct {
	head
	Lead, Scheme string
	Node         state.Node // of a home in an object store
	Lag          string     // of a standby
	Queues       []indexQueue
	Next         string // the page of the queues after these; "": there are none
	Actions      []action
}

type indexQueue struct {
	queuefs.QueueState
	Name, Ref, FailedRef   string
	PendingSet, ReplicaSet string // Capability Lists
	Badges                 []string
	Last, Ago              string // of the last event
}

// IndexQueues is how many queues the page of the service has.
const IndexQueues = 200

// Index returns the page of the service with these queues; node is the process. next refers to the page of
// the others, "" if there are none. create says whether the reader may make a queue.
func Index(info queuefs.ServiceInfo, node state.Node, queues []queuefs.QueueState, next string, create bool, now time.Time) []byte {
	base := state.NewBase(info.BaseURI)
	p := indexPage{head: newHead(info.Name, base), Lead: info.Description, Scheme: info.Scheme, Node: node, Next: next}
	if !node.UpToDate.IsZero() {
		p.Lag = now.Sub(node.UpToDate).Round(time.Millisecond).String()
	}
	p.Path[0].Ref = "" // the reader is there
	for _, s := range queues {
		q := indexQueue{QueueState: s, Name: s.Info.Name, Ref: state.XHTML.Ask(base.Ref("state", s.Info.ID)),
			FailedRef:  state.XHTML.Ask(base.Ref("state", s.Info.ID) + "?outcome=error"),
			PendingSet: base.CapabilityList(s.Info.ID, "pending"), ReplicaSet: base.CapabilityList(s.Info.ID, "replica"),
			Last: s.LastEvent.UTC().Format(time.DateTime), Ago: state.Ago(now, s.LastEvent)}
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
		p.Queues = append(p.Queues, q)
	}
	if create {
		a := createQueue
		a.Action = state.XHTML.Ask(base.Ref("state"))
		p.Actions = []action{a}
	}
	return appendPage(nil, "index", p)
}
