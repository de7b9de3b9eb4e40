// Package mirror keeps queues of other Sources as live mirrors (Z39.99-2017, 5.2): it
// copies the set of all files of a queue once, and from then on replays each event of
// its Change Lists into the journal of the home.
//
//	Keeper ── a Source ──▶ follower ── a queue ──▶ baseline ──▶ queuefs.Adopt
//	                           │
//	                           └── Change List ──▶ backlog ── files ──▶ queuefs.Replay
//
// The position of a mirror is the last event in its journal: there is no other cursor,
// and a crash costs nothing. An original replaces files while they are fetched, so the
// backlog replays up to where each job has the file of its last event; the events in
// between have length and digest by the list.
package mirror

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"cutie/publisher/destination/source"
	"cutie/publisher/names"
	"cutie/queuefs"
	"cutie/queuefs/buffers"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/outbound"
	"cutie/queuefs/replay"
	"cutie/queuefs/web"
	"cutie/sitemap"
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
	clean, err2 := job.CleanQueueID(id)
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
	site    string  // base URI of the Source, with a slash at its end
	segment string  // name of the queue in URIs
	base    string  // URI of the directory of the queue, with a slash at its end
	gap     job.Seq // last event after missing numbers
	newest  job.Seq // last event in a list of the original
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
		if errors.Is(err, replay.ErrDiverged) {
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

// An event is one of the original, with the files of it fetched so far.
type event struct {
	replay.Event
	payload bool // it is in Data or Temp
}

// events makes events of the entries of Change Lists: one of all entries with its number.
func (f *follower) events(listed []sitemap.Entry) ([]*event, error) {
	var all []*event
	for i := range listed {
		e := &listed[i]
		if e.Seq == 0 {
			return nil, fmt.Errorf("%s: the Change List does not number its events, so it is not one of a queue", f.list)
		}
		if len(all) == 0 || all[len(all)-1].Seq != job.Seq(e.Seq) {
			first, err := names.EventOf(e)
			if err != nil {
				return nil, fmt.Errorf("event %d: %w", e.Seq, err)
			}
			ev := &event{}
			ev.Event.Event = first
			all = append(all, ev)
		}
		if err := names.Take(&all[len(all)-1].Event.Event, f.base, e); err != nil {
			return nil, fmt.Errorf("event %d: %s: %w", e.Seq, e.Loc, err)
		}
	}
	return all, nil
}

// uri returns the URI of a file of a job.
func (f *follower) uri(dir string, id job.ID) string { return f.base + dir + "/" + id.String() }

// A daemon gives mirrors the parts of its newest events, out of its journal: job files as
// the events left them, and small payloads. So a mirror needs no request for each file, and
// none is missing after a replacement by the original. Parts are verified by
// the digests in the Change List. Of older events, and of Sources of other kinds, the
// mirror asks for the files.
//
// An answer is a sequence of events: a line with the number of the event and the lengths
// of its two parts, -1 without one, and then the parts.

// PartsPath is where they are, by queue.
const PartsPath = "/parts"

// Limits of one answer.
const (
	maxParts      = 1000    // events
	maxPartOctets = 4 << 20 // but for the last event
	maxPart       = 1 << 30 // octets of a part
)

// sendParts answers a mirror.
func (k *Keeper) sendParts(w http.ResponseWriter, r *http.Request) error {
	q, err := k.svc.Ask(r.PathValue("queue"))
	if err != nil {
		return err
	}
	after, err := strconv.ParseUint(r.URL.Query().Get("after"), 10, 63)
	if err != nil {
		return web.Errorf(http.StatusBadRequest, "parameter after is the number of an event")
	}
	memory := buffers.Of(r.Context())
	if err := memory.Take(maxPartOctets); err != nil {
		return err
	}
	events, err := q.Journaled(job.Seq(after), maxParts, maxPartOctets)
	if errors.Is(err, ledger.ErrGone) && len(events) == 0 {
		return web.Errorf(http.StatusGone, "event %d of %s is not in the journal any more; its files may be there", after+1, q.ID())
	}
	if err != nil && len(events) == 0 {
		return err
	}
	if err := memory.Grow(lengthOf(events) - maxPartOctets); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := bufio.NewWriterSize(w, 64<<10)
	for i := range events {
		e := &events[i]
		fmt.Fprintf(out, "%d %d %d\n", e.Seq, partLength(e.Text), partLength(e.Payload))
		out.Write(e.Text)
		out.Write(e.Payload)
	}
	return out.Flush()
}

func lengthOf(events []ledger.Journaled) (n int) {
	for i := range events {
		n += len(events[i].Text) + len(events[i].Payload)
	}
	return n
}

func partLength(part []byte) int {
	if part == nil {
		return -1
	}
	return len(part)
}

// noPartsFor is how long a Source without parts is not asked for them again.
const noPartsFor = time.Minute

// parts asks for the missing parts of the first n events. A Source without them, or without
// memory for them, is no error.
func (b *backlog) parts(ctx context.Context, n int) error {
	if time.Now().Before(b.noParts) {
		return nil
	}
	for i := 0; i < n; {
		if b.events[i].whole() {
			i++
			continue
		}
		after := b.events[i].Seq - 1
		got, err := b.ask(ctx, i, after)
		if status := source.Status(err); status >= 400 && status < 500 || status == http.StatusServiceUnavailable {
			if status != http.StatusGone {
				b.noParts = time.Now().Add(noPartsFor)
			}
			return nil
		}
		if err != nil {
			return err
		}
		if got <= after {
			return nil
		}
		for i < len(b.events) && b.events[i].Seq <= got {
			i++
		}
	}
	return nil
}

// ask asks for the parts of the events after one, from events[i] on. It
// returns the last event in the answer.
func (b *backlog) ask(ctx context.Context, i int, after job.Seq) (last job.Seq, err error) {
	uri := fmt.Sprintf("%s%s/%s?after=%d", b.f.site, PartsPath[1:], b.f.segment, after)
	err = b.f.client.Get(ctx, source.Request{URI: uri, Plain: true, Header: http.Header{}}, func(a *source.Answer) error {
		in := bufio.NewReaderSize(a.Body, 64<<10)
		for {
			var seq, text, payload int64
			line, err := in.ReadString('\n')
			if err == io.EOF && line == "" {
				return nil
			}
			if err != nil {
				return err
			}
			if _, err := fmt.Sscanf(line, "%d %d %d\n", &seq, &text, &payload); err != nil || text > maxPart || payload > maxPart {
				return fmt.Errorf("%s: no events: %.40q", uri, line)
			}
			for i < len(b.events) && int64(b.events[i].Seq) < seq {
				i++
			}
			var e *event
			if i < len(b.events) && int64(b.events[i].Seq) == seq {
				e = b.events[i]
			}
			if err := b.receive(in, e, text, payload); err != nil {
				return err
			}
			last = job.Seq(seq)
		}
	})
	return last, err
}

// receive reads the parts of an event, nil for one not asked for.
func (b *backlog) receive(in io.Reader, e *event, text, payload int64) error {
	if text >= 0 {
		part, err := readPart(in, text, e != nil && e.Text == nil && e.File.Length == text)
		if err != nil {
			return err
		}
		if part != nil && sha256.Sum256(part) == e.File.SHA256 {
			e.Text = part
		}
	}
	if payload >= 0 {
		wanted := e != nil && !e.payload && e.Payload.Length == payload && b.memory+payload <= maxMemory
		part, err := readPart(in, payload, wanted)
		if err != nil {
			return err
		}
		if part != nil && sha256.Sum256(part) == e.Payload.SHA256 {
			e.Data, e.payload = part, true
			b.memory += payload
		}
	}
	return nil
}

// readPart reads a part, or passes over it.
func readPart(in io.Reader, n int64, wanted bool) ([]byte, error) {
	if !wanted {
		_, err := io.CopyN(io.Discard, in, n)
		return nil, err
	}
	buf := bytes.NewBuffer(make([]byte, 0, min(n, 1<<20)))
	if _, err := io.CopyN(buf, in, n); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// whole reports whether an event has its job file, and its payload where it has one.
func (e *event) whole() bool {
	return (e.Text != nil || e.Job != 0 && e.To == 0) && (e.From != 0 || e.Job == 0 || e.payload || e.Payload.Length > smallSize)
}
