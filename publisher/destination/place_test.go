package destination_test

import (
	"cutie/publisher/destination"
	"cutie/publisher/destination/source"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// A place is the directory of a copy of a fake.
type place struct {
	t    *testing.T
	f    *testSource
	dir  string
	said []string
	mu   sync.Mutex
}

func newPlace(t *testing.T, f *testSource) *place {
	return &place{t: t, f: f, dir: filepath.Join(t.TempDir(), "copy")}
}

func (p *place) open(change func(*destination.Options)) (*destination.Copy, error) {
	o := destination.Options{URL: p.f.URL, Dir: p.dir, HTTP: source.Options{Timeout: 2 * time.Second, Tries: 3, Pause: time.Millisecond}, Settle: time.Millisecond, Tell: func(s string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.said = append(p.said, s)
	}}
	if change != nil {
		change(&o)
	}
	return destination.Open(p.t.Context(), o)
}

func (p *place) sync(change func(*destination.Options)) (*destination.Report, error) {
	c, err := p.open(change)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Sync(p.t.Context())
}

func (p *place) mustSync(change func(*destination.Options)) *destination.Report {
	p.t.Helper()
	r, err := p.sync(change)
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

func (p *place) audit(quick bool) *destination.AuditReport {
	p.t.Helper()
	c, err := p.open(func(o *destination.Options) { o.Quick = quick })
	if err != nil {
		p.t.Fatal(err)
	}
	defer c.Close()
	r, err := c.Audit(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

// files returns path and text of each file of the copy.
func (p *place) files() map[string]string {
	p.t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(os.DirFS(p.dir), ".", func(name string, e fs.DirEntry, err error) error {
		if name == ".cutie-sync" {
			return fs.SkipDir
		}
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(p.dir, name))
		all["/"+name] = string(text)
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return all
}
