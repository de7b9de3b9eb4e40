package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

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
			defer alive(ctx, c, svc)()
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
	clean := func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}
	return strings.Map(clean, fmt.Sprintf("the directory %s on %s", dir, host))
}

// move shows the octets to and from the store while a home moves.
func (o *moveOptions) move(ctx context.Context, c *call, what string, do func(ctx context.Context, s objects.Store) error) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	began := time.Now()
	s := &countedStore{Store: o.store, bar: newProgress(c.Stderr, what, -1, time.Second)}
	err := do(ctx, s)
	s.bar.Clear()
	if err == nil {
		c.Sayf("%s %s in %v", what, c.Out.Format().Size(s.octets), time.Since(began).Round(time.Millisecond))
	}
	return err
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

// alive gives signs of life until stop is called.
func alive(ctx context.Context, c *call, svc *queuefs.Service) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		svc.Pulse().Keep(ctx, beatEvery, func(err error) { c.Warnf("sign of life: %v", err) })
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// A countedStore store counts the octets of a move.
type countedStore struct {
	objects.Store

	mu     sync.Mutex
	bar    *progress
	octets int64
}

func (s *countedStore) add(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.octets += n
	_ = s.bar.Add(n)
}

// Put is [objects.Store.Put].
func (s *countedStore) Put(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	err := s.Store.Put(ctx, name, body, size)
	if err == nil {
		s.add(size)
	}
	return err
}

// Get is [objects.Store.Get].
func (s *countedStore) Get(ctx context.Context, name string, most int64) (io.ReadCloser, error) {
	return s.count(s.Store.Get(ctx, name, most))
}

// Part is [objects.Store.Part].
func (s *countedStore) Part(ctx context.Context, name string, from, size int64) (io.ReadCloser, error) {
	return s.count(s.Store.Part(ctx, name, from, size))
}

func (s *countedStore) count(body io.ReadCloser, err error) (io.ReadCloser, error) {
	if err != nil {
		return nil, err
	}
	return &countedBody{body, s}, nil
}

type countedBody struct {
	io.ReadCloser
	store *countedStore
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.store.add(int64(n))
	return n, err
}
