// Package stored keeps a home in an object store: its journal, and the payloads and
// results too large for the journal. The directory of the home is a cache then. It is
// made again from the journal unless it is that of the last owner.
//
//	object           contents
//	journal/NUMBER   a batch of the journal, see package bucket
//	files/NAME       a payload or result, by the name of its temporary file
//
// The file cutie-store in the directory names the journal, and the claim of the last
// process here. If the last claim of the journal is another one, others have changed the
// home since, and the directory is emptied.
package stored

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/journal"
	"cutie/queuefs/journal/bucket"
	"cutie/queuefs/objects"
	"cutie/queuefs/record"
)

// Options are the settings of a home in a store.
type Options struct {
	Objects  objects.Store
	Name     string        // of this process, for people
	TakeOver bool          // from an owner that has not left
	Patience time.Duration // how long a request to the store is repeated; 0 means 30 s
}

var (
	// ErrStored: the directory is a cache, to be opened with its store.
	ErrStored = errors.New("the home is in an object store, and this directory is its cache")

	// ErrUnstored: the directory is a home of its own.
	ErrUnstored = errors.New("the home is in this directory, not in an object store")

	// ErrOther: store and directory are of two homes.
	ErrOther = errors.New("the object store has another home than this directory")
)

// An OwnedError: another process owns the home and has not left it.
type OwnedError struct{ By string }

func (e *OwnedError) Error() string {
	return "the home in the object store is owned by " + e.By + ", which has not closed it"
}

// A Home is the part of a home in a store. Its methods are safe for concurrent use.
type Home struct {
	Log   *bucket.Log
	Known *Known // unless nil, the directory is empty, and these queues are to be made

	store    objects.Store
	patience time.Duration
	temp     *durable.Dir
	marker   *marker
	fail     func(error) // called with the error of a change of unknown outcome
}

// prefix is that of the objects of files.
const prefix = "files/"

// Open becomes the owner of the home in a store. dir is the directory of the home; with
// anew it is emptied in any case. The caller has the lock of the home.
func Open(ctx context.Context, dir *durable.Dir, o *Options, anew bool, fail func(error)) (h *Home, err error) {
	m, err := readMarker(dir)
	if err != nil {
		return nil, err
	}
	h = &Home{store: o.Objects, patience: cmp.Or(o.Patience, 30*time.Second), fail: fail}
	if h.temp, err = dir.MakeSub(home.TempDir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close())
		}
	}()
	continues := !anew
	take := func(from bucket.Owner) error {
		if from.Home != m.id || from.Claim != m.claim {
			continues = false
		}
		if !from.Left && from.Home != m.id && !o.TakeOver {
			return &OwnedError{By: from.Name}
		}
		return nil
	}
	if h.Log, err = bucket.Open(ctx, o.Objects, bucket.Options{Owner: bucket.Owner{Home: m.id, Name: o.Name}, Take: take, Near: m.claim, Patience: o.Patience, Temp: h.temp}); err != nil {
		return nil, err
	}
	if id := h.Log.ID(); m.journal != "" && m.journal != id {
		return nil, fmt.Errorf("%s: %w", dir.Path(), ErrOther)
	} else {
		m.journal = id
	}
	m.claim = h.Log.Claim()
	h.marker = m
	if continues {
		return h, nil
	}
	if h.Known, err = scan(h.Log); err == nil {
		err = empty(dir, h.temp)
	}
	if err == nil && h.Known.Service != "" {
		err = dir.Replace(home.InfoName, []byte(h.Known.Service))
	}
	return h, err
}

// Ready says that the directory is up to the journal: the next process of it goes on
// from there.
func (h *Home) Ready() error {
	if h == nil {
		return nil
	}
	dir := h.marker.dir
	if _, err := dir.Stat(home.ListName); errors.Is(err, fs.ErrNotExist) {
		err = dir.Replace(home.ListName, nil) // without the file every directory would be a queue
		if err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	return h.marker.write()
}

// Close closes the journal and lets go of the store.
func (h *Home) Close() (err error) {
	if h == nil {
		return nil
	}
	if h.Log != nil {
		err = h.Log.Close()
	}
	return errors.Join(err, h.temp.Close())
}

// Note puts changes of the home into the journal, and returns when they are on stable
// storage. Without a store nothing is needed.
func (h *Home) Note(changes ...record.HomeChange) error {
	if h == nil || len(changes) == 0 {
		return nil
	}
	contents := make([]journal.Contents, len(changes))
	size := 0
	for i := range changes {
		contents[i].Head = changes[i].Bytes()
		size += contents[i].Size()
	}
	for {
		t, err := h.Log.Append(journal.Changes, contents)
		if errors.Is(err, journal.ErrUnready) {
			if err = h.Log.Reserve(journal.Changes, size); err == nil {
				continue
			}
		}
		if err == nil {
			_, err = t.Wait()
		}
		if err != nil {
			h.fail(err)
		}
		return err
	}
}

// Keep puts a temporary file into the store, before a record names it.
func (h *Home) Keep(ctx context.Context, name string) error {
	if h == nil {
		return nil
	}
	f, err := h.temp.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	return h.again(ctx, func() error {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		return h.store.Put(ctx, prefix+name, f, st.Size())
	})
}

// pause is that before the second attempt at a request; it doubles.
const pause = 50 * time.Millisecond

// again repeats a request for a file until the patience is over.
func (h *Home) again(ctx context.Context, try func() error) error {
	end := time.Now().Add(h.patience)
	for wait := pause; ; wait *= 2 {
		err := try()
		if err == nil || errors.Is(err, objects.ErrNotExist) || errors.Is(err, fs.ErrClosed) || time.Now().Add(wait).After(end) {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// fetchers is how many files are fetched at once.
const fetchers = 8

// Fetch brings temporary files of these names from the store, unless the directory has
// them.
func (h *Home) Fetch(ctx context.Context, names []string) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(fetchers)
	fetched := false
	for _, name := range names {
		if _, err := h.temp.Stat(name); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		fetched = true
		g.Go(func() error { return h.again(ctx, func() error { return h.fetch(ctx, name) }) })
	}
	err := g.Wait()
	if err == nil && fetched {
		err = h.temp.SyncFS() // after a crash they are not fetched again
	}
	return err
}

func (h *Home) fetch(ctx context.Context, name string) (err error) {
	body, err := h.store.Get(ctx, prefix+name, 0)
	if errors.Is(err, objects.ErrNotExist) {
		return fmt.Errorf("payload or result that the journal names: %w", err)
	}
	if err != nil {
		return err
	}
	defer body.Close()
	f, tmp, err := h.temp.Temp()
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			h.temp.Remove(tmp)
		}
	}()
	if err := copyTo(f, body); err != nil {
		return err
	}
	return h.temp.Rename(tmp, h.temp, name)
}

func copyTo(f *os.File, body io.Reader) error {
	_, err := io.Copy(f, body)
	return errors.Join(err, f.Close())
}
