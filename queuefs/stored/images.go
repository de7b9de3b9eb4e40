package stored

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"cutie/queuefs/durable"
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
