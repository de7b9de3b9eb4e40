package stored

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/image"
	"cutie/queuefs/journal"
	"cutie/queuefs/journal/bucket"
)

// An image is made when the journal has grown by Options.Every, or by a share of the last
// image if that is more, up to maxEvery: this bounds both the journal to be read by a new
// machine, and the bytes written for images. A machine reads batch by batch, so mostBatches
// small ones are enough.
const (
	mostBatches  = 4096
	defaultEvery = 64 << 20
	maxEvery     = 256 << 20
	shareOfLast  = 8
	leastRecord  = 256 // bytes: so many of them count as well, since bytes are forgotten by a restart
)

// A backoff is the pause after a failed attempt, from its beginning on; it doubles.
type backoff struct {
	since  time.Time
	length time.Duration // 0: the last attempt succeeded
}

const (
	firstPause = time.Second
	maxPause   = time.Minute
)

func (p *backoff) double() { p.length = min(max(firstPause, 2*p.length), maxPause) }

// Images are the last two images of the home, and the next one.
type Images struct {
	store  *image.Store
	log    *bucket.Log
	temp   *durable.Dir
	every  int64
	newest uint64 // number of the newest image when it was last asked for
	stop   func()
	ctx    context.Context // ends with Stop
	wg     sync.WaitGroup

	mu      sync.Mutex
	last    *image.Manifest // nil: there is none
	before  *image.Manifest
	written int64  // bytes of the journal when the last one was begun
	batch   uint64 // the last batch then
	busy    bool
	wanted  bool  // by a caller
	err     error // of the last attempt
	pause   backoff
	damage  []*image.DamageError
	lost    error // damage of all manifests there are: the next image names nothing of them
}

// Damage returns the damage found when the home was opened, of images that another one
// stands in for.
func (i *Images) Damage() []*image.DamageError {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.damage
}

// found notes damage; nil is none.
func (i *Images) found(damage *image.DamageError) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if damage != nil {
		i.damage = append(i.damage, damage)
	}
}

func openImages(ctx context.Context, h *Home, every int64) (*Images, error) {
	store, err := image.New(h.store, h.patience)
	if err != nil {
		return nil, err
	}
	i := &Images{store: store, log: h.Log, temp: h.temp, every: cmp.Or(every, defaultEvery), batch: h.Log.Beginning()}
	i.ctx, i.stop = context.WithCancel(context.Background())
	newest, err := store.Newest(ctx)
	if err != nil || newest == 0 {
		return i, err
	}
	i.newest = newest
	if err = i.take(ctx, newest); err != nil {
		err = i.without(err)
	}
	return i, err
}

// without goes on without the images in the store, if err is damage of their manifests. The
// directory of this process, or a journal that has released nothing, may do without them.
func (i *Images) without(err error) error {
	if damage := new(image.DamageError); !errors.As(err, &damage) {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.lost, i.before, i.wanted = err, nil, true
	return nil
}

// Lost returns the damage of all manifests there are, until there is another image.
func (i *Images) Lost() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.lost
}

// renew takes the images of another owner since.
func (i *Images) renew(ctx context.Context) error {
	newest, err := i.store.Newest(ctx)
	if err != nil || newest == 0 {
		return err
	}
	if m := i.Last(); m != nil && m.Number == newest {
		return nil
	}
	i.mu.Lock()
	i.newest = newest
	i.mu.Unlock()
	return i.take(ctx, newest)
}

// take reads the newest manifest and the one before. One of the two may be damaged.
func (i *Images) take(ctx context.Context, newest uint64) (err error) {
	damage, lost := new(image.DamageError), (*image.DamageError)(nil)
	last, err := i.store.Manifest(ctx, newest)
	if err != nil && (!errors.As(err, &lost) || newest == 1) {
		return err
	}
	var before *image.Manifest
	if newest > 1 {
		var e error
		if before, e = i.store.Manifest(ctx, newest-1); e != nil && (!errors.As(e, &damage) || last == nil) {
			return errors.Join(err, e)
		}
	}
	i.found(lost)
	if last == nil {
		last, before = before, nil
	}
	if last.Journal != i.log.ID() {
		return fmt.Errorf("%s is of another journal: %w", image.ManifestName(last.Number), ErrOther)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.last, i.before, i.lost = last, before, nil
	return nil
}

// at returns where the last image ends, 0 if there is none.
func (i *Images) at() journal.LSN {
	if m := i.Last(); m != nil {
		return m.At
	}
	return 0
}

// Last returns the last image, nil if there is none.
func (i *Images) Last() *image.Manifest {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.last
}

// Due reports whether an image is to be begun. After a failed attempt there is a pause first.
func (i *Images) Due(log journal.Stats, now time.Time) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.busy || i.ctx.Err() != nil || now.Sub(i.pause.since) < i.pause.length {
		return false
	}
	every, from := i.every, log.First
	if i.last != nil {
		every, from = max(every, min(i.last.Live()/shareOfLast, maxEvery)), i.last.At
	}
	return i.wanted || i.log.Position()-i.batch >= mostBatches || log.Written-i.written >= every || int64(log.Next-from) >= every/leastRecord
}

// Begin begins an image with the record at for the first to be replayed, and needs the
// journal from the record from on; nil if another image is being made. Go or Fail must
// follow.
func (i *Images) Begin(at, from journal.LSN, now time.Time) *image.Builder {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.busy || i.ctx.Err() != nil {
		return nil
	}
	i.busy, i.wanted, i.pause.since = true, false, now
	of := image.Manifest{Journal: i.log.ID(), At: at, From: from}
	if i.lost == nil {
		return i.store.Begin(i.last, of, now, i.temp)
	}
	b := i.store.Begin(nil, of, now, i.temp)
	b.After(i.newest)
	return b
}

// Later begins a pause at now: the checkpoint before an image failed.
func (i *Images) Later(now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.pause.since = now
	i.pause.double()
}

// Now has the next checkpoint make an image, and waits for it; checkpoint makes one. It ends
// a pause.
func (i *Images) Now(ctx context.Context, checkpoint func() error) error {
	i.wg.Wait()
	i.mu.Lock()
	i.wanted, i.pause = true, backoff{}
	i.mu.Unlock()
	if err := checkpoint(); err != nil {
		return err
	}
	i.wg.Wait()
	return i.Err()
}

// Fail gives up an image.
func (i *Images) Fail(b *image.Builder, err error) {
	b.Close()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.busy, i.err = false, err
	i.pause.double()
}

// Go makes the image in the background: fill adds the rest. Then the journal before the last
// but one and before keep is released, objects without an image are deleted, and sweep does
// the rest. done gets the error of all.
func (i *Images) Go(b *image.Builder, keep journal.LSN, fill func(ctx context.Context) error, sweep func() error, done func(error)) {
	written, batch := i.log.Stats().Written, i.log.Position()
	i.wg.Go(func() {
		defer b.Close()
		err := fill(i.ctx)
		if err == nil {
			err = i.finish(i.ctx, b, keep)
		}
		if err == nil {
			err = sweep()
		}
		if err != nil {
			err = fmt.Errorf("image of the home in the store: %w", err)
		}
		i.mu.Lock()
		i.busy, i.err = false, err
		if i.pause.double(); err == nil {
			i.written, i.batch, i.pause = written, batch, backoff{}
		}
		i.mu.Unlock()
		done(err)
	})
}

// complete looks whether the store has all objects of the last image with jobs.
func (i *Images) complete(ctx context.Context) error {
	m := i.Last()
	if m == nil {
		return nil
	}
	return i.store.Complete(ctx, m)
}

// Page calls visit with the pieces of a page in the last image: job files first, then
// payloads. Stop ends it.
func (i *Images) Page(queue string, number int, visit func(piece []byte, jobs bool) error) error {
	m := i.Last()
	err := i.page(m, queue, number, visit)
	damage := new(image.DamageError)
	if errors.As(err, &damage) && errors.Is(i.log.Err(), journal.ErrFollowing) { // its owner may have made another one
		if e := i.renew(i.ctx); e != nil {
			return errors.Join(err, e)
		}
		if now := i.Last(); now != m {
			err = i.page(now, queue, number, visit)
		}
	}
	return err
}

func (i *Images) page(m *image.Manifest, queue string, number int, visit func(piece []byte, jobs bool) error) error {
	if m == nil {
		return i.Lost()
	}
	g := m.Page(queue, number)
	if g == nil {
		return nil // its jobs are gone
	}
	for n := range len(g.Jobs) + len(g.Payloads) {
		jobs := n < len(g.Jobs)
		p := (*image.Piece)(nil)
		if jobs {
			p = &g.Jobs[n]
		} else {
			p = &g.Payloads[n-len(g.Jobs)].Piece
		}
		data, err := i.store.Piece(i.ctx, m, p)
		if err != nil {
			return err
		}
		if err := visit(data, jobs); err != nil {
			return err
		}
	}
	return nil
}

// finish puts an image in its place; see package image for the order.
func (i *Images) finish(ctx context.Context, b *image.Builder, keep journal.LSN) error {
	m, err := b.Commit(ctx)
	for errors.Is(err, image.ErrTaken) {
		if err = i.log.Prove(); err != nil {
			return err
		}
		// A former owner made it, before it learned that it was one.
		var newest uint64
		if newest, err = i.store.Newest(ctx); err != nil {
			return err
		}
		if err = i.take(ctx, newest); err != nil {
			return err
		}
		b.After(newest)
		m, err = b.Commit(ctx)
	}
	if err != nil {
		return err
	}
	i.mu.Lock()
	if i.lost != nil {
		i.last, i.lost = nil, nil
	}
	i.last, i.before = m, i.last
	before := i.before
	i.mu.Unlock()
	if err := i.log.Prove(); err != nil {
		return err
	}
	if err := i.Release(keep); err != nil {
		return err
	}
	return i.store.Sweep(ctx, m, before)
}

// Release releases the journal before keep, except for what the last but one image needs.
func (i *Images) Release(keep journal.LSN) error {
	i.mu.Lock()
	before := i.before
	i.mu.Unlock()
	if before == nil {
		return nil
	}
	return i.log.Release(min(before.From, keep))
}

// Err returns why the last image was not made.
func (i *Images) Err() error {
	if i == nil {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.err
}

// Stop ends the making of an image, and waits for its end.
func (i *Images) Stop() {
	if i != nil {
		i.stop()
		i.wg.Wait()
	}
}

// absentName is the file with the absent pages, sealed: a line "QUEUE PAGE" for each.
const absentName = "cutie-absent"

func absentFile(dir *durable.Dir) durable.Sealed {
	return durable.Sealed{Dir: dir, Name: absentName, Kind: "absent pages", Max: 64 << 20}
}

// Absent are the pages of the index with jobs without files in the directory: they are in
// the image alone. It is safe for concurrent use; nil has no page.
type Absent struct {
	dir *durable.Dir

	mu      sync.Mutex
	pages   map[page]standing
	changed bool // since it was written
}

type page struct {
	queue  string
	number int
}

// A standing is how far the files of a page are.
type standing int

const (
	away   standing = iota
	here            // written, unsynced
	synced          // to be left out of the file
)

// newAbsent has all pages of an image, nil for none.
func newAbsent(dir *durable.Dir, m *image.Manifest) *Absent {
	a := &Absent{dir: dir, pages: map[page]standing{}}
	if m != nil {
		for _, g := range m.Pages {
			a.pages[page{g.Queue, g.Number}] = away
		}
	}
	a.changed = len(a.pages) > 0
	return a
}

func readAbsent(dir *durable.Dir) (*Absent, error) {
	a := newAbsent(dir, nil)
	text, err := absentFile(dir).Read()
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	for line := range strings.Lines(string(text)) {
		var p page
		if _, err := fmt.Sscanf(line, "%s %d", &p.queue, &p.number); err != nil {
			return nil, fmt.Errorf("%s: %w", absentName, durable.ErrDamaged)
		}
		a.pages[p] = away
	}
	return a, err
}

// lacks reports whether a directory has absent pages, as far as it knows.
func lacks(dir *durable.Dir) bool {
	a, err := readAbsent(dir)
	return err != nil || a.Len() > 0
}

// Has reports whether a page is absent.
func (a *Absent) Has(queue string, number int) bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	st, ok := a.pages[page{queue, number}]
	return ok && st == away
}

// Brought notes the files of a page in the directory, unsynced.
func (a *Absent) Brought(queue string, number int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := page{queue, number}
	if st, ok := a.pages[p]; ok && st == away {
		a.pages[p] = here
	}
}

// All yields the absent pages.
func (a *Absent) All() iter.Seq2[string, int] {
	var all []page
	if a != nil {
		a.mu.Lock()
		for p, st := range a.pages {
			if st == away {
				all = append(all, p)
			}
		}
		a.mu.Unlock()
	}
	slices.SortFunc(all, comparePages)
	return func(yield func(string, int) bool) {
		for _, p := range all {
			if !yield(p.queue, p.number) {
				return
			}
		}
	}
}

// Len returns how many pages are absent.
func (a *Absent) Len() (n int) {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, st := range a.pages {
		if st == away {
			n++
		}
	}
	return n
}

// none reports whether all pages are in the directory, and its file says so.
func (a *Absent) none() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.pages) == 0 && !a.changed
}

func comparePages(a, b page) int {
	return cmp.Or(cmp.Compare(a.queue, b.queue), cmp.Compare(a.number, b.number))
}

// syncing is called before the directory is synced.
func (a *Absent) syncing() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for p, st := range a.pages {
		if st == here {
			a.pages[p], a.changed = synced, true
		}
	}
}

// write writes the file, if it has to change.
func (a *Absent) write() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.changed {
		return nil
	}
	maps.DeleteFunc(a.pages, func(_ page, st standing) bool { return st == synced })
	var err error
	if len(a.pages) == 0 {
		if err = a.dir.Remove(absentName); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	} else {
		var text []byte
		for _, p := range slices.SortedFunc(maps.Keys(a.pages), comparePages) {
			text = fmt.Appendf(text, "%s %d\n", p.queue, p.number)
		}
		err = absentFile(a.dir).Write(text)
	}
	a.changed = err != nil
	return err
}

// A directory that has to be made again keeps the files it has in cutie-former until the new
// ones are whole: what the store has lost may be in them alone. They are a home of their own.
// The marker there is written last, and removed first.
//
//	cutie-former     the directory        a crash before the next step
//	none             has its files        as it was
//	without marker   has the others       the next opening puts the parts back
//	whole            is being made again  the next opening makes it again, or puts them back if nobody has passed them
//	whole            whole                the next opening goes on
//	none             whole                as it stands
const formerName = "cutie-former"

// homeParts are what makes a home of a directory, below it. Some are directories.
var homeParts = []string{home.ListName, absentName, home.QueuesDir, home.PublishedDir}

// parts calls do with each part of the directory that is made again from the store, and with
// its directory.
func parts(dir *durable.Dir, do func(in *durable.Dir, below, name string) error) error {
	for _, name := range homeParts {
		if err := do(dir, "", name); err != nil {
			return err
		}
	}
	if err := within(dir, home.LogDir, func(log *durable.Dir) error {
		return errors.Join(do(log, home.LogDir, home.TableName), do(log, home.LogDir, home.PackedDir), do(log, home.LogDir, home.PacksDir))
	}); err != nil {
		return err
	}
	return within(dir, home.TempDir, func(temp *durable.Dir) error {
		var names []string
		err := temp.Names(func(name string) {
			if strings.HasPrefix(name, durable.TempPrefix) {
				names = append(names, name)
			}
		})
		for _, name := range names {
			if err == nil {
				err = do(temp, home.TempDir, name)
			}
		}
		return err
	})
}

// within calls do with a directory below dir, if it is there.
func within(dir *durable.Dir, name string, do func(*durable.Dir) error) error {
	sub, err := dir.Sub(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(do(sub), sub.Close())
}

// move moves the parts of one directory to another one, where they are not, and syncs both.
func move(from, to *durable.Dir) error {
	err := parts(from, func(in *durable.Dir, below, name string) error {
		at := to
		if below != "" {
			sub, err := to.MakeSub(below)
			if err != nil {
				return err
			}
			defer sub.Close()
			at = sub
		}
		err := in.Rename(name, at, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case errors.Is(err, syscall.EXDEV): // mounted here: it cannot be kept
			return in.RemoveTree(name)
		}
		return errors.Join(err, at.Sync(), in.Sync())
	})
	return errors.Join(err, from.Sync(), to.Sync())
}

// former returns the marker of the files kept in cutie-former, nil if none are. Parts of an
// interrupted move are put back.
func (m *marker) former() (f *marker, err error) {
	err = within(m.dir, formerName, func(kept *durable.Dir) error {
		f = &marker{dir: kept}
		if err := f.read(); err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, durable.ErrDamaged) {
			return err
		}
		f = nil
		return m.putBack(kept)
	})
	return f, err
}

// putBack moves the parts from cutie-former back. It goes on where it was cut off.
func (m *marker) putBack(kept *durable.Dir) error {
	if err := move(kept, m.dir); err != nil {
		return err
	}
	return errors.Join(m.dir.RemoveTree(formerName), m.dir.Sync())
}

// takeBack replaces the parts of the directory by those in cutie-former.
func (m *marker) takeBack(f *marker, temp *durable.Dir) error {
	if err := clear(m.dir, temp); err != nil {
		return err
	}
	m.id, m.claim = f.id, f.claim
	if err := m.write(); err != nil { // the same as there: until that is gone nothing is moved
		return err
	}
	return within(m.dir, formerName, func(kept *durable.Dir) error {
		if err := errors.Join(home.CopyNames(kept, m.dir), kept.Remove(markerName), kept.Sync()); err != nil {
			return err
		}
		return m.putBack(kept)
	})
}

// makeRoom takes all parts out of the directory. If they are whole, and cutie-former has
// none, it keeps them there.
func (m *marker) makeRoom(temp *durable.Dir) error {
	f, err := m.former()
	if err != nil {
		return err
	}
	if f == nil && m.whole {
		err = m.setAside()
	}
	m.whole = false
	if err == nil {
		err = m.writeAs(0)
	}
	if err == nil {
		err = clear(m.dir, temp)
	}
	return err
}

// setAside moves all parts to cutie-former.
func (m *marker) setAside() error {
	kept, err := m.dir.MakeSub(formerName)
	if err != nil {
		return err
	}
	defer kept.Close()
	if err := home.CopyNames(m.dir, kept); err != nil { // with them it is a home
		return err
	}
	if err := move(m.dir, kept); err != nil {
		return err
	}
	return (&marker{dir: kept, id: m.id, journal: m.journal, whole: true}).writeAs(m.was)
}

// clear removes all parts of the directory. The largest ones are moved away only, see
// [Home.SweepFormer].
func clear(dir, temp *durable.Dir) error {
	return parts(dir, func(in *durable.Dir, _, name string) error {
		if name == home.QueuesDir || name == home.PublishedDir {
			return errors.Join(home.MoveAway(in, temp, name), in.Sync())
		}
		return errors.Join(in.RemoveTree(name), in.Sync())
	})
}

// Kept adds to an error of an opening where the files are that the directory had before.
func (h *Home) Kept(err error) error {
	if _, e := h.marker.dir.Stat(formerName); e != nil {
		return err
	}
	return fmt.Errorf("%w; the files that the directory had before are kept in %s/%s", err, h.marker.dir.Path(), formerName)
}

// FormerLog returns the log of the files from before this opening made the directory again; nil
// if it did not, or none are kept.
func (h *Home) FormerLog() (log *durable.Dir, err error) {
	if h == nil || h.Known == nil {
		return nil, nil
	}
	err = within(h.marker.dir, formerName, func(kept *durable.Dir) error {
		if log, err = kept.Sub(home.LogDir); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return log, err
}

// dropFormer removes the files of before: the new ones are whole.
func (m *marker) dropFormer(temp *durable.Dir) error {
	return errors.Join(home.MoveAway(m.dir, temp, formerName), m.dir.Sync())
}
