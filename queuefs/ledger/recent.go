package ledger

import "sync"

// A recent has ledgers in the order of their last changes, so that a follower of all
// queues pays for those that have changed.
type recent struct {
	mu    sync.Mutex
	count uint64  // changes, and 1
	last  *Ledger // the one changed last; its newer is nil
}

// A turn is the place of a ledger in a recent, guarded by its lock.
type turn struct {
	at           uint64 // count of the last change; 0: not in it
	newer, older *Ledger
}

// Touch notes a change of the queue that followers may want to see.
func (l *Ledger) Touch() {
	r := &l.shared.recent
	r.mu.Lock()
	defer r.mu.Unlock()
	r.takeOut(l)
	r.count = max(r.count, 1) + 1
	l.turn = turn{at: r.count, older: r.last}
	if r.last != nil {
		r.last.turn.newer = l
	}
	r.last = l
}

// takeOut takes a ledger out; mu is held.
func (r *recent) takeOut(l *Ledger) {
	t := &l.turn
	if t.at == 0 {
		return
	}
	if t.newer != nil {
		t.newer.turn.older = t.older
	} else {
		r.last = t.older
	}
	if t.older != nil {
		t.older.turn.newer = t.newer
	}
	*t = turn{}
}

// Since returns the ledgers that have changed after the given count, and the new count
// for the next call. With 0 it returns no ledger: the caller wants all.
func (s *Shared) Since(after uint64) (changed []*Ledger, now uint64) {
	r := &s.recent
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := r.last; l != nil && after > 0 && l.turn.at > after; l = l.turn.older {
		changed = append(changed, l)
	}
	return changed, max(r.count, 1)
}

// leave takes the ledger of a removed queue out.
func (l *Ledger) leave() {
	r := &l.shared.recent
	r.mu.Lock()
	defer r.mu.Unlock()
	r.takeOut(l)
}

// An awake has ledgers with something to do.
type awake struct {
	mu  sync.Mutex
	set map[*Ledger]bool
}

func (a *awake) add(l *Ledger) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.set == nil {
		a.set = map[*Ledger]bool{}
	}
	a.set[l] = true
}

// those returns the ledgers for which still is true, and forgets the others.
func (a *awake) those(still func(*Ledger) bool) (some []*Ledger) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for l := range a.set {
		if still(l) {
			some = append(some, l)
		} else {
			delete(a.set, l)
		}
	}
	return some
}

// Unfiled returns the ledgers with files behind the journal, in no order.
func (s *Shared) Unfiled() []*Ledger {
	return s.unfiled.those(func(l *Ledger) bool {
		l.mu.RLock()
		defer l.mu.RUnlock()
		return len(l.backlog.jobs) > 0
	})
}

// Timed returns the ledgers with jobs that have deadlines, or may have them in their job
// files.
func (s *Shared) Timed() []*Ledger {
	return s.timed.those(func(l *Ledger) bool {
		l.mu.RLock()
		defer l.mu.RUnlock()
		return l.idx.Timed()
	})
}

// Wake makes the queue one of [Shared.Unfiled] and [Shared.Timed] if it is to be.
func (l *Ledger) Wake() {
	l.mu.RLock()
	unfiled, timed := len(l.backlog.jobs) > 0, l.idx.Timed()
	l.mu.RUnlock()
	if unfiled {
		l.shared.unfiled.add(l)
	}
	if timed {
		l.shared.timed.add(l)
	}
}
