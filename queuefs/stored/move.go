package stored

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cutie/queuefs/anvl"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/image"
	"cutie/queuefs/journal"
	"cutie/queuefs/journal/bucket"
	"cutie/queuefs/objects"
	"cutie/queuefs/record"
)

// A home moves from a directory into a store, or back, by one batch of the journal. Before
// it the one has all of the home, after it the other one. cutie-directory names a directory
// to the store, so that an interrupted move goes on, and nobody else takes its place.
//
//	step of a push                        a crash before the next step
//	cutie-directory                       the directory has the home
//	batch "coming"                        the same, and nobody begins a home in the store
//	all pieces and files, the manifest    the same; the next attempt writes them anew
//	cutie-store with the next batch       no home to serve; the next attempt goes on
//	batch "left"                          the store has the home
//	the local journal is removed          the next push, or a pull, does that
//
//	step of a pull                        a crash before the next step
//	the directory is made, as a cache     the store has the home
//	cutie-directory                       the same
//	batch "gone"                          the directory has the home; its next opening goes on
//	no local journal, no cutie-store      as it stands
//
// So a home is never in both: the one it leaves is closed first.

// directoryName is the file with the name of a directory.
const directoryName = "cutie-directory"

var (
	// ErrThere: the store has a home already.
	ErrThere = bucket.ErrThere

	// ErrArrived: the home has moved from this directory into the store, or was always there.
	ErrArrived = errors.New("the home is in the object store already, and this directory is its cache")

	// ErrHere: the home has moved from the store into this directory.
	ErrHere = errors.New("the home has moved from the object store to this directory")
)

// A MovedError: the home is in a directory, not in the store.
type MovedError = bucket.MovedError

func directory(dir *durable.Dir) durable.Sealed {
	return durable.Sealed{Dir: dir, Name: directoryName, Kind: "name of a directory", Max: 1 << 16}
}

// nameDirectory returns the name of a directory for stores. Without one it is named id.
func nameDirectory(dir *durable.Dir, id string) (string, error) {
	text, err := directory(dir).Read()
	if err == nil {
		r, err := anvl.ParseRecord(text)
		return r.Value("directory"), err
	}
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, durable.ErrDamaged) {
		return "", err
	}
	return id, writeName(dir, id)
}

func writeName(dir *durable.Dir, id string) error {
	return directory(dir).Write(anvl.AppendRecord(nil, anvl.Record{{Name: "directory", Value: id}}))
}

// removeLocal removes what a directory with its home has beyond a cache: the journal.
func removeLocal(dir *durable.Dir) error {
	log, err := dir.Sub(home.LogDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer log.Close()
	return errors.Join(log.RemoveTree(home.JournalDir), log.Sync())
}

// A Push moves the home in a directory into a store.
type Push struct {
	arrival  *bucket.Arrival
	images   *image.Store
	store    objects.Store
	patience time.Duration
	dir      *durable.Dir
	temp     *durable.Dir
	marker   *marker
	done     bool

	mu    sync.Mutex
	there map[[sha256.Size]byte]bool // payloads and results in the store
}

// OpenPush takes the place of a home in a store for the one in a directory. An interrupted
// attempt goes on. If the store has another home the error is [ErrThere] or a [*MovedError],
// and if the move is done [ErrArrived]. The caller has the lock of the home.
func OpenPush(ctx context.Context, dir *durable.Dir, o *Options) (_ *Push, err error) {
	p := &Push{store: o.Objects, patience: o.patience(), dir: dir, there: map[[sha256.Size]byte]bool{}}
	if p.marker, err = goesOn(ctx, dir, o); err != nil {
		return nil, err
	}
	if p.marker.id, err = nameDirectory(dir, p.marker.id); err != nil {
		return nil, err
	}
	if p.arrival, err = bucket.Expect(ctx, o.Objects, bucket.Owner{Home: p.marker.id, Name: o.Name}, o.Patience); err != nil {
		return nil, err
	}
	// From here on this directory alone has the home.
	if err := errors.Join(dir.RemoveTree(markerName), dir.Sync()); err != nil {
		return nil, err
	}
	if p.images, err = image.New(o.Objects, p.patience); err != nil {
		return nil, err
	}
	if err := p.images.Clear(ctx); err != nil {
		return nil, err
	}
	err = listFiles(ctx, o.Objects, p.patience, func(_ string, sum [sha256.Size]byte, _ uint64) error {
		p.there[sum] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	p.temp, err = dir.MakeSub(home.TempDir)
	return p, err
}

// goesOn returns the marker of an interrupted push, or a new one. The directory of another
// cache is refused.
func goesOn(ctx context.Context, dir *durable.Dir, o *Options) (*marker, error) {
	if err := Refuse(dir); err == nil {
		return &marker{dir: dir, id: rand.Text()}, nil
	} else if !errors.Is(err, ErrStored) {
		return nil, err
	}
	m, err := readMarker(dir)
	if err != nil {
		return nil, err
	}
	st, err := bucket.Look(ctx, o.Objects, o.patience())
	switch {
	case errors.Is(err, objects.ErrNotExist), err == nil && st.ID != m.journal:
		return nil, Refuse(dir)
	case err != nil:
		return nil, err
	case !st.Owner.Coming || st.Owner.Home != m.id:
		return nil, ErrArrived
	}
	return m, nil
}

// Close lets go of temporary files.
func (p *Push) Close() (err error) {
	if p == nil {
		return nil
	}
	if p.done {
		err = removeLocal(p.dir)
	}
	if p.temp != nil {
		err = errors.Join(err, p.temp.Close())
	}
	return err
}

// Begin begins the image of the home at the record next.
func (p *Push) Begin(next journal.LSN, now time.Time) *image.Builder {
	return p.images.Begin(nil, image.Manifest{Journal: p.arrival.ID(), At: next, From: next}, now, p.temp)
}

// File puts a large payload or a result into the store, unless it is there. It is safe for
// concurrent use.
func (p *Push) File(ctx context.Context, sum [sha256.Size]byte, body io.ReadSeeker, size int64) error {
	p.mu.Lock()
	there := p.there[sum]
	p.mu.Unlock()
	if there {
		return nil
	}
	name := fmt.Sprintf("%s%x-%d-%s", prefix, sum, p.arrival.Claim(), rand.Text())
	err := objects.Again(ctx, p.patience, func(ctx context.Context) (bool, error) {
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			return true, err
		}
		return false, p.store.Put(ctx, name, body, size)
	})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.there[sum] = true
	return nil
}

// Finish completes the image, and gives the home to the store. The directory is a cache from
// then on.
func (p *Push) Finish(ctx context.Context, b *image.Builder, next journal.LSN) error {
	if _, err := b.Commit(ctx); err != nil {
		return err
	}
	p.marker.journal, p.marker.claim = p.arrival.ID(), p.arrival.Claim()
	if err := p.marker.write(); err != nil {
		return err
	}
	err := p.arrival.Begin(ctx, next)
	p.done = err == nil
	return err
}

// MoveHere says that the home moves into this directory with [Home.Move]. where names
// it for people.
func (h *Home) MoveHere(where string) error {
	if err := writeName(h.marker.dir, h.role.me.Home); err != nil {
		return err
	}
	h.here = &bucket.Owner{Home: h.role.me.Home, Name: where}
	return nil
}

// Move closes the journal and gives the home to the directory, if MoveHere was called. All
// of it is there, on stable storage, and the index is that of a clean stop.
func (h *Home) Move() error {
	if h == nil || h.here == nil {
		return nil
	}
	if n := h.Absent.Len(); n > 0 {
		return fmt.Errorf("the files of %d pages are in the store alone", n)
	}
	if err := h.Log.MoveTo(*h.here); err != nil {
		return err
	}
	return h.marker.settle()
}

// settle makes a cache the place of its home.
func (m *marker) settle() error {
	if err := removeLocal(m.dir); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return errors.Join(m.dir.RemoveTree(absentName), m.dir.RemoveTree(markerName), m.dir.Sync())
}

// moved is asked about a home that has gone to a directory.
func (m *marker) moved(to bucket.Owner, takeOver bool) error {
	switch {
	case to.Home == m.id:
		return errors.Join(fmt.Errorf("%s: %w", m.dir.Path(), ErrHere), m.settle())
	case takeOver:
		return nil
	}
	return &MovedError{To: to}
}

// A role is the relation of a process to its home: it owns it, or follows its owner.
type role struct {
	me       bucket.Owner
	owner    atomic.Pointer[bucket.Owner] // by the last batch applied; nil: this process
	upToDate atomic.Int64                 // µs: all batches of this time are applied
}

// Following reports whether this process follows an owner, present or past. A home in its
// directory has none.
func (h *Home) Following() bool { return h != nil && h.role.owner.Load() != nil }

// Owner returns the owner of the home, and whether it is another process than this one, or
// has left.
func (h *Home) Owner() (o bucket.Owner, following bool) {
	if o := h.role.owner.Load(); o != nil {
		return *o, true
	}
	return h.role.me, false
}

// Left reports whether this process was the last owner, and has left.
func (h *Home) Left() bool {
	o := h.role.owner.Load()
	return o != nil && o.Left && o.Home == h.role.me.Home
}

// UpToDate returns up to when this process has all changes of the owner.
func (h *Home) UpToDate() time.Time { return time.UnixMicro(h.role.upToDate.Load()) }

// follow opens the journal of its owner.
func (h *Home) follow(ctx context.Context, s objects.Store, o bucket.Options) (err error) {
	now := time.Now()
	if h.Log, err = bucket.Follow(ctx, s, o); err != nil {
		return err
	}
	h.role.upToDate.Store(now.UnixMicro())
	return h.findOwner(ctx)
}

// findOwner asks the journal for the owner. One whose claim is lost is unknown: with
// Options.TakeOver the home is taken all the same.
func (h *Home) findOwner(ctx context.Context) error {
	o, err := h.Log.Owner(ctx)
	if bad := new(bucket.DamageError); h.options.TakeOver && errors.As(err, &bad) {
		o.Name, err = "unknown, for "+bad.Error(), nil
	}
	if err == nil {
		h.role.owner.Store(&o)
	}
	return err
}

// Next returns the next batch of the owner, with its payloads and results in the
// directory; nil if there is none yet. To apply it is up to the caller.
func (h *Home) Next(ctx context.Context) (*bucket.Next, error) {
	now := time.Now()
	n, err := h.Log.Next(ctx)
	if n == nil || err != nil {
		if err == nil {
			h.role.upToDate.Store(now.UnixMicro())
		}
		return nil, err
	}
	var names []string
	for rec := range n.Records {
		if _, is, err := record.ParseHomeChange(rec.Data); is || err != nil {
			continue
		}
		var r record.Record
		if err := r.Parse(rec.Data); err != nil {
			return nil, err
		}
		name, _, _ := strings.Cut(r.Temp, "/")
		switch {
		case r.Result != nil:
			if err := h.temp.Renew(name, r.Result); err != nil {
				return nil, err
			}
		case r.Flags&(record.InTemp|record.Result) != 0:
			names = append(names, strings.Clone(name))
		}
	}
	return n, h.fetchSome(ctx, names)
}

// fetchSome is Fetch without an error for objects gone: their jobs are culled later in the
// journal.
func (h *Home) fetchSome(ctx context.Context, names []string) error {
	damage := new(image.DamageError)
	err := h.Fetch(ctx, names)
	if !errors.As(err, &damage) {
		return err
	}
	for _, name := range names {
		if err := h.Fetch(ctx, []string{name}); err != nil && !errors.As(err, &damage) {
			return err
		}
	}
	return nil
}

// Applied notes a batch as applied.
func (h *Home) Applied(ctx context.Context, n *bucket.Next) error {
	if !n.Control() {
		return nil
	}
	return h.findOwner(ctx)
}

// TakeOver makes this process the owner, if it has applied all there is; else the error
// is [bucket.ErrBehind]. Own must follow. After another error it may be tried again.
func (h *Home) TakeOver(ctx context.Context) error {
	if err := h.Log.TakeOver(ctx, h.role.me); err != nil {
		return err
	}
	h.marker.own(h.Log.Claim())
	err := h.Images.renew(ctx)
	if err != nil && h.Absent.Len() == 0 { // all files are here
		err = h.Images.without(err)
	}
	return err
}

// Claimed reports whether a takeover has claimed the journal and was cut off then:
// [Home.TakeOver] goes on with it. Until Own no other process is the owner, and this one makes no changes.
func (h *Home) Claimed() bool { return h.Following() && h.Log.Err() == nil }

// Own ends the following: from here on this process makes changes.
func (h *Home) Own() { h.role.owner.Store(nil) }

// Leave gives the home up: another process may own it, and this one follows. Changes on
// their way are finished before.
func (h *Home) Leave() error {
	me := h.role.me
	me.Left = true
	h.role.owner.Store(&me)
	if err := h.Log.Leave(); err != nil {
		if errors.Is(err, journal.ErrFenced) || errors.Is(err, journal.ErrFailed) {
			h.fail(err)
		}
		return err
	}
	return nil
}

// Pulse gives signs of life of the owner.
func (h *Home) Pulse() *bucket.Pulse { return &bucket.Pulse{Log: h.Log} }

// Vigil watches the owner.
func (h *Home) Vigil() *bucket.Vigil { return &bucket.Vigil{Log: h.Log, Now: time.Now} }
