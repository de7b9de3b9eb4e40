package publisher

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/sitemap"
)

// Options are the settings of a [Publisher].
type Options struct {
	// BaseURI begins every reference; absolute, http or https, with or
	// without a path and a final slash. If it differs from that of the
	// last run, all lists begin anew.
	BaseURI string

	// MaxEntries is the most entries of a Change List, a Resource List or a
	// Source Description, 2 to 50,000; 0 is 50,000. A page of a Resource
	// List has at least 1024 jobs, however small MaxEntries is.
	MaxEntries int

	// MaxBytes is the most octets of a document before compression, 64 KiB
	// to 50,000,000; 0 is 50,000,000.
	MaxBytes int64

	// MaxPackage is how many octets of bitstreams a package of a Change
	// Dump holds before the next begins; 0 is 4 GiB.
	MaxPackage int64

	// Current is for how long after its last event a closed Change List, or a
	// package of its, is named by the index or the Change Dump; after that
	// only archives name it. 0 is for ever. It is not below 0.
	Current time.Duration

	// Keep is for how long what is no longer current stays: closed Change
	// Lists and their packages after their last event, former Resource Dumps
	// after the next one was made. 0 is for ever with the former; of the
	// latter one stays then. It is not below 0. See retention in the package
	// comment for what stays longer.
	Keep time.Duration

	// KeepOctets is how much the closed Change Lists, packages and Resource
	// Dumps of a set may take on disk before the oldest go; 0 is any number.
	// It is not below 0.
	KeepOctets int64

	// DumpPeriod is how old a Resource Dump gets before a Tick makes another,
	// if there was any change; 0 is any age: one is made only when
	// [Publisher.Publish] is called. It is not below 0. Packages of 1024 to
	// MaxEntries jobs of which none has changed are not made again.
	DumpPeriod time.Duration

	// Mirrors are the base URIs of copies of the home's resources, the best
	// first, four at most, of at most 512 octets each: every resource is
	// listed with its duplicates there. What is in a Change List already
	// stays as it is.
	Mirrors []string

	// Dialect is the version of ResourceSync of all documents: V11, V10 or
	// V09. If it differs from that of the last run, all lists begin anew.
	Dialect sitemap.Dialect

	// Period is how old the first entry of an open Change List gets before
	// a Tick closes the list; 0 is any age. It is not below 0.
	Period time.Duration

	Now    func() time.Time      // nil: time.Now
	Report func(queuefs.Problem) // told, by any goroutine, what is damaged or cannot be done; nil: nobody is
	Fault  durable.Fault         // for tests
}

// A Publisher is the Source of one home. Its methods are safe for concurrent
// use.
type Publisher struct {
	options
	svc   engine
	cache *cache
	turns chan struct{} // held while a Resource List is read and compressed

	mu    sync.Mutex
	feeds map[string]*feed  // by queue
	marks map[string][]mark // from the cursor, of queues not met yet

	roots    atomic.Pointer[root]
	reviving sync.Mutex // guards changes of roots

	cursorMu  sync.Mutex
	flushed   []byte       // cursor as of the last Flush
	written   []byte       // cursor as it stands in the file
	writtenTo *durable.Dir // where that is

	polls  polls
	work   sync.Mutex // one Tick at a time
	job    *task
	failed atomic.Pointer[error]
	closed atomic.Bool
}

// options are Options with defaults filled in.
type options struct {
	Options
	site    site
	mirrors []string
	salt    string // of entity tags
}

// New opens the Source of svc. Damage that it finds is reported and lived
// with; an error means that resourcesync in the home cannot be used at all,
// or that the options are wrong.
func New[Q Queue](svc Service[Q], o Options) (*Publisher, error) {
	return open(adapt(svc), o)
}

func open(svc engine, o Options) (*Publisher, error) {
	opts, err := o.complete()
	if err != nil {
		return nil, fmt.Errorf("publisher: %w", err)
	}
	home, err := durable.OpenDir(svc.dir, o.Fault)
	if err != nil {
		return nil, fmt.Errorf("publisher: %w", err)
	}
	defer home.Close()
	root, err := openRoot(home)
	if err != nil {
		return nil, fmt.Errorf("publisher: %w", err)
	}
	p := &Publisher{
		options: opts,
		svc:     svc,
		cache:   newCache(cacheSize),
		turns:   make(chan struct{}, 2),
		feeds:   make(map[string]*feed),
	}
	p.roots.Store(root)
	if err := p.begin(); err != nil {
		p.roots.Load().close()
		return nil, fmt.Errorf("publisher: %w", err)
	}
	return p, nil
}

// begin removes what is unfinished, reads the cursor and opens all queues.
func (p *Publisher) begin() error {
	var stale []string
	root := p.root()
	err := root.Names(func(name string) {
		if strings.HasPrefix(name, durable.TempPrefix) {
			stale = append(stale, name)
		}
	})
	for _, name := range stale {
		err = errors.Join(err, root.Remove(name))
	}
	if err != nil {
		return err
	}
	if err := p.readCursor(); err != nil {
		return err
	}
	for _, q := range p.svc.queues() {
		if _, err := p.feed(q); err != nil {
			return err
		}
	}
	return nil
}

func (o Options) complete() (options, error) {
	opts := options{Options: o}
	u, err := url.Parse(o.BaseURI)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return opts, fmt.Errorf("base URI %q is not an absolute http or https URI", o.BaseURI)
	}
	if len(o.BaseURI) > maxBase {
		return opts, fmt.Errorf("base URI %.60q… is longer than %d octets", o.BaseURI, maxBase)
	}
	opts.site = site(strings.TrimRight((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String(), "/"))
	if opts.mirrors, err = parseMirrors(o.Mirrors); err != nil {
		return opts, err
	}
	fill := func(n *int64, name string, zero, least, most int64) {
		if *n == 0 {
			*n = zero
		}
		if *n < least || *n > most {
			err = fmt.Errorf("%s %d is not between %d and %d", name, *n, least, most)
		}
	}
	entries := int64(o.MaxEntries)
	fill(&entries, "MaxEntries", sitemap.MaxEntries, 2, sitemap.MaxEntries)
	fill(&opts.MaxBytes, "MaxBytes", maxBytes, 64<<10, maxBytes)
	fill(&opts.MaxPackage, "MaxPackage", 4<<30, 1, 1<<60)
	opts.MaxEntries = int(entries)
	if least := min(o.Period, o.DumpPeriod, o.Current, o.Keep); least < 0 {
		err = fmt.Errorf("period %v is below 0", least)
	}
	if o.Dialect > sitemap.V09 {
		err = fmt.Errorf("version %v is read and not written", o.Dialect)
	}
	if o.KeepOctets < 0 {
		err = fmt.Errorf("KeepOctets %d is below 0", o.KeepOctets)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	opts.salt = salt(string(opts.site), opts.MaxEntries, opts.MaxBytes, opts.Dialect, opts.mirrors, formOf)
	return opts, err
}

func parseMirrors(all []string) ([]string, error) {
	const most, longest = 4, 512
	if len(all) > most {
		return nil, fmt.Errorf("%d mirrors are more than %d", len(all), most)
	}
	var out []string
	for _, m := range all {
		u, err := url.Parse(m)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" || u.User != nil ||
			strings.ContainsAny(m, `&<>"`) || len(m) > longest {
			return nil, fmt.Errorf("mirror %.60q is not an absolute http or https URI of at most %d octets", m, longest)
		}
		out = append(out, strings.TrimRight(m, "/"))
	}
	return out, nil
}

// stamp begins files: of what base URI and version the documents are.
func (o *options) stamp() site {
	if o.Dialect == sitemap.V11 {
		return o.site
	}
	return o.site + site(" "+o.Dialect.String())
}

// formOf is raised when documents made of the same events get other octets.
const formOf = 1

// maxBytes is the limit of sitemaps.org, taken as powers of ten.
const maxBytes = 50_000_000

// feed returns the feed of a queue, opening it when the queue is new.
func (p *Publisher) feed(q Queue) (published, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.feeds[q.ID()]; f != nil {
		return published{f}, nil
	}
	if now, err := p.svc.queue(q.ID()); err != nil || now != q {
		return published{}, errors.Join(err, fmt.Errorf("%s: %w", q.ID(), queuefs.ErrNoQueue)) // it was removed
	}
	f, err := p.openFeed(q, p.marks[q.ID()])
	if err != nil {
		return published{}, err
	}
	delete(p.marks, q.ID())
	p.feeds[q.ID()] = f
	return published{f}, nil
}

// opened returns the feeds of all queues met so far, in order of their names.
func (p *Publisher) opened() []*feed {
	p.mu.Lock()
	feeds := slices.Collect(maps.Values(p.feeds))
	p.mu.Unlock()
	slices.SortFunc(feeds, func(a, b *feed) int { return strings.Compare(a.q.ID(), b.q.ID()) })
	return feeds
}

// Tick brings all lists up to date, closes those whose period is over, works on
// packages for about a tenth of a second, and removes what is kept no longer.
// It is to be called about once a second; what it costs grows with what has
// changed.
func (p *Publisher) Tick(ctx context.Context) error {
	p.work.Lock()
	defer p.work.Unlock()
	if err := p.failure(); err != nil {
		return err
	}
	defer p.polls.look(p.find)
	return errors.Join(p.catchUp(true), p.finish(ctx), p.retain())
}

// catchUp brings the feeds of all queues that changed up to date.
func (p *Publisher) catchUp(tick bool) error {
	var errs []error
	for _, q := range p.svc.queues() {
		f, err := p.feed(q)
		if err == nil && f.behind() {
			err = f.catchUp()
		}
		if err == nil && tick && p.Period > 0 {
			err = f.closeOld(p.Now().Add(-p.Period))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("queue %s: %w", q.ID(), err))
		}
	}
	return errors.Join(errs...)
}

// Flush brings every committed event into the files, unsynced. The engine
// calls it before a checkpoint syncs the file system.
func (p *Publisher) Flush() error {
	if err := p.failure(); err != nil {
		return err
	}
	if err := p.catchUp(false); err != nil {
		return fmt.Errorf("publisher: %w", err)
	}
	p.cursorMu.Lock()
	defer p.cursorMu.Unlock()
	p.flushed = p.cursor()
	return nil
}

// Synced makes what the last Flush wrote the point from which the lists go on
// after a crash. The engine calls it after the sync; when it has returned nil
// the events before that Flush are no longer needed.
func (p *Publisher) Synced() error {
	if err := p.failure(); err != nil {
		return err
	}
	p.cursorMu.Lock()
	defer p.cursorMu.Unlock()
	if err := p.writeCursor(); err != nil {
		return fmt.Errorf("publisher: %w", err)
	}
	return nil
}

// Close ends unfinished work on packages and lets go of the directory. Close
// the service first: its last checkpoint wants Flush and Synced.
func (p *Publisher) Close() error {
	p.work.Lock()
	defer p.work.Unlock()
	if p.closed.Swap(true) {
		return nil
	}
	p.drop()
	return p.roots.Load().close()
}

// fail remembers that what was written may not be on stable storage. Nothing
// is closed and no event is let go of until the home is opened again.
func (p *Publisher) fail(err error) error {
	err = errors.Join(queuefs.ErrFailed, err)
	p.failed.CompareAndSwap(nil, &err)
	return err
}

func (p *Publisher) failure() error {
	if p.closed.Load() {
		return fmt.Errorf("publisher: %w", queuefs.ErrClosed)
	}
	if err := p.failed.Load(); err != nil {
		return *err
	}
	return nil
}

func (p *Publisher) report(path, text string, args ...any) {
	if p.Report != nil {
		p.Report(queuefs.Problem{Path: "resourcesync/" + path, Text: fmt.Sprintf(text, args...)})
	}
}
