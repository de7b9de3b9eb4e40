package home

import (
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

// maxReports is how many problems are remembered.
const maxReports = 10_000

// Reports pass problems on: each once until its file changes, since asking for a
// damaged job again and again must not fill the log. They are safe for concurrent use.
type Reports struct {
	dir  string
	to   func(Problem) // nil: nobody
	some atomic.Bool   // there are remembered ones

	tell sync.Mutex // held while a problem is passed on

	mu   sync.Mutex
	seen map[string]map[string]stamp // by path and text
}

// NewReports returns the reports of a home.
func NewReports(dir string, to func(Problem)) *Reports {
	return &Reports{dir: dir, to: to, seen: map[string]map[string]stamp{}}
}

// Add passes a problem on, unless it was before and its file is as it was then.
func (r *Reports) Add(p Problem) {
	if r.to == nil {
		return
	}
	var now stamp
	if st, err := os.Lstat(r.dir + "/" + p.Path); err == nil {
		if sys, ok := st.Sys().(*syscall.Stat_t); ok {
			now = stamp{inode: sys.Ino, size: sys.Size, written: sys.Mtim.Nano(), moved: sys.Ctim.Nano()}
		}
	}
	r.mu.Lock()
	texts := r.seen[p.Path]
	was, seen := texts[p.Text]
	if texts == nil && len(r.seen) < maxReports {
		texts = map[string]stamp{}
		r.seen[p.Path] = texts
	}
	if texts != nil {
		texts[p.Text] = now
	}
	r.some.Store(true)
	r.mu.Unlock()
	if !seen || was != now {
		r.tell.Lock()
		defer r.tell.Unlock()
		r.to(p)
	}
}

// Any reports whether there are problems to forget with Mended.
func (r *Reports) Any() bool { return r.some.Load() }

// Mended forgets the problems of a file that was found sound: if it is lost again, that
// is told again.
func (r *Reports) Mended(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.seen, path)
	r.some.Store(len(r.seen) > 0)
}
