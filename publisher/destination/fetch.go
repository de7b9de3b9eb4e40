package destination

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"cutie/publisher/destination/local"
	"cutie/publisher/destination/source"
	"cutie/sitemap"
)

const perWorker = 16 // tasks that are read ahead

// workers do something with resources, several at a time.
type workers struct {
	c      *Copy
	ctx    context.Context
	cancel context.CancelCauseFunc
	do     func(context.Context, *task) error
	todo   chan *task
	wg     sync.WaitGroup
}

// A task is a resource whose file is to be made.
type task struct {
	entry sitemap.Entry
	made  *bool // set when it was; nil: nobody asks

	file  string    // "": not known yet
	again bool      // a list of this run had the resource before, so it was counted
	mod   time.Time // of the file that is there: it may be the same since then
	coded bool      // the last answer had a content coding
	other bool      // with one: take the octets that were not taken before
}

// makers are workers that make files, from a package if it is not nil.
func (c *Copy) makers(ctx context.Context, s *setState, p *source.Package) *workers {
	return c.newWorkers(ctx, func(ctx context.Context, t *task) error { return c.make(ctx, s, t, p) })
}

func (c *Copy) newWorkers(ctx context.Context, do func(context.Context, *task) error) *workers {
	ctx, cancel := context.WithCancelCause(ctx)
	n := c.o.HTTP.Connections
	if n == 0 {
		n = source.DefaultConnections
	}
	w := &workers{c: c, ctx: ctx, cancel: cancel, do: do, todo: make(chan *task, n*perWorker)}
	for range n {
		w.wg.Go(w.run)
	}
	return w
}

// add gives a resource to the workers. It returns false when they have ended early.
func (w *workers) add(e *sitemap.Entry, made *bool) bool {
	t := &task{entry: *e, made: made}
	if e.Change != sitemap.Deleted {
		w.c.list(t)
	}
	return w.give(t)
}

// addListed is add for the entry of a list. A resource listed twice in a pass is made once.
func (w *workers) addListed(e *sitemap.Entry) bool {
	t := &task{entry: *e}
	return w.c.list(t) || w.give(t)
}

func (w *workers) give(t *task) bool {
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

// run works until there are no more tasks. An error ends the work of all.
func (w *workers) run() {
	for t := range w.todo {
		if w.ctx.Err() != nil {
			continue
		}
		switch err := w.do(w.ctx, t); {
		case err != nil:
			w.cancel(err)
		case t.made != nil && w.ctx.Err() == nil:
			*t.made = true
		}
	}
}

// make makes the file of a resource as its entry says, from a package if that has it. A
// resource not to be had is in transit; an error of our own storage ends the run.
func (c *Copy) make(ctx context.Context, s *setState, t *task, pack *source.Package) error {
	needed, err := c.needs(t)
	if !needed || err != nil {
		return err
	}
	if err = errNotPacked; pack != nil {
		err = c.unpackFile(t, pack)
	}
	if err != nil && !fatal(err) && !errors.Is(err, ErrTooLarge) {
		err = c.fetch(ctx, t)
	}
	if err == nil || ctx.Err() != nil {
		return nil
	}
	if fatal(err) {
		return err
	}
	c.mu.Lock()
	s.Transit = append(s.Transit, transit{Entry: t.entry, Why: err.Error()})
	c.mu.Unlock()
	return nil
}

// needs compares the file of a resource with its entry, and reports whether to fetch it. What
// is to be removed, it removes.
func (c *Copy) needs(t *task) (bool, error) {
	e := &t.entry
	if !c.wanted(e.Loc) {
		return false, nil
	}
	var err error
	if t.file == "" {
		if t.file, err = c.dir.Path(e.Loc); err != nil {
			c.refuse(t, err)
			return false, nil
		}
	}
	if e.Change == sitemap.Deleted {
		return false, c.remove(t.file)
	}
	m, mod, err := c.dir.Compare(t.file, e, c.o.Deep || coarse(e))
	switch {
	case err != nil:
		c.refuse(t, fmt.Errorf("%s: %w", e.Loc, err))
		return false, nil
	case m == local.Same:
		c.same(t)
		c.counts.Held.Add(max(e.Length, 0))
		if c.o.DryRun {
			return false, nil
		}
		return false, c.dir.Date(t.file, mod, e.LastMod)
	case c.o.DryRun:
		if !t.again {
			c.counts.Fetched.Add(1)
			c.counts.Stored.Add(max(e.Length, 0))
		}
		return false, nil
	case m == local.Unsure:
		t.mod = mod
	}
	return true, nil
}

// coarse reports whether another version of a resource may have the same time: that of a change
// which its Source does not count, or a day.
func coarse(e *sitemap.Entry) bool {
	return e.Change != "" && e.Seq == 0 || e.LastMod.Equal(e.LastMod.Truncate(24*time.Hour))
}

func (c *Copy) same(t *task) {
	if !t.again {
		c.counts.Same.Add(1)
	}
}

// refuse counts a resource without a path, or with something else in the way of its file.
func (c *Copy) refuse(t *task, err error) {
	if !t.again {
		c.counts.Refused.Add(1)
	}
	c.o.Tell(err.Error())
}

func (c *Copy) remove(file string) error {
	if c.o.Delete == DeleteNever {
		return nil
	}
	if m, _, err := c.dir.Compare(file, nil, false); m == local.Missing && err == nil {
		return nil
	}
	return c.removeAll(file)
}

// removeAll removes files, and counts them.
func (c *Copy) removeAll(files ...string) error {
	for _, file := range files {
		if c.counts.Deleted.Add(1); c.o.DryRun {
			continue
		}
		if err := c.dir.Remove(file); err != nil {
			return err
		}
	}
	return nil
}

// leastPart is the length from which on a resource is completed where it was cut off.
const leastPart = 1 << 20

// fetch gets a resource and makes its file. Of an answer in a content coding either the body
// or what it decodes to is the resource: where the first choice does not fit the entry, the
// other one is tried.
func (c *Copy) fetch(ctx context.Context, t *task) error {
	proved := local.NewSums(&t.entry).Proves()
	if t.entry.Length >= leastPart && t.entry.Encoding == "" && proved {
		if err := c.fetchPart(ctx, t); !errors.Is(err, source.ErrCoding) {
			return err
		}
	}
	get := func() error {
		return c.client.Get(ctx, t.request(), func(a *source.Answer) error { return c.take(t, a) })
	}
	err := get()
	if t.coded && (errors.Is(err, local.ErrDiffers) || errors.Is(err, source.ErrCoding)) && !fatal(err) && (t.entry.Length >= 0 || proved) {
		t.other = true
		if e := get(); e == nil || fatal(e) {
			return e
		}
	}
	return err
}

// request returns the request for a resource.
func (t *task) request() source.Request {
	r := source.Request{URI: t.entry.Loc, Plain: t.entry.Encoding == ""}
	if t.entry.Encoding != "" {
		r.Header = http.Header{"Accept-Encoding": {t.entry.Encoding}}
	}
	if !t.mod.IsZero() {
		r.Header = http.Header{"If-Modified-Since": {t.mod.UTC().Format(http.TimeFormat)}}
		r.Accept = []int{http.StatusNotModified}
	}
	return r
}

// take makes the file of an answer.
func (c *Copy) take(t *task, a *source.Answer) error {
	if a.Status == http.StatusNotModified {
		c.same(t)
		return nil
	}
	if t.coded = a.Coded() && t.entry.Encoding == ""; !t.coded || a.IsArchive(t.entry.Loc) != t.other {
		return c.store(a.Body, t, a.Modified())
	}
	in, err := a.Decode()
	if err != nil {
		return err
	}
	defer in.Close()
	return c.store(in, t, a.Modified())
}

// store makes a file of the octets of a resource.
func (c *Copy) store(in io.Reader, t *task, mod time.Time) error {
	f, err := c.dir.Receive(t.file, &t.entry)
	if err != nil {
		return err
	}
	defer f.Discard()
	if t.entry.Length < 0 {
		in = io.LimitReader(in, c.o.MaxResource+1)
	}
	if _, err := local.Copy(f, in); err != nil {
		return err
	}
	if t.entry.Length < 0 && f.Length() > c.o.MaxResource {
		return c.tooLarge()
	}
	return c.commit(f, mod)
}

func (c *Copy) tooLarge() error {
	return fmt.Errorf("%w: more than %d octets, and no list says its length", ErrTooLarge, c.o.MaxResource)
}

func (c *Copy) commit(f *local.File, mod time.Time) error {
	if err := f.Commit(mod); err != nil {
		return err
	}
	c.counts.Fetched.Add(1)
	c.counts.Stored.Add(f.Length())
	return nil
}

// fatal reports whether an error is one of our own storage: it ends the run.
func fatal(err error) bool {
	var s *local.StorageError
	return errors.As(err, &s)
}

// fetchPart completes a file and gives it its path. After an error its octets stay for the
// next run, unless they are wrong.
func (c *Copy) fetchPart(ctx context.Context, t *task) error {
	f, err := c.dir.Part(t.file, &t.entry)
	if err != nil {
		return err
	}
	defer f.Keep()
	mod, err := c.complete(ctx, t.entry.Loc, f)
	if err != nil {
		return err
	}
	return c.commit(f, mod)
}

// complete is resume, and once more from the beginning if old and new octets are no whole.
func (c *Copy) complete(ctx context.Context, uri string, f *local.File) (mod time.Time, err error) {
	for resumed := f.Length() > 0; ; resumed = false {
		if mod, err = c.resume(ctx, uri, f); !errors.Is(err, local.ErrDiffers) || fatal(err) {
			return mod, err
		}
		if !resumed {
			f.Discard()
			return mod, err
		}
		if err := f.Restart(); err != nil {
			return mod, err
		}
	}
}

// resume fills a file from where a former request was cut off (RFC 9110, 14). The octets are
// verified afterwards: with some of another state of the resource the digest is another one. It
// returns their time, as far as the server gives one.
func (c *Copy) resume(ctx context.Context, uri string, f *local.File) (mod time.Time, err error) {
	if _, err := f.Verify(); err == nil && f.Length() > 0 {
		return mod, nil // nothing is missing
	}
	h := http.Header{}
	r := source.Request{URI: uri, Plain: true, Header: h, Accept: []int{http.StatusPartialContent, http.StatusRequestedRangeNotSatisfiable}}
	ask := func() {
		h.Del("Range")
		if f.Completes() {
			h.Set("Range", fmt.Sprintf("bytes=%d-", f.Length()))
		}
	}
	ask()
	err = c.client.Get(ctx, r, func(a *source.Answer) error {
		defer ask() // the next try goes on from here
		mod = a.Modified()
		if a.Coded() && !a.IsArchive(uri) {
			return source.ErrCoding // ranges are those of the coded body
		}
		begins := fmt.Sprintf("bytes %d-", f.Length())
		switch a.Status {
		case http.StatusOK:
			if err := f.Restart(); err != nil {
				return err
			}
		case http.StatusPartialContent:
			if is := a.Header.Get("Content-Range"); !strings.HasPrefix(is, begins) {
				return fmt.Errorf("%w: range %q", local.ErrDiffers, is)
			}
		default:
			return fmt.Errorf("%w: no range from octet %d on", local.ErrDiffers, f.Length())
		}
		_, err := local.Copy(f, a.Body)
		return err
	})
	if err == nil {
		_, err = f.Verify()
	}
	return mod, err
}

// keyOf identifies a package by its URI and digests.
func keyOf(p *sitemap.Entry) string {
	key := p.Loc
	for _, h := range p.Hashes {
		key += " " + h.Alg + ":" + h.Value
	}
	return key
}

// unpacked reports whether the files of a package were made before.
func (s *setState) unpacked(p *sitemap.Entry) bool { return slices.Contains(s.Packages, keyOf(p)) }

// unpack gets a package and makes the files in it, or those that wants chooses.
func (c *Copy) unpack(ctx context.Context, s *setState, p *sitemap.Entry, kind sitemap.Capability, wants func(*sitemap.Entry) bool) (err error) {
	if free, err := c.dir.Free(); err == nil && p.Length > free {
		return &local.StorageError{Err: fmt.Errorf("a package of %d octets, where %d are free", p.Length, free)}
	}
	f, err := c.dir.Part("", p)
	if err != nil {
		return err
	}
	defer func() {
		if err == nil {
			f.Discard()
		}
		f.Keep() // until its files are made
	}()
	if _, err := c.complete(ctx, p.Loc, f); err != nil {
		return err
	}
	in, err := f.Verify()
	if err != nil {
		return err
	}
	z, err := source.OpenPackage(in, f.Length(), kind, c.o.MaxFiles)
	if err != nil {
		return err
	}
	defer z.Close()
	c.newPass()
	w := c.makers(ctx, s, z)
	for e, err := range z.Entries() {
		if err != nil {
			w.cancel(err)
			break
		}
		if (wants == nil || wants(&e)) && !w.addListed(&e) {
			break
		}
	}
	if err := w.wait(); err != nil {
		return err
	}
	c.mu.Lock()
	s.Packages = append(s.Packages, keyOf(p))
	c.mu.Unlock()
	return c.save()
}

var errNotPacked = errors.New("no such file in the package")

// unpackFile makes the file of a resource from a package.
func (c *Copy) unpackFile(t *task, p *source.Package) error {
	z := p.File(&t.entry)
	if z == nil {
		return errNotPacked
	}
	if t.entry.Length < 0 {
		size := z.UncompressedSize64
		if size > uint64(c.o.MaxResource) {
			return c.tooLarge()
		}
		if free, err := c.dir.Free(); err != nil || int64(size) > free {
			return &local.StorageError{Err: errors.Join(fmt.Errorf("%s of a package takes %d octets, where %d are free", z.Name, size, free), err)}
		}
	}
	in, err := z.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	return c.store(in, t, z.Modified)
}
