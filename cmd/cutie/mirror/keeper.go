package mirror

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"cutie/publisher/destination/source"
	"cutie/queuefs"
	"cutie/queuefs/home"
	"cutie/queuefs/outbound"
)

// A Source is one to be mirrored.
type Source struct {
	URL string

	// Header returns the credentials, and is asked again when they were refused; nil: there
	// are none.
	Header func() (http.Header, error)
}

// Options are the settings of a [Keeper].
type Options struct {
	Sources []Source

	// Addresses are those that Sources may name beside their own hosts; nil: public ones.
	Addresses *outbound.Addresses

	Agent string        // user agent of requests
	Audit time.Duration // between two audits of a queue; 0: none
	Tell  func(queue, text string)
}

// Pauses between two tries, and looks.
const (
	firstPause  = 500 * time.Millisecond
	longPause   = 30 * time.Second
	lookForSets = 5 * time.Second
)

// A Keeper keeps the queues of Sources as mirrors. It is safe for concurrent use.
type Keeper struct {
	o   Options
	svc *queuefs.Service

	mu        sync.Mutex
	told      map[string]string    // last trouble of each queue, or Source
	followers map[string]*follower // of each mirror, by queue
	differ    map[string][]string  // differences found by the last audit of each queue
}

// New returns a Keeper of mirrors in a home.
func New(svc *queuefs.Service, o Options) *Keeper {
	return &Keeper{o: o, svc: svc, told: map[string]string{}, followers: map[string]*follower{}, differ: map[string][]string{}}
}

// Run follows all Sources until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	for _, q := range k.svc.Queues() {
		if m := q.Mirror(); m.Live() {
			q.Original().SetProgress(home.Progress{Trouble: "not found yet at a Source of --mirror"})
		}
	}
	var wg sync.WaitGroup
	for i := range k.o.Sources {
		wg.Go(func() { k.follow(ctx, &k.o.Sources[i]) })
	}
	wg.Go(func() { k.auditAll(ctx) })
	wg.Wait()
}

// tell tells of trouble once, until it is another, or passes with "".
func (k *Keeper) tell(name, text string) {
	k.mu.Lock()
	was := k.told[name]
	if text == "" {
		delete(k.told, name)
	} else {
		k.told[name] = text
	}
	k.mu.Unlock()
	switch {
	case text == was:
	case text != "":
		k.o.Tell(name, text)
	default:
		k.o.Tell(name, "follows again, after: "+was)
	}
}

// http returns the settings of requests to a Source.
func (k *Keeper) http(s *Source) (source.Options, error) {
	o := source.Options{Addresses: k.o.Addresses, UserAgent: k.o.Agent, Origin: source.OriginOf(s.URL)}
	if s.Header == nil {
		return o, nil
	}
	var err error
	o.Header, err = s.Header()
	return o, err
}

// client returns a client for a Source. Errors are tried again by its callers, with a new
// one.
func (k *Keeper) client(s *Source) (*source.Client, error) {
	o, err := k.http(s)
	if err != nil {
		return nil, err
	}
	o.Tries = 2
	return source.NewClient(o), nil
}

// search finds the queues of a Source. client is the one of before, if it found them.
func (k *Keeper) search(ctx context.Context, s *Source, client *source.Client) (found *source.Source, now *source.Client, err error) {
	if client == nil {
		if client, err = k.client(s); err != nil {
			return nil, nil, err
		}
	}
	if found, err = source.Find(ctx, client, s.URL); err != nil {
		client = nil
	}
	return found, client, err
}

// follow keeps the queues of a Source, new ones included. Each queue has a client of its
// own, so a large queue keeps no other waiting.
func (k *Keeper) follow(ctx context.Context, s *Source) {
	var wg sync.WaitGroup
	defer wg.Wait()
	var client *source.Client
	followed := map[string]bool{}
	for pause := firstPause; ; {
		found, now, err := k.search(ctx, s, client)
		client = now
		if ctx.Err() != nil {
			return
		}
		wait := lookForSets
		if err != nil {
			k.tell(s.URL, strings.ReplaceAll(err.Error(), "\n", "; "))
			wait, pause = pause, min(2*pause, longPause)
		} else {
			k.tell(s.URL, "")
			pause = firstPause
		}
		if found != nil {
			for _, list := range found.Sets {
				id, ok := queueOf(found.Name(list))
				if !ok || followed[list] {
					continue
				}
				followed[list] = true
				f := &follower{keeper: k, of: s, id: id, list: list}
				wg.Go(func() { f.run(ctx) })
			}
		}
		if !sleep(ctx, wait) {
			return
		}
	}
}

// replica is the set with all files of a queue.
const replica = "/replica"

// queueOf returns the queue of a set with all files of one.
func queueOf(set string) (id string, ok bool) {
	name, ok := strings.CutSuffix(set, replica)
	if !ok {
		return "", false
	}
	id, err := url.PathUnescape(name)
	clean, err2 := queuefs.CleanQueueID(id)
	return id, cmp.Or(err, err2) == nil && clean == id
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// A follower keeps one queue.
type follower struct {
	keeper  *Keeper
	of      *Source
	id      string
	list    string // Capability List
	client  *source.Client
	q       *queuefs.Queue
	set     *source.Set
	site    string      // base URI of the Source, with a slash at its end
	segment string      // name of the queue in URIs
	base    string      // URI of the directory of the queue, with a slash at its end
	gap     queuefs.Seq // last event after missing numbers
	newest  queuefs.Seq // last event in a list of the original
	state   home.Progress
	stop    context.CancelFunc // ends the requests of now; keeper.mu guards it, and taken
	taken   bool               // a takeover is under way

	busy    sync.Mutex // held while it follows, and by a takeover
	backlog *backlog   // kept from one try to the next
}

// errOver ends a follower for good.
var errOver = errors.New("no mirror any more")

// errTaken is the error of a follower while a takeover is under way.
var errTaken = errors.New("a takeover is under way")

func (f *follower) run(ctx context.Context) {
	defer func() {
		f.busy.Lock()
		f.discard()
		f.busy.Unlock()
	}()
	for pause := firstPause; ctx.Err() == nil; {
		began := time.Now()
		err := f.keepOn(ctx)
		if errors.Is(err, errOver) || ctx.Err() != nil || f.q != nil && !f.q.Mirror().Live() {
			return
		}
		if errors.Is(err, errTaken) {
			sleep(ctx, firstPause)
			continue
		}
		if f.trouble(err); err == nil {
			pause = firstPause
		}
		if time.Since(began) > longPause {
			pause = firstPause
		}
		if !sleep(ctx, pause) {
			return
		}
		pause = min(2*pause, longPause)
	}
}

// keepOn is keep until somebody stops it.
func (f *follower) keepOn(ctx context.Context) error {
	f.busy.Lock()
	defer f.busy.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !f.begin(cancel) {
		return errTaken
	}
	err := f.keep(ctx)
	switch {
	case ctx.Err() == nil:
		if errors.Is(err, queuefs.ErrDiverged) {
			f.discard()
		}
		return err
	case !f.begin(cancel):
		return errTaken
	}
	f.discard()
	f.q, f.state = nil, home.Progress{}
	return nil
}

// begin notes how to stop the follower. It returns false if a takeover is under way.
func (f *follower) begin(stop context.CancelFunc) bool {
	f.keeper.mu.Lock()
	defer f.keeper.mu.Unlock()
	f.stop = stop
	return !f.taken
}

// discard lets go of the backlog.
func (f *follower) discard() {
	if f.backlog != nil {
		f.backlog.discard()
	}
	f.backlog = nil
}

// hold stops the follower of a mirror until release is called, and returns its backlog, nil
// if there is none.
func (k *Keeper) hold(q *queuefs.Queue) (b *backlog, release func()) {
	k.mu.Lock()
	f := k.followers[q.ID()]
	if f != nil {
		f.taken = true
		f.stop()
	}
	k.mu.Unlock()
	if f == nil {
		return nil, func() {}
	}
	f.busy.Lock()
	if f.q == q {
		b = f.backlog
	}
	return b, func() {
		f.busy.Unlock()
		k.mu.Lock()
		defer k.mu.Unlock()
		f.taken = false
	}
}

// trouble says why the mirror does not follow; nil: it does.
func (f *follower) trouble(err error) {
	text := ""
	if err != nil {
		text = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	f.keeper.tell(f.id+" of "+f.of.URL, text)
	switch {
	case f.q != nil && f.state.Trouble != text && f.q.Mirror().List == f.list:
		f.state.Trouble = text
		f.q.Original().SetProgress(f.state)
	case f.q == nil && text != "":
		if q, err := f.keeper.svc.Queue(f.id); err == nil && q.Mirror().Live() && q.Original().Progress().Contact.IsZero() {
			q.Original().SetProgress(home.Progress{Trouble: text})
		}
	}
}

// keep finds or makes the mirror, and follows until there is an error.
func (f *follower) keep(ctx context.Context) (err error) {
	if f.client, err = f.keeper.client(f.of); err != nil {
		return err
	}
	if err = f.find(ctx); err != nil {
		return err
	}
	q, err := f.open(ctx)
	if err != nil {
		return err
	}
	if q != f.q {
		f.discard()
	}
	f.q = q
	f.keeper.mu.Lock()
	f.keeper.followers[f.id] = f
	f.keeper.mu.Unlock()
	return f.replay(ctx)
}

// find finds the set of the original.
func (f *follower) find(ctx context.Context) error {
	found, err := source.Find(ctx, f.client, f.list)
	if err != nil {
		return err
	}
	f.set, err = found.Open(ctx, f.list)
	if err == nil {
		f.site, f.segment = found.Base, strings.TrimSuffix(f.set.Name, replica)
		f.base = f.site + "queues/" + f.segment + "/"
	}
	return err
}
