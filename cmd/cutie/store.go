package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"cutie/publisher"
	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/objects"
	"cutie/queuefs/objects/s3"
	"cutie/queuefs/state"
	"cutie/queuefs/stored"
)

// storeVerb looks at homes in object stores, and moves homes there and back.
func storeVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "store status URL | check URL | push DIR URL | pull URL DIR",
		Short: "look at a home in an object store, verify it, or move a home there and back",
		Args:  between(2, 3),
		Long: `
status prints who owns the home, where its journal and its images are, and what they
take. check reads every batch of the journal, both images, and all payloads and results,
compares the digests, and prints a line for each object that is missing or damaged, with
where its contents can be had. Neither changes anything, nor needs a daemon. A check beside
a daemon at work may name what was just deleted: ask again.

push moves the home in DIR into the store: jobs, payloads, results, published documents and
properties, with all numbers. Then DIR is its cache, and cutie serve --home DIR --store URL
goes on. pull moves a home out of the store into DIR, an empty directory or its cache; then
cutie serve --home DIR goes on, and daemons refuse the home in the store. No daemon may have
the home meanwhile. A move that was interrupted goes on when it is called again; until the
end the home is where it was, and is whole there. push puts nothing into a store with a home,
unless it was pulled from there into DIR. Both print the status at their end.

pull leaves the objects in the store. If DIR is lost, pull and serve with --takeover take the
home as it was then. Users, secrets and logs stay in the directory: see cutie help stores.

The exit code is 3 without a home in the store, 5 if the home cannot be moved as it is, and
8 if something is damaged. See cutie help stores for the URL and the credentials.`,
		Example: `cutie store status s3://bucket/prefix
cutie store check s3://bucket/prefix --store-endpoint http://127.0.0.1:9000
cutie store push archive s3://bucket/prefix
cutie store pull s3://bucket/prefix archive`,
	}
	var o moveOptions
	endpoint := cmd.Flags().String("store-endpoint", "", "`URL` of the service that has the bucket (default that of AWS_ENDPOINT_URL, else Amazon S3)")
	cmd.Flags().BoolVar(&o.takeOver, "takeover", false, "pull the home from an owner or a directory that is lost")
	return c.Verb(cmd, optForm|optVerbose, func(ctx context.Context) error {
		word, args := c.Args[0], c.Args[1:]
		n := map[string]int{"status": 1, "check": 1, "push": 2, "pull": 2}[word]
		switch {
		case n == 0:
			return usagef("%.40q is not status, check, push or pull", word)
		case n != len(args):
			return usagef("cutie store %s takes %d arguments after the word", word, n)
		case o.takeOver && word != "pull":
			return usagef("--takeover is for pull")
		}
		url := args[0]
		if word == "push" {
			o.dir, url = args[0], args[1]
		} else if word == "pull" {
			o.dir = args[1]
		}
		bucket, err := s3.Open(url, *endpoint)
		if err != nil {
			return usagef("%v", err)
		}
		o.store = bucket
		switch word {
		case "push":
			if err := push(ctx, c, &o); err != nil {
				return err
			}
		case "pull":
			if err := pull(ctx, c, &o); err != nil {
				return noHome(url, err)
			}
		}
		st, err := stored.Look(ctx, bucket)
		if err != nil {
			return noHome(url, err)
		}
		if word != "check" {
			return storeStatus(c, url, st)
		}
		r, err := st.Check(ctx)
		if err != nil {
			return explainHome(err, "")
		}
		return storeReport(c, url, r)
	})
}

// noHome is explainHome for a store that may have no home.
func noHome(url string, err error) error {
	if !errors.Is(err, objects.ErrNotExist) {
		return explainHome(err, "")
	}
	return withHint(fmt.Errorf("%s has no home: %w", url, err), "cutie serve --store begins one, cutie store push moves one there")
}

func storeStatus(c *call, url string, st *stored.Status) error {
	j := &st.Journal
	owner := j.Owner.Name
	switch {
	case j.Owner.Left:
		owner += ", which has closed it"
	case j.Owner.Gone:
		owner += ", where the home has moved"
	case j.Owner.Coming:
		owner += ", whose home is on its way here"
	}
	var b strings.Builder
	line := func(name, format string, a ...any) { fmt.Fprintf(&b, "%-10s %s\n", name, fmt.Sprintf(format, a...)) }
	line("owner", "%s", owner)
	line("journal", "batches %d to %d, records %d to %d", j.Begin, j.End, j.First, j.Next-1)
	facts := []any{url, owner, int64(j.Begin), int64(j.End), int64(j.First), int64(j.Next - 1)}
	if m := st.Image; m == nil {
		line("image", "none, or damaged")
		facts = append(facts, int64(0), int64(0), time.Time{}, int64(0), int64(0), int64(0), int64(0), int64(0), int64(0))
	} else {
		index, published, jobFiles, payloads := m.Sizes()
		size := c.Out.Format().Size
		made := time.UnixMicro(m.Made).UTC()
		line("image", "%d of %s, of all records before %d; %d records since", m.Number, c.Out.Format().Date(made), m.At, j.Next-m.At)
		line("octets", "%s in %d objects: index %s, published documents and properties %s, job files %s, payloads %s",
			size(m.Live()), len(m.Objects), size(index), size(published), size(jobFiles), size(payloads))
		facts = append(facts, int64(m.Number), int64(m.At), made, int64(j.Next-m.At), int64(len(m.Objects)), index, published, jobFiles, payloads)
	}
	if c.Form != "" {
		return c.Facts(false, state.OfFacts(state.StoreClass, facts...))
	}
	_, err := onScreen(c.Out.Stdout).Write([]byte(b.String()))
	return err
}

func storeReport(c *call, url string, r *stored.Report) error {
	sum := fmt.Sprintf("%d batches, %d pieces of images, %d payloads and results of their own, %s, %d faults",
		r.Batches, r.Pieces, r.Files, c.Out.Format().Size(r.Octets), len(r.Faults))
	facts := state.OfFacts(state.StoreCheckClass, url, int64(r.Batches), int64(r.Pieces), int64(r.Files), r.Octets)
	err := c.Findings(r.Faults, sum, &facts)
	if err == nil && len(r.Faults) > 0 {
		err = fmt.Errorf("%s: %w: %d", url, stored.ErrFaults, len(r.Faults))
	}
	return err
}

// moveOptions are those of a push or a pull.
type moveOptions struct {
	dir      string
	store    objects.Store
	takeOver bool
}

// push moves a home from a directory into a store.
func push(ctx context.Context, c *call, o *moveOptions) error {
	if err := asOwner(o.dir); err != nil {
		return err
	}
	return o.move(ctx, c, "pushed", func(ctx context.Context, s objects.Store) error {
		svc, err := queuefs.Open(o.dir, queuefs.Options{Report: warn(c), PushTo: &stored.Options{Objects: s, Name: o.place()}})
		if errors.Is(err, stored.ErrArrived) {
			c.Warnf("%s: %v", o.dir, err)
			return nil
		}
		if err != nil {
			return explainHome(err, o.dir)
		}
		return whilePublishing(c, svc, func() error { return svc.Push(ctx) })
	})
}

// pull moves a home from a store into a directory.
func pull(ctx context.Context, c *call, o *moveOptions) error {
	if err := asOwner(o.dir); err != nil {
		return err
	}
	fresh, err := home.Unmade(o.dir)
	if err != nil {
		return err
	}
	if fresh { // no directory is made for a home that cannot come
		st, err := stored.Look(ctx, o.store)
		if err != nil {
			return err
		}
		if by := st.Journal.Owner; !by.Left && !by.Gone && !by.Coming && !o.takeOver {
			return explainHome(&stored.OwnedError{By: by.Name}, "")
		}
		if err := home.Init(o.dir, namedService(home.ServiceInfo{}, o.dir)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return o.move(ctx, c, "pulled", func(ctx context.Context, s objects.Store) error {
		svc, err := queuefs.Open(o.dir, queuefs.Options{Report: warn(c), Stored: &stored.Options{Objects: s, Name: "cutie store pull into " + o.place(), TakeOver: o.takeOver}})
		if errors.Is(err, stored.ErrHere) {
			c.Warnf("%v", err)
			return nil
		}
		if err != nil {
			if errors.Is(err, stored.ErrUnstored) { // push is no help here
				return err
			}
			return explainHome(err, o.dir)
		}
		return whilePublishing(c, svc, func() error {
			defer meanwhile(ctx, func(ctx context.Context) {
				svc.Pulse().Keep(ctx, beatEvery, func(err error) { c.Warnf("sign of life: %v", err) })
			})()
			return svc.MoveHere(ctx, o.place())
		})
	})
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

func warn(c *call) func(durable.Finding) {
	return func(p durable.Finding) { c.Warnf("%s", p) }
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
		svc.SetBaseURI("http://" + defaultListen + "/")
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
