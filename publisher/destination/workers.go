package destination

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"cutie/publisher/destination/local"
	"cutie/publisher/destination/source"
	"cutie/sitemap"
)

const perWorker = 16 // tasks that are read ahead

// workers make the files of resources, several at a time.
type workers struct {
	c      *Copy
	ctx    context.Context
	cancel context.CancelCauseFunc
	set    *setState
	pack   *source.Package // has the files; nil: resources are asked for
	todo   chan task
	wg     sync.WaitGroup
}

// A task is a resource whose file is to be made.
type task struct {
	entry  sitemap.Entry
	file   string // its path; "" if not yet known
	made   *bool  // set when it was; nil: nobody asks
	absent bool   // it is known that there is no file
	again  bool   // a list of this run had the resource before, so it was counted
}

func (c *Copy) newWorkers(ctx context.Context, s *setState, p *source.Package) *workers {
	ctx, cancel := context.WithCancelCause(ctx)
	n := c.o.HTTP.Connections
	if n == 0 {
		n = source.DefaultConnections
	}
	w := &workers{c: c, ctx: ctx, cancel: cancel, set: s, pack: p, todo: make(chan task, n*perWorker)}
	for range n {
		w.wg.Go(w.run)
	}
	return w
}

// add gives a resource to the workers. It returns false when they have ended early.
func (w *workers) add(e sitemap.Entry) bool { return w.addTask(task{entry: e}) }

// addListed is add for the entry of a list.
func (w *workers) addListed(e *sitemap.Entry) bool {
	t := task{entry: *e}
	if file, err := w.c.dir.Path(e.Loc); err == nil {
		t.file = file
		first, twice := w.c.listAs(file, w.c.saying(e))
		if twice {
			return true
		}
		t.absent, t.again = first && w.c.fresh, !first && w.c.listed != nil
	}
	return w.addTask(t)
}

func (w *workers) addTask(t task) bool {
	select {
	case w.todo <- t:
		return true
	case <-w.ctx.Done():
		return false
	}
}

// wait waits for the work to be done.
func (w *workers) wait() error {
	close(w.todo)
	w.wg.Wait()
	err := context.Cause(w.ctx)
	w.cancel(nil)
	return err
}

// run makes files until there are no more tasks. An error ends the work of all.
func (w *workers) run() {
	for t := range w.todo {
		if w.ctx.Err() != nil {
			continue
		}
		var err error
		if w.pack != nil {
			err = w.c.unpackOne(w.ctx, w.set, &t, w.pack)
		} else {
			err = w.c.make(w.ctx, w.set, &t)
		}
		switch {
		case err != nil:
			w.cancel(err)
		case t.made != nil && w.ctx.Err() == nil:
			*t.made = true
		}
	}
}

func factsOf(e *sitemap.Entry) local.Facts {
	return local.Facts{Length: e.Length, LastMod: e.LastMod, Hashes: e.Hashes}
}

// make makes the file of a resource as its entry says. Resources not to be had are
// counted and told; an error ends the run.
func (c *Copy) make(ctx context.Context, s *setState, t *task) error {
	l, err := c.lacking(t)
	if l == nil || err != nil {
		return err
	}
	return c.made(ctx, s, t, c.fetch(ctx, l))
}

// made notes a resource that was not to be had; err says why. An error of our own storage
// ends the run.
func (c *Copy) made(ctx context.Context, s *setState, t *task, err error) error {
	switch {
	case err == nil || ctx.Err() != nil:
		return nil
	case fatal(err):
		return err
	}
	c.mu.Lock()
	s.Transit = append(s.Transit, transit{Entry: t.entry, Why: err.Error()})
	c.mu.Unlock()
	return nil
}

// coarse reports whether another version of a resource may have the same time: that of a change
// which its Source does not count, or a day.
func coarse(e *sitemap.Entry) bool {
	return e.Change != "" && e.Seq == 0 || e.LastMod.Equal(e.LastMod.Truncate(24*time.Hour))
}

// A lack is a file to be made of a resource that is asked for.
type lack struct {
	t    *task
	file string
	want local.Facts
	mod  time.Time // of the file that is there: it may be the same since then

	coded bool // the last answer had a content coding
	other bool // with one: take the octets that were not taken before
}

// lacking returns what make has to ask for; nil if there is nothing to ask for.
func (c *Copy) lacking(t *task) (*lack, error) {
	e := &t.entry
	if !c.wanted(e.Loc) {
		return nil, nil
	}
	file, err := t.file, error(nil)
	if file == "" {
		file, err = c.dir.Path(e.Loc)
	}
	if err != nil {
		c.counts.Refused.Add(1)
		c.o.Tell(err.Error())
		return nil, nil
	}
	if e.Change == sitemap.Deleted {
		return nil, c.remove(file)
	}
	l := &lack{t: t, file: file, want: factsOf(e)}
	m, mod := local.Missing, time.Time{}
	if !t.absent {
		if m, mod, err = c.dir.Compare(file, &l.want, c.o.Deep || coarse(e)); err != nil {
			return nil, c.refused(e, err)
		}
	}
	if m == local.Same {
		if !t.again {
			c.counts.Same.Add(1)
		}
		c.counts.Held.Add(max(e.Length, 0))
		if c.o.DryRun {
			return nil, nil
		}
		return nil, disked(c.dir.Date(file, mod, l.want.LastMod))
	}
	if c.o.DryRun {
		c.counts.Fetched.Add(1)
		c.counts.Stored.Add(max(e.Length, 0))
		return nil, nil
	}
	if m == local.Unsure {
		l.mod = mod
	}
	return l, nil
}

func (c *Copy) remove(file string) error {
	if c.o.Delete == DeleteNever {
		return nil
	}
	if m, _, err := c.dir.Compare(file, &local.Facts{Length: -1}, false); m == local.Missing && err == nil {
		return nil
	}
	c.counts.Deleted.Add(1)
	if c.o.DryRun {
		return nil
	}
	return c.dir.Remove(file)
}

// refused counts a file in the way.
func (c *Copy) refused(e *sitemap.Entry, err error) error {
	if fatal(err) {
		return err
	}
	c.counts.Refused.Add(1)
	c.o.Tell(fmt.Sprintf("%s: %v", e.Loc, err))
	return nil
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}

// fetch gets a resource and makes its file. Of an answer in a content coding either the body
// or what it decodes to is the resource: where the first choice does not fit the facts, the
// other one is tried.
func (c *Copy) fetch(ctx context.Context, l *lack) error {
	e := &l.t.entry
	if l.want.Length >= leastPart && e.Encoding == "" {
		f, err := c.dir.Resume(e.Loc, l.file, l.want)
		if err == nil {
			err = c.fetchPart(ctx, e.Loc, f)
			if !errors.Is(err, source.ErrCoding) {
				return err
			}
		} else if !errors.Is(err, local.ErrNoProof) {
			return disk{err}
		}
	}
	get := func() error {
		return c.client.Get(ctx, l.request(), func(a *source.Answer) error { return c.take(l, a) })
	}
	err := get()
	if l.coded && (errors.Is(err, local.ErrDiffers) || errors.Is(err, source.ErrCoding)) && !fatal(err) && l.proves() {
		l.other = true
		if e := get(); e == nil || fatal(e) {
			return e
		}
	}
	return err
}

// proves reports whether the facts tell right octets from wrong ones.
func (l *lack) proves() bool {
	return l.want.Length >= 0 || local.NewSums(-1, l.want.Hashes).Proves()
}

// request returns the request for a resource.
func (l *lack) request() source.Request {
	e := &l.t.entry
	r := source.Request{URI: e.Loc, Plain: e.Encoding == ""}
	if e.Encoding != "" {
		r.Header = http.Header{"Accept-Encoding": {e.Encoding}}
	}
	if !l.mod.IsZero() {
		r.Header = http.Header{"If-Modified-Since": {l.mod.UTC().Format(http.TimeFormat)}}
		r.Accept = []int{http.StatusNotModified}
	}
	return r
}

// take makes the file of an answer.
func (c *Copy) take(l *lack, a *source.Answer) error {
	if a.Status == http.StatusNotModified {
		if !l.t.again {
			c.counts.Same.Add(1)
		}
		return nil
	}
	if l.coded = a.Coded() && l.t.entry.Encoding == ""; !l.coded || a.IsArchive(l.t.entry.Loc) != l.other {
		return c.store(a.Body, l.file, l.want, a.Modified())
	}
	in, err := a.Decode()
	if err != nil {
		return err
	}
	defer in.Close()
	return c.store(in, l.file, l.want, a.Modified())
}

// store makes a file of the octets of a resource.
func (c *Copy) store(in io.Reader, file string, want local.Facts, mod time.Time) error {
	f, err := c.dir.Receive(file, want)
	if err != nil {
		return disk{err}
	}
	defer f.Discard()
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	if want.Length < 0 {
		in = io.LimitReader(in, c.o.MaxResource+1)
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{writer{f}}, struct{ io.Reader }{in}, *buf)
	if err != nil {
		return err
	}
	if want.Length < 0 && n > c.o.MaxResource {
		return c.tooLarge()
	}
	if err := f.Commit(mod); err != nil {
		if errors.Is(err, local.ErrDiffers) {
			return err
		}
		return disk{err}
	}
	c.counts.Fetched.Add(1)
	c.counts.Stored.Add(f.Length())
	return nil
}

func (c *Copy) tooLarge() error {
	return fmt.Errorf("%w: more than %d octets, and no list says its length", ErrTooLarge, c.o.MaxResource)
}

// disk is an error of our own storage: it ends the run.
type disk struct{ error }

func (d disk) Unwrap() error { return d.error }

// writer tells errors of our storage from errors of the Source.
type writer struct{ f *local.File }

func (w writer) Write(p []byte) (int, error) {
	n, err := w.f.Write(p)
	if err != nil && !errors.Is(err, local.ErrDiffers) {
		err = disk{err}
	}
	return n, err
}

func fatal(err error) bool {
	var d disk
	return errors.As(err, &d)
}
