package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"cutie/cmd/cutie/reach"
	"cutie/publisher"
	"cutie/queuefs"
	"cutie/queuefs/objects"
	"cutie/queuefs/stored"
)

// moveOptions are those of a push or a pull.
type moveOptions struct {
	dir      string
	store    objects.Store
	takeOver bool
}

// push moves a home from a directory into a store.
func push(ctx context.Context, c *call, o *moveOptions) error {
	if err := reach.AsOwner(o.dir); err != nil {
		return err
	}
	return o.move(ctx, c, "pushed", func(ctx context.Context, s objects.Store) error {
		svc, err := queuefs.Open(o.dir, queuefs.Options{Report: warn(c), PushTo: &stored.Options{Objects: s, Name: o.place()}})
		if errors.Is(err, queuefs.ErrArrived) {
			c.Warnf("%s: %v", o.dir, err)
			return nil
		}
		if err != nil {
			return storeHint(reach.HomeHint(o.dir, err))
		}
		return whilePublishing(c, svc, func() error { return svc.Push(ctx) })
	})
}

// pull moves a home from a store into a directory.
func pull(ctx context.Context, c *call, o *moveOptions) error {
	if err := reach.AsOwner(o.dir); err != nil {
		return err
	}
	fresh, err := queuefs.Unmade(o.dir)
	if err != nil {
		return err
	}
	if fresh { // no directory is made for a home that cannot come
		st, err := stored.Look(ctx, o.store)
		if err != nil {
			return err
		}
		if by := st.Journal.Owner; !by.Left && !by.Gone && !by.Coming && !o.takeOver {
			return pullHint(&queuefs.OwnedError{By: by.Name})
		}
		if err := queuefs.Init(o.dir, namedService(queuefs.ServiceInfo{}, o.dir)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return o.move(ctx, c, "pulled", func(ctx context.Context, s objects.Store) error {
		svc, err := queuefs.Open(o.dir, queuefs.Options{Report: warn(c), Stored: &stored.Options{Objects: s, Name: "cutie store pull into " + o.place(), TakeOver: o.takeOver}})
		if errors.Is(err, queuefs.ErrHere) {
			c.Warnf("%v", err)
			return nil
		}
		if err != nil {
			return pullHint(reach.HomeHint(o.dir, err))
		}
		return whilePublishing(c, svc, func() error {
			defer meanwhile(ctx, func(ctx context.Context) {
				svc.Pulse().Keep(ctx, beatEvery, func(err error) { c.Warnf("sign of life: %v", err) })
			})()
			return svc.MoveHere(ctx, o.place())
		})
	})
}

// pullHint is storeHint for a directory that should get the home.
func pullHint(err error) error {
	if errors.Is(err, queuefs.ErrUnstored) {
		return err
	}
	return storeHint(err)
}

// place names the directory for people, on one line.
func (o *moveOptions) place() string {
	dir := o.dir
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	host, err := os.Hostname()
	if err != nil {
		host = "an unnamed machine"
	}
	return oneLine(fmt.Sprintf("the directory %s on %s", dir, host))
}

// move shows the bytes to and from the store while a home moves.
func (o *moveOptions) move(ctx context.Context, c *call, what string, do func(ctx context.Context, s objects.Store) error) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	began, store, bar := time.Now(), objects.Count(o.store), newProgress(c.Stderr, what, -1, time.Second)
	moved := func() int64 {
		written, read := store.Bytes()
		return written + read
	}
	ended := meanwhile(ctx, func(ctx context.Context) {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for shown := int64(0); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				now := moved()
				_ = bar.Add(now - shown)
				shown = now
			}
		}
	})
	err := do(ctx, store)
	ended()
	bar.Clear()
	if err == nil {
		c.Sayf("%s %s in %v", what, c.Out.Format().Size(moved()), time.Since(began).Round(time.Millisecond))
	}
	return err
}

// meanwhile does something until stop is called, which waits for its end.
func meanwhile(ctx context.Context, do func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { do(ctx) })
	return func() {
		cancel()
		wg.Wait()
	}
}

func warn(c *call) func(queuefs.Problem) {
	return func(p queuefs.Problem) { c.Warnf("%s", p) }
}

// whilePublishing does something with a home whose published documents are up to date, and closes
// it.
func whilePublishing(c *call, svc *queuefs.Service, do func() error) error {
	options := func() (publisher.Options, error) { return c.Publishing(svc) }
	return withFollowers(svc, options, func(*publisher.Publisher) error { return do() })
}

// withFollowers does something with a home and its publisher, which follows it, and closes both.
// A home without a base URI has that of a daemon with no settings. options runs before the
// publisher is there.
func withFollowers(svc *queuefs.Service, options func() (publisher.Options, error), do func(*publisher.Publisher) error) (err error) {
	var pub *publisher.Publisher
	defer func() {
		err = errors.Join(err, svc.Close())
		if pub != nil {
			err = errors.Join(err, pub.Close())
		}
	}()
	if svc.Info().BaseURI == "" {
		svc.SetBaseURI("http://" + reach.DefaultListen + "/")
	}
	o, err := options()
	if err != nil {
		return err
	}
	if pub, err = publisher.New(svc, o); err != nil {
		return err
	}
	svc.Follow(pub)
	return do(pub)
}

// beatEvery is the pause between signs of life of a pull: a daemon takes over from a silent
// owner.
const beatEvery = 2500 * time.Millisecond
