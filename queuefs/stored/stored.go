// Package stored keeps a home in an object store: its journal, and the payloads and
// results too large for the journal. The directory of the home is a cache then. It is
// made again from the journal unless it is that of the last owner.
//
//	object           contents
//	journal/NUMBER   a batch of the journal, see package bucket
//	files/NAME       a large payload or result, by the name of its temporary file
//	beat/NUMBER      a sign of life of an owner
//
// and images of the home, see package image.
//
// The file cutie-store in the directory names the journal, and the claim of the last
// process here. If others have changed the home since that claim, the directory is made
// again from the newest image and the journal after it, and keeps the files it had until
// the new ones are whole. The home is claimed last, when all that is needed has been read:
// a process that cannot read it leaves the store and the last owner as they are. A process
// with Options.Standby follows the present owner, and may take over.
package stored

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cutie/queuefs/anvl"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/image"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/journal/bucket"
	"cutie/queuefs/objects"
	"cutie/queuefs/record"
)

// Options are the settings of a home in a store.
type Options struct {
	Objects  objects.Store
	Name     string              // of this process, for people
	URL      string              // of this process, for clients and other processes
	TakeOver bool                // from an owner that has not left
	Standby  bool                // follow the present owner, in the place of [OwnedError]
	Patience time.Duration       // how long a request to the store is repeated; 0 means 30 s
	Every    int64               // bytes of journal from one image to the next, at least; 0 means 64 MiB
	Owned    func(*bucket.Pulse) // called when the home is claimed, before it is served: signs of life are wanted from then on; or nil
	Early    bool                // Open does not wait for the published documents: [Home.Published] does
}

// patience returns how long a request is repeated.
func (o *Options) patience() time.Duration { return cmp.Or(o.Patience, 30*time.Second) }

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
	Known *Known // unless nil, the directory is made again, and these queues are to be made

	Images *Images
	Absent *Absent // pages whose jobs have no files in the directory yet

	Lost      *image.DamageError // of published documents, when the directory was made again; or nil
	published func() error       // waits for them; nil: nobody brings them
	bring     func()             // has them come
	coming    atomic.Bool        // they are on their way

	former   atomic.Bool // files of before may be there
	options  Options
	claims   bool // this process becomes the owner once it has read the home, unless another one does before
	store    objects.Store
	patience time.Duration
	temp     *durable.Dir
	marker   *marker
	fail     func(error) // called with the error of a change of unknown outcome
	role     role
	here     *bucket.Owner // the directory, if the home moves here
}

// errRead: the home is to be read before it is claimed.
var errRead = errors.New("the home is to be read first")

// Open opens the home in a store: [Home.Claim] makes this process its owner, unless another
// one is, which it follows with Standby. dir is the directory of the home; with anew it is
// made again in any case. The caller has the lock of the home.
func Open(ctx context.Context, dir *durable.Dir, o *Options, anew bool, fail func(error)) (*Home, error) {
	m, err := readMarker(dir)
	if err != nil {
		return nil, err
	}
	h := &Home{store: o.Objects, patience: o.patience(), options: *o, fail: fail, marker: m}
	h.role.me = bucket.Owner{Home: m.id, Name: o.Name, URL: o.URL}
	if h.temp, err = dir.MakeSub(home.TempDir); err != nil {
		return nil, err
	}
	if err := h.open(ctx, dir, anew); err != nil {
		return nil, errors.Join(h.Kept(err), h.Close())
	}
	return h, nil
}

func (h *Home) open(ctx context.Context, dir *durable.Dir, anew bool) error {
	m, o := h.marker, &h.options
	former, err := m.former()
	if err != nil {
		return err
	}
	if former != nil && former.claim == m.claim { // it was about to be made again, or the former files were about to be taken back
		m.claim, m.whole = 0, false
	}
	begins := true
	take := func(from bucket.Owner) error {
		begins = false
		if from.Gone {
			return m.moved(from, o.TakeOver)
		}
		if !h.free(&from) {
			return &OwnedError{By: from.Name}
		}
		return errRead
	}
	options := bucket.Options{Owner: h.role.me, Take: take, Near: m.claim, Patience: o.Patience, Temp: h.temp}
	h.Log, err = bucket.Open(ctx, o.Objects, options)
	owned, isOwned := errors.AsType[*OwnedError](err)
	if h.claims = errors.Is(err, errRead); h.claims || isOwned && o.Standby {
		if err = h.follow(ctx, o.Objects, options); err != nil && isOwned {
			err = errors.Join(owned, err)
		}
	}
	if err != nil {
		return err
	}
	if id := h.Log.ID(); m.journal != "" && m.journal != id {
		return fmt.Errorf("%s: %w", dir.Path(), ErrOther)
	} else {
		m.journal = id
	}
	left, err := home.MovedAway(h.temp)
	if err != nil {
		return err
	}
	h.former.Store(left || former != nil)
	continues := begins && !anew
	if h.Following() {
		if continues, err = h.goesOn(ctx, former, anew); err != nil {
			return err
		}
		if continues && !h.claims {
			m.claim = 0 // the directory of a standby is made again by the next process
		}
	} else {
		h.own()
	}
	if h.Images, err = openImages(ctx, h, o.Every); err != nil {
		return h.passed(ctx, err)
	}
	if at, next := h.Images.at(), h.Log.Stats().Next; h.Following() && !h.claims && at > next {
		return fmt.Errorf("the newest image is of all records before %d, the journal was read before %d: %w", at, next, bucket.ErrPassed)
	}
	if continues && (h.Images.Lost() == nil || !lacks(dir)) {
		h.Absent, err = readAbsent(dir)
		if !errors.Is(err, durable.ErrDamaged) {
			return err
		}
	}
	return h.passed(ctx, h.makeAgain(ctx, dir))
}

// free reports whether this process may become the owner after another one.
func (h *Home) free(from *bucket.Owner) bool {
	return from.Left || from.Home == h.role.me.Home || h.options.TakeOver
}

// own begins the ownership of the last claim.
func (h *Home) own() {
	h.marker.own(h.Log.Claim())
	if h.options.Owned != nil {
		h.options.Owned(h.Pulse())
	}
}

// goesOn reports whether nobody has changed the home since this directory was that of its
// owner. If that is true of the former files they are taken back.
func (h *Home) goesOn(ctx context.Context, former *marker, anew bool) (bool, error) {
	m := h.marker
	if anew {
		return false, nil
	}
	if m.whole {
		if idle, err := h.Log.Idle(ctx, m.claim); idle || err != nil {
			return idle, err
		}
	}
	if former == nil || former.journal != m.journal {
		return false, nil
	}
	idle, err := h.Log.Idle(ctx, former.claim)
	if idle && err == nil {
		err = m.takeBack(former, h.temp)
	}
	return idle, err
}

// Claims reports whether Claim is to be called: the home has been read for its next owner.
// The error is an [*OwnedError] if another process has become the owner meanwhile, unless
// this one may follow it.
func (h *Home) Claims() (bool, error) {
	if h == nil || !h.claims || !h.Following() {
		return false, nil
	}
	owner := h.role.owner.Load()
	if h.free(owner) {
		return true, nil
	}
	h.claims = false
	if !h.options.Standby {
		return false, &OwnedError{By: owner.Name}
	}
	return false, nil
}

// Claim makes this process the owner. With batches that are not applied yet the error is
// [bucket.ErrBehind].
func (h *Home) Claim(ctx context.Context) error {
	if h.Known != nil && !h.options.TakeOver {
		if err := h.Images.complete(ctx); err != nil {
			return err
		}
	}
	if err := h.TakeOver(ctx); err != nil {
		return err
	}
	h.Own()
	h.own()
	if h.Known != nil {
		return nil
	}
	return h.marker.synced() // before the first change: after a crash nobody has passed the directory
}

// passed is [bucket.ErrPassed] for damage of an image of an owner who has made another one
// since: objects of the image may have been deleted.
func (h *Home) passed(ctx context.Context, err error) error {
	damage := new(image.DamageError)
	if !errors.As(err, &damage) || !h.Following() {
		return err
	}
	if newest, e := h.Images.store.Newest(ctx); e == nil && newest > h.Images.newest {
		return fmt.Errorf("%w: %w", bucket.ErrPassed, err)
	}
	return err
}

// makeAgain sets the files of the directory aside, and brings it to the newest image. Without a whole
// one the one before is taken, with more of the journal.
func (h *Home) makeAgain(ctx context.Context, dir *durable.Dir) error {
	if first := h.Log.Stats().First; first > max(1, h.Images.at()) {
		return cmp.Or(h.Images.Lost(), error(noImage(first)))
	}
	if err := h.fromImage(ctx, dir); err != nil {
		return err
	}
	var queues []string
	if h.Images.last != nil {
		list, err := home.ReadList(dir)
		if err != nil {
			return err
		}
		if queues, err = list.Queues(); err != nil {
			return err
		}
	}
	known, err := scan(h.Log, h.Images.at(), queues)
	if err == nil && known.Service != "" {
		err = dir.Replace(home.InfoName, []byte(known.Service))
	}
	h.Known = known
	return err
}

// noImage is the damage of a store without the records before those of its journal.
func noImage(first journal.LSN) *image.DamageError {
	return &image.DamageError{Name: image.Manifests, Text: fmt.Sprintf("has no image of the records before %d, with which the journal begins", first)}
}

// fromImage sets the files of the directory aside, and restores the files of an image, if there is one.
func (h *Home) fromImage(ctx context.Context, dir *durable.Dir) (err error) {
	h.former.Store(true)
	for {
		if err := h.marker.makeRoom(h.temp); err != nil {
			return err
		}
		m := h.Images.last
		h.Absent = newAbsent(dir, m)
		if m == nil {
			return nil
		}
		if err = h.Images.store.Restore(ctx, m, dir, func(path string) bool { return !published(path) }); err == nil {
			h.bringPublished(m, dir)
			return h.Absent.write()
		}
		damage := new(image.DamageError)
		if !errors.As(err, &damage) || h.Images.before == nil {
			return err
		}
		h.Images.found(damage)
		h.Images.last, h.Images.before = h.Images.before, nil
	}
}

// published reports whether a path is of a published document. The few files beside the
// documents come with the rest of the home.
func published(path string) bool {
	rest, ok := strings.CutPrefix(path, home.PublishedDir+"/")
	return ok && strings.Contains(rest, "/")
}

// bringPublished restores the published documents, while the journal is read, or after it if
// nobody waits for them.
func (h *Home) bringPublished(m *image.Manifest, dir *durable.Dir) {
	done := make(chan error, 1)
	h.coming.Store(true)
	begin := make(chan struct{})
	h.bring = sync.OnceFunc(func() { close(begin) })
	if h.waits() {
		h.bring()
	}
	h.Images.wg.Go(func() {
		select {
		case <-begin:
		case <-h.Images.ctx.Done():
		}
		done <- h.Images.store.Restore(h.Images.ctx, m, dir, published)
	})
	h.published = sync.OnceValue(func() error {
		err := h.passed(context.Background(), <-done)
		if damage := new(image.DamageError); errors.As(err, &damage) && !errors.Is(err, bucket.ErrPassed) {
			h.Lost = damage
			err = dir.RemoveTree(home.PublishedDir)
		}
		h.coming.Store(err != nil)
		return err
	})
}

// Published waits for the published documents, and has them come if they do not yet. If any
// is damaged the directory gets none of them, since all can be made again, and Lost says why.
func (h *Home) Published() error {
	if h == nil || h.published == nil {
		return nil
	}
	h.bring()
	return h.published()
}

// Coming reports whether published documents are on their way. Until Published has returned
// no image may be made, and the next process makes the directory again.
func (h *Home) Coming() bool { return h != nil && h.coming.Load() }

// Ready ends the opening. The next process goes on with the directory from now on, or if it
// was made again from [Home.Synced] on: a crash before leaves files on no stable storage.
func (h *Home) Ready() error {
	if h == nil {
		return nil
	}
	if h.waits() {
		if err := h.Published(); err != nil {
			return err
		}
	} else if h.bring != nil {
		h.bring()
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
	if h.Known != nil {
		return nil
	}
	return h.marker.synced()
}

// waits reports whether the opening waits for the published documents. A standby may have to
// begin anew.
func (h *Home) waits() bool { return !h.options.Early || h.Following() && !h.claims }

// Former reports whether there are files of before the directory was made again.
func (h *Home) Former() bool { return h.former.Load() }

// SweepFormer removes the files of before the directory was made again, if the new ones are
// whole and on stable storage, in the background until Close. After an error the next
// process goes on.
func (h *Home) SweepFormer() error {
	if h.Coming() || !h.Absent.none() || !h.marker.settled() || !h.former.Swap(false) {
		return nil
	}
	if err := h.marker.dropFormer(h.temp); err != nil {
		return err
	}
	h.Images.wg.Go(func() { _ = home.SweepFormer(h.temp, h.Images.ctx.Err) })
	return nil
}

// Syncing is called before the directory is synced, and Synced when all written before
// Syncing is on stable storage.
func (h *Home) Syncing() {
	if h != nil {
		h.Absent.syncing()
	}
}

// Synced is beside [Home.Syncing].
func (h *Home) Synced() error {
	if h == nil {
		return nil
	}
	if err := h.Absent.write(); err != nil || h.Coming() {
		return err
	}
	return h.marker.synced()
}

// Close closes the journal and lets go of the store.
func (h *Home) Close() (err error) {
	if h == nil {
		return nil
	}
	h.Images.Stop()
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
			if err = h.Log.Reserve(journal.Changes, len(contents), size); err == nil {
				continue
			}
		}
		if err == nil {
			_, err = t.Wait()
		}
		if err != nil && !errors.Is(err, journal.ErrFollowing) {
			h.fail(err)
		}
		return err
	}
}

// markerName is the file of a marker.
const markerName = "cutie-store"

// A marker says of which journal a directory is a cache.
type marker struct {
	dir     *durable.Dir
	id      string // names the directory
	journal string // "": none yet
	was     uint64 // the claim in the file when it was read
	whole   bool   // the file says that the directory was whole

	mu      sync.Mutex
	claim   uint64 // of its last process; 0: it was a standby, or the directory is not whole
	written bool   // by this process, with its claim
}

// own sets the claim for the next call of synced. mu guards both while the home is open.
func (m *marker) own(claim uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.claim, m.written = claim, false
}

// synced writes the marker, unless it is written.
func (m *marker) synced() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.written {
		return nil
	}
	return m.write()
}

func file(dir *durable.Dir) durable.Sealed {
	return durable.Sealed{Dir: dir, Name: markerName, Kind: "cache of a store", Max: 1 << 16}
}

// Refuse returns [ErrStored] if the directory of a home is the cache of a store.
func Refuse(dir *durable.Dir) error {
	if _, err := dir.Stat(markerName); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", dir.Path(), ErrStored)
}

// readMarker reads the marker, or makes the first one of an unused home. For a home of
// its own the error is [ErrUnstored].
func readMarker(dir *durable.Dir) (*marker, error) {
	m := &marker{dir: dir}
	switch err := m.read(); {
	case errors.Is(err, durable.ErrDamaged):
		// Of a cache nothing is lost.
	case errors.Is(err, fs.ErrNotExist):
		if err := unused(dir); err != nil {
			return nil, err
		}
	default:
		return m, err
	}
	m.id = rand.Text()
	return m, m.writeAs(0)
}

// read reads the file.
func (m *marker) read() error {
	text, err := file(m.dir).Read()
	if err != nil {
		return err
	}
	r, err := anvl.ParseRecord(text)
	if err != nil {
		return fmt.Errorf("%s: %w", markerName, err)
	}
	m.id, m.journal, m.whole = r.Value("directory"), r.Value("journal"), r.Value("whole") == "true"
	m.claim, err = strconv.ParseUint(r.Value("claim"), 10, 64)
	m.was = m.claim
	return err
}

// write says that the directory is whole.
func (m *marker) write() error {
	m.whole = true
	err := m.writeAs(m.claim)
	m.written = err == nil
	return err
}

func (m *marker) writeAs(claim uint64) error {
	return file(m.dir).Write(anvl.AppendRecord(nil, anvl.Record{{Name: "directory", Value: m.id}, {Name: "journal", Value: m.journal},
		{Name: "claim", Value: strconv.FormatUint(claim, 10)}, {Name: "whole", Value: strconv.FormatBool(m.whole)}}))
}

// settled reports whether the file says that the directory is whole.
func (m *marker) settled() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.written
}

// unused returns [ErrUnstored] if the home has queues or a journal.
func unused(dir *durable.Dir) error {
	used := false
	if _, err := dir.Stat(home.ListName); err == nil {
		used = true
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, path := range [][]string{{home.LogDir, home.JournalDir}, {home.QueuesDir}} {
		d, err := dir, error(nil)
		for _, name := range path {
			from := d
			d, err = from.Sub(name)
			if from != dir {
				from.Close()
			}
			if err != nil {
				break
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = d.Names(func(name string) { used = used || name != home.LostFound })
			d.Close()
		}
		if err != nil {
			return err
		}
	}
	if used {
		return fmt.Errorf("%s: %w", dir.Path(), ErrUnstored)
	}
	return nil
}

// Known is a home without its jobs, by its image and the journal since.
type Known struct {
	Imaged  bool                     // the directory has the files of an image
	Service string                   // cutie-info.txt, "" if the journal has none
	Queues  []*Queue                 // in the order in which they were made
	Gone    map[string]index.Numbers // queues of the image, gone or made again, and their last numbers
}

// A Queue is a queue, without its jobs.
type Queue struct {
	ID       string
	Kept     bool          // it is in the image; the other fields have changes only
	Since    journal.LSN   // records before are of former queues of the name
	Former   index.Numbers // their last numbers
	Info     string        // queue-info.txt
	Modified int64         // µs; its date
	Callback string        // URL for callbacks
}

// scan reads a journal from a record on, 0 means all of it. imaged are the queues there are
// in an image at this record.
func scan(log *bucket.Log, from journal.LSN, imaged []string) (*Known, error) {
	k := &Known{Imaged: from > 0, Gone: map[string]index.Numbers{}}
	last := map[string]index.Numbers{}
	open := map[string]*Queue{}
	for _, id := range imaged {
		open[id] = &Queue{ID: id, Kept: true}
		k.Queues = append(k.Queues, open[id])
	}
	var r record.Record
	for rec, err := range log.Read(from) {
		if err != nil {
			return nil, err
		}
		c, is, err := record.ParseHomeChange(rec.Data)
		if err == nil && !is {
			err = r.Parse(rec.Data)
		}
		if err != nil {
			return nil, err
		}
		if is {
			k.change(&c, rec.LSN, open, last)
			continue
		}
		last[r.Queue] = last[r.Queue].Max(index.Numbers{Job: r.Job, Seq: r.Seq, Time: r.Time})
		if q := open[r.Queue]; q != nil && r.Job == 0 && r.Kind != job.Phase {
			q.Modified = r.Payload.Submitted
			if len(r.File.Text) > 0 {
				q.Info = string(r.File.Text)
			}
		}
	}
	for id := range k.Gone {
		k.Gone[id] = last[id]
	}
	return k, nil
}

// change takes in a change of the home. open are the queues there are, and last their
// last numbers.
func (k *Known) change(c *record.HomeChange, at journal.LSN, open map[string]*Queue, last map[string]index.Numbers) {
	q := open[c.Queue]
	switch {
	case c.Kind == record.ServiceInfo:
		k.Service = c.Text
	case c.Kind == record.QueueMade:
		k.drop(q)
		q = &Queue{ID: c.Queue, Since: at, Former: last[c.Queue], Info: c.Text, Modified: c.Time}
		if former := open[c.Queue]; former != nil {
			q.Callback = former.Callback
		}
		open[c.Queue] = q
		k.Queues = append(k.Queues, q)
	case c.Kind == record.CallbackURL && q == nil:
		// Before its queue: the URL is noted first.
		open[c.Queue] = &Queue{ID: c.Queue, Callback: c.Text}
	case q == nil:
	case c.Kind == record.CallbackURL:
		q.Callback = c.Text
	case c.Kind == record.QueueInfo:
		q.Info = c.Text
	case c.Kind == record.QueueGone:
		k.drop(q)
		delete(open, c.Queue)
	}
}

// drop takes a queue out.
func (k *Known) drop(q *Queue) {
	if q != nil && q.Kept {
		k.Gone[q.ID] = index.Numbers{}
	}
	k.Queues = slices.DeleteFunc(k.Queues, func(o *Queue) bool { return o == q })
}
