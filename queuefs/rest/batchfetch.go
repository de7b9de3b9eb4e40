package rest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/outbound"
)

// A fetch brings the payloads of a batch in and submits them.
type fetch struct {
	h       *Handler
	req     *http.Request // that it answers, for the log
	q       *queuefs.Queue
	sources []source
	stage   *queuefs.Stage
	done    atomic.Int64 // payloads that are here
	octets  atomic.Int64 // of payloads, so far
	turns   turns

	mu      sync.Mutex
	wrong   complaints
	refused error // the first address that was, with all that the operator wants to know
	err     error // that ends it all
}

// A lineError is what is wrong with a line; other errors end the whole batch.
type lineError string

func (e lineError) Error() string { return string(e) }

var errBatchTime = errors.New("time for the batch is over")

// run fetches all payloads and puts them into the queue, in the order of their
// lines, or none of them.
func (f *fetch) run(ctx context.Context, most time.Duration) ([]queuefs.Job, error) {
	timed, cancel := context.WithTimeoutCause(ctx, most, errBatchTime)
	defer cancel()
	timed, stop := context.WithCancel(timed)
	defer stop()
	f.stage = f.q.Stage(len(f.sources))
	defer f.stage.Discard()
	f.turns.init(f.sources, f.h.o.Batch.PerHost)
	defer context.AfterFunc(timed, f.turns.end)()
	var wg sync.WaitGroup
	for range min(f.h.o.Batch.Parallel, len(f.sources)) {
		wg.Go(func() {
			for turn := f.turns.next(nil); turn != nil; turn = f.turns.next(turn) {
				if f.fail(turn.place, f.one(timed, turn.place)) {
					stop()
				}
			}
		})
	}
	wg.Wait()
	if f.refused != nil && f.h.o.Log != nil {
		f.h.o.Log(f.req, f.refused)
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case f.err != nil:
		return nil, f.err
	}
	slices.SortStableFunc(f.wrong, func(a, b complaint) int { return cmp.Compare(a.line, b.line) })
	err := f.wrong.err()
	if context.Cause(timed) == errBatchTime {
		e := &manifestError{lines: []string{fmt.Sprintf("%d of %d files were fetched in %v", f.done.Load(), len(f.sources), most)}}
		var lines *manifestError
		if errors.As(err, &lines) {
			e.lines = append(e.lines, lines.lines...)
		}
		return nil, e
	}
	if err != nil {
		return nil, err
	}
	return f.stage.Commit(ctx)
}

// fail notes an error, and reports whether to go on has no use.
func (f *fetch) fail(place int, err error) (over bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var line lineError
	switch {
	case err == nil:
	case errors.As(err, &line):
		f.wrong.add(f.sources[place].line, string(line))
		return f.wrong.full()
	default:
		f.err = cmp.Or(f.err, err)
		return true
	}
	return false
}

// note keeps the first address that was refused.
func (f *fetch) note(err error) {
	var refused *outbound.RefusedError
	if errors.As(err, &refused) && refused.Addr.IsValid() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.refused = cmp.Or(f.refused, error(refused))
	}
}

// one fetches a payload and puts it into its place.
func (f *fetch) one(ctx context.Context, place int) error {
	s := &f.sources[place]
	name := s.url.Redacted()
	if len(name) > 120 {
		name = name[:117] + "..."
	}
	name = strings.ToValidUTF8(name, "\ufffd")
	wrong := func(format string, args ...any) error {
		if err := context.Cause(ctx); err != nil {
			return nil // for that there is one error, not one a line
		}
		return lineError(name + ": " + fmt.Sprintf(format, args...))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url.String(), nil)
	if err != nil {
		return wrong("%v", err)
	}
	req.Header.Set("User-Agent", queuefs.Scheme)
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := f.h.o.Fetch.Do(req)
	if err != nil {
		f.note(err)
		return wrong("%s", reason(err))
	}
	defer resp.Body.Close()
	coding := resp.Header.Get("Content-Encoding")
	switch {
	case resp.StatusCode != http.StatusOK:
		return wrong("answer is %d %s", resp.StatusCode, strings.ToLower(http.StatusText(resp.StatusCode)))
	case coding != "" && !strings.EqualFold(coding, "identity"):
		return wrong("content coding %.40q is not supported", coding)
	case s.length >= 0 && resp.ContentLength >= 0 && resp.ContentLength != s.length:
		return wrong("length is %d instead of %d", resp.ContentLength, s.length)
	}
	most := f.h.o.MaxBody
	if s.length >= 0 {
		most = min(most, s.length)
	}
	body, err := outbound.Body(resp, most)
	if err != nil {
		return wrong("%v", err)
	}
	m := s.meta
	if m.MediaType == "" {
		m.MediaType, _ = mediaType(resp.Header.Get("Content-Type")) // one that is none has no meaning
	}
	part := f.q.Begin()
	defer part.Discard()
	d, err := part.Add(m)
	if err != nil {
		return wrong("%v", err)
	}
	in := &counter{in: body, octets: &f.octets, most: f.h.o.MaxBody}
	if err := copyPayload(d, in); in.err != nil {
		return wrong("%s", reason(in.err))
	} else if err != nil {
		return err
	}
	if s.length >= 0 && d.Size() != s.length {
		return wrong("length is %d instead of %d", d.Size(), s.length)
	}
	if err := f.stage.Put(place, part); errors.Is(err, queuefs.ErrDigest) {
		return wrong("%v", err)
	} else if err != nil {
		return err
	}
	f.done.Add(1)
	return nil
}

// A counter counts what all payloads of a batch have together, and keeps the
// error of the one it reads.
type counter struct {
	in     io.Reader
	octets *atomic.Int64
	most   int64
	err    error
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	if err != nil && err != io.EOF {
		c.err = err
	}
	if c.octets.Add(int64(n)) > c.most {
		return 0, tooLarge("files of the batch have more than %d octets", c.most)
	}
	return n, err
}

// reason says why a request failed. Of what lies behind this machine, such as
// the address of a name server, it says nothing.
func reason(err error) string {
	var (
		refused *outbound.RefusedError
		lookup  *net.DNSError
		op      *net.OpError
		at      *url.Error
	)
	switch {
	case errors.As(err, &refused):
		return refused.Public()
	case errors.As(err, &lookup) && lookup.IsNotFound:
		return "host is not known"
	case errors.As(err, &lookup):
		return "host could not be looked up"
	case errors.As(err, &op) && op.Op == "dial":
		return "host could not be connected to"
	case errors.As(err, &op):
		return "connection failed"
	case errors.As(err, &at):
		err = at.Err
	}
	return fmt.Sprintf("%.200s", err)
}

// turns says which payload is fetched next: hosts take turns, and no more than
// some of its payloads are fetched from one of them at a time.
type turns struct {
	mu      sync.Mutex
	changed sync.Cond
	ready   []*host // that have a payload to fetch now
	left    int     // payloads nobody has begun to fetch
	perHost int
}

// A host has payloads to be fetched.
type host struct {
	places  []int // that nobody has begun to fetch
	running int
}

// A turn is to fetch one payload.
type turn struct {
	host  *host
	place int
}

func (t *turns) init(sources []source, perHost int) {
	t.changed.L, t.left, t.perHost = &t.mu, len(sources), perHost
	hosts := map[string]*host{}
	for place := range sources {
		name := strings.ToLower(sources[place].url.Hostname())
		h := hosts[name]
		if h == nil {
			h = &host{}
			hosts[name] = h
			t.ready = append(t.ready, h)
		}
		h.places = append(h.places, place)
	}
}

// next ends a turn, if there was one, and returns another; nil if there is none
// left. It waits while all hosts that have something are busy.
func (t *turns) next(last *turn) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last != nil {
		h := last.host
		if h.running == t.perHost && len(h.places) > 0 {
			t.ready = append(t.ready, h)
			t.changed.Signal()
		}
		h.running--
	}
	for t.left > 0 && len(t.ready) == 0 {
		t.changed.Wait()
	}
	if t.left == 0 {
		return nil
	}
	h := t.ready[0]
	t.ready = t.ready[1:]
	turn := &turn{h, h.places[0]}
	h.places = h.places[1:]
	h.running++
	if h.running < t.perHost && len(h.places) > 0 {
		t.ready = append(t.ready, h)
	}
	if t.left--; t.left == 0 {
		t.changed.Broadcast()
	}
	return turn
}

// end lets nobody have another turn.
func (t *turns) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left = 0
	t.changed.Broadcast()
}
