package md5lanes

import (
	"crypto/md5"
	"runtime"
	"slices"
	"sync"
	"unsafe"
)

const (
	lanes = 8
	// atOnce is how many blocks of each stream are hashed before newcomers are
	// let in: some 50 µs of work.
	atOnce = 512
)

// A team hashes streams side by side. One of them, the leader, does the work;
// when its own is done and that of others is not, it appoints one of them.
type team struct {
	coming  []*stream // to be given a lane; guarded by teams.mu
	members int       // with a lane or coming; guarded by teams.mu

	// What follows is the leader's. While a lane is loaded its state is in words,
	// and the hash of the stream does not know of the octets it is ahead by.
	streams [lanes]*stream
	loaded  [lanes]bool
	ahead   [lanes]int
	words   [4][lanes]uint32
}

// teams are those that have members. A stream joins the first with a free
// lane, so that there are only as many as it takes.
var teams struct {
	mu     sync.Mutex
	active []*team
	idle   []*team
}

// join returns when what is in s.rest was hashed.
func join(s *stream) {
	if t := enter(s); t != nil {
		// Who is about to bring a piece does so now.
		runtime.Gosched()
		t.lead(s)
	}
}

// enter makes s a member of a team and returns when it is done, with nil, or
// when it is to lead the team.
func enter(s *stream) *team {
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
func (t *team) lead(s *stream) {
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
	n, members, last := atOnce*md5.BlockSize, 0, 0
	for i, s := range t.streams {
		if s != nil {
			n, members, last = min(n, len(s.rest)), members+1, i
		}
	}
	if s := t.streams[last]; members == 1 {
		t.settle(last)
		s.Hash.Write(s.rest[:n])
		s.rest = s.rest[n:]
		return
	}
	var data [lanes]unsafe.Pointer
	for i, s := range t.streams {
		if s == nil {
			s = t.streams[last] // whatever comes of it
		} else if !t.loaded[i] {
			for k, w := range s.load() {
				t.words[k][i] = w
			}
			t.loaded[i] = true
		}
		data[i] = unsafe.Pointer(unsafe.SliceData(s.rest))
	}
	blocks8(&t.words, &data, n/md5.BlockSize)
	for i, s := range t.streams {
		if s != nil {
			s.rest = s.rest[n:]
			t.ahead[i] += n
		}
	}
}

// settle lets the stream of a lane know all that was hashed.
func (t *team) settle(lane int) {
	if !t.loaded[lane] {
		return
	}
	var words [4]uint32
	for k := range words {
		words[k] = t.words[k][lane]
	}
	t.streams[lane].store(words, t.ahead[lane])
	t.loaded[lane], t.ahead[lane] = false, 0
}

// dismiss lets those go who are done. If the leader is one of them, another
// member leads from then on, and nothing of the team may be touched any more.
func (t *team) dismiss(leader *stream) {
	var done [lanes]*stream
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
	var next *stream
	teams.mu.Lock()
	t.members -= n
	switch {
	case t.members == 0:
		teams.active = slices.DeleteFunc(teams.active, func(a *team) bool { return a == t })
		teams.idle = append(teams.idle, t)
	case len(leader.rest) == 0:
		if i := slices.IndexFunc(t.streams[:], func(s *stream) bool { return s != nil }); i >= 0 {
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
func (s *stream) goOn(leads bool) {
	s.leads = leads
	s.turn.Unlock()
}
