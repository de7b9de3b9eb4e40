package lanes

import (
	"runtime"
	"slices"
	"sync"
	"unsafe"
)

const (
	lanes = 8
	// atOnce is how many blocks of each stream are hashed before newcomers are
	// let in: some 200 µs of work.
	atOnce = 512
)

// A team hashes streams side by side. One of them, the leader, does the work;
// when its own is done and that of others is not, it appoints one of them.
type team struct {
	coming  []*Sums // to be given a lane; guarded by teams.mu
	members int     // with a lane or coming; guarded by teams.mu

	// What follows is the leader's. While a lane is loaded its states are here,
	// and the hashes of the stream do not know of the octets it is ahead by.
	streams [lanes]*Sums
	loaded  [lanes]bool
	ahead   [lanes]int
	md5     [4][lanes]uint32
	sha     [lanes][8]uint32 // in shaOrder
}

// teams are those that have members. A stream joins the first with a free
// lane, so that there are only as many as it takes.
var teams struct {
	mu     sync.Mutex
	active []*team
	idle   []*team
}

// join returns when what is in s.rest was hashed.
func join(s *Sums) {
	if t := enter(s); t != nil {
		// Who is about to bring a piece does so now.
		runtime.Gosched()
		t.lead(s)
	}
}

// enter makes s a member of a team and returns when it is done, with nil, or
// when it is to lead the team.
func enter(s *Sums) *team {
	teams.mu.Lock()
	for _, t := range teams.active {
		if t.members < lanes {
			t.members++
			t.coming = append(t.coming, s)
			s.turn.Lock()
			teams.mu.Unlock()
			s.turn.Lock() // which whoever leads unlocks
			leads := s.leads
			s.turn.Unlock()
			if leads {
				return t
			}
			return nil
		}
	}
	t := &team{}
	if n := len(teams.idle); n > 0 {
		t, teams.idle = teams.idle[n-1], teams.idle[:n-1]
	}
	t.members, t.coming = 1, append(t.coming, s)
	teams.active = append(teams.active, t)
	teams.mu.Unlock()
	return t
}

// lead hashes what the members have brought until s is done.
func (t *team) lead(s *Sums) {
	for len(s.rest) > 0 {
		t.admit()
		t.hash()
		t.dismiss(s)
	}
}

// admit gives those who came a lane each; there are enough.
func (t *team) admit() {
	teams.mu.Lock()
	defer teams.mu.Unlock()
	for i := range t.streams {
		if n := len(t.coming); n > 0 && t.streams[i] == nil {
			t.streams[i], t.coming[n-1] = t.coming[n-1], nil
			t.coming = t.coming[:n-1]
		}
	}
}

// hash hashes as many blocks as every stream has, up to atOnce.
func (t *team) hash() {
	n, members, last := atOnce*blockSize, 0, 0
	for i, s := range t.streams {
		if s != nil {
			n, members, last = min(n, len(s.rest)), members+1, i
		}
	}
	if members == 1 {
		t.settle(last)
		s := t.streams[last]
		s.md5.Write(s.rest[:n])
		if shaNI {
			s.sha.Write(s.rest[:n])
		}
		s.rest = s.rest[n:]
		return
	}
	var data [lanes]unsafe.Pointer
	for i, s := range t.streams {
		if s == nil {
			s = t.streams[last] // whatever comes of it
		} else {
			t.load(i)
		}
		data[i] = unsafe.Pointer(unsafe.SliceData(s.rest))
	}
	md5x8(&t.md5, &data, n/blockSize)
	first := -1 // of two, whose partner is still to be found
	for i, s := range t.streams {
		if s == nil {
			continue
		}
		s.rest = s.rest[n:]
		t.ahead[i] += n
		switch {
		case !shaNI:
		case first < 0:
			first = i
		default:
			sha256x2(&t.sha[first], &t.sha[i], data[first], data[i], n/blockSize)
			first = -1
		}
	}
	if first >= 0 {
		nobody := t.sha[first]
		sha256x2(&t.sha[first], &nobody, data[first], data[first], n/blockSize)
	}
}

// load takes the states of a stream into its lane.
func (t *team) load(lane int) {
	if t.loaded[lane] {
		return
	}
	s := t.streams[lane]
	var words [8]uint32
	s.load(s.md5, words[:4])
	for k, w := range words[:4] {
		t.md5[k][lane] = w
	}
	if shaNI {
		s.load(s.sha, words[:])
		for k, w := range words {
			t.sha[lane][shaOrder[k]] = w
		}
	}
	t.loaded[lane] = true
}

// settle lets the stream of a lane know all that was hashed.
func (t *team) settle(lane int) {
	if !t.loaded[lane] {
		return
	}
	s := t.streams[lane]
	var words [8]uint32
	for k := range t.md5 {
		words[k] = t.md5[k][lane]
	}
	s.store(s.md5, words[:4], t.ahead[lane])
	if shaNI {
		for k := range words {
			words[k] = t.sha[lane][shaOrder[k]]
		}
		s.store(s.sha, words[:], t.ahead[lane])
	}
	t.loaded[lane], t.ahead[lane] = false, 0
}

// dismiss lets those go who are done. If the leader is one of them, another
// member leads from then on, and nothing of the team may be touched any more.
func (t *team) dismiss(leader *Sums) {
	var done [lanes]*Sums
	n := 0
	for i, s := range t.streams {
		if s != nil && len(s.rest) == 0 {
			t.settle(i)
			t.streams[i] = nil
			done[n] = s
			n++
		}
	}
	if n == 0 {
		return
	}
	var next *Sums
	teams.mu.Lock()
	t.members -= n
	switch {
	case t.members == 0:
		teams.active = slices.DeleteFunc(teams.active, func(a *team) bool { return a == t })
		teams.idle = append(teams.idle, t)
	case len(leader.rest) == 0:
		if i := slices.IndexFunc(t.streams[:], func(s *Sums) bool { return s != nil }); i >= 0 {
			next = t.streams[i]
		} else {
			next = t.coming[0]
		}
	}
	teams.mu.Unlock()
	for _, s := range done[:n] {
		if s != leader {
			s.goOn(false)
		}
	}
	if next != nil {
		next.goOn(true)
	}
}

// goOn wakes who waits in enter.
func (s *Sums) goOn(leads bool) {
	s.leads = leads
	s.turn.Unlock()
}
