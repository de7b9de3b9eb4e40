package hub

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/state"
)

// An event of a queue is where a cursor is.
type event struct {
	seq job.Seq
	at  time.Time
}

func (e event) String() string { return fmt.Sprint(e.seq, " ", job.FormatTime(e.at)) }

// parseEvent reads what String wrote; zero if it is something else.
func parseEvent(text string) (e event) {
	number, at, _ := strings.Cut(text, " ")
	n, err := strconv.ParseUint(number, 10, 64)
	if err == nil {
		e.at, err = time.Parse(time.RFC3339Nano, at)
	}
	if err != nil {
		return event{}
	}
	e.seq = job.Seq(n)
	return e
}

// A change of a job, with its last event.
type change struct {
	event
	kind job.Kind
	job  job.ID
}

// move moves the cursor of a callback; h.mu is held.
func (h *Hub) move(s *subscription, to event) {
	if s.cursor != to {
		h.mark(s)
		s.cursor, s.Position = to, to.String()
	}
}

// waiting returns how many events of a queue the cursor has not passed.
func (s *subscription) waiting() int64 {
	if s.q == nil {
		return 0
	}
	return int64(s.q.Seq()) - int64(s.cursor.seq)
}

// queues finds the queues to look at: those that have changed since the last time, and those to
// be tried again. All others cost nothing.
type queues struct {
	count   uint64 // see [queuefs.Service.Changed]
	number  int
	retry   []*queuefs.Queue
	seen    map[string]seen // those without a callback: one begins there
	trailed time.Time
}

// seen is a queue, and its last event then.
type seen struct {
	q *queuefs.Queue
	event
}

// meetQueues takes up callbacks that came, changed or went.
func (h *Hub) meetQueues(ctx context.Context) error {
	if h.Service == nil {
		return nil
	}
	some, now := h.Service.Changed(h.queues.count)
	h.queues.count = now
	some = append(slices.Clip(some), h.queues.retry...)
	h.queues.retry = nil
	var errs []error
	for _, q := range some {
		if open, err := h.Service.Queue(q.ID()); err != nil || open != q {
			continue
		}
		if err := errors.Join(h.conceal(ctx, q), h.meetQueue(q)); err != nil {
			h.queues.retry = append(h.queues.retry, q)
			errs = append(errs, fmt.Errorf("callback of queue %s: %w", q.ID(), err))
		}
	}
	if n := len(h.Service.Queues()); n != h.queues.number {
		h.queues.number = n
		maps.DeleteFunc(h.queues.seen, func(id string, s seen) bool {
			open, err := h.Service.Queue(id)
			return err != nil || open != s.q
		})
		h.mu.Lock()
		var gone []*subscription
		for _, s := range h.subs {
			if open, err := h.Service.Queue(s.Topic); s.Kind == ofQueue && s.q != nil && (err != nil || open != s.q) {
				gone = append(gone, s)
			}
		}
		h.mu.Unlock()
		for _, s := range gone {
			h.leave(s, "the queue was removed")
		}
	}
	return errors.Join(errs...)
}

// meetQueue returns the error of a URL that cannot be read: then the changes wait.
func (h *Hub) meetQueue(q *queuefs.Queue) error {
	if q.Shut() != nil {
		return nil // the URL is not known now
	}
	to, err := q.Callback()
	now := q.State()
	last, site := event{now.Seq, now.LastEvent}, siteOf(to)
	h.mu.Lock()
	s := h.subs[(&subscription{Kind: ofQueue, Topic: q.ID()}).key()]
	h.mu.Unlock()
	switch {
	case s == nil:
	case s.q != nil && s.q != q: // another queue has its name
		h.leave(s, "the queue was removed")
		s = nil
	case to == "" && err == nil:
		h.leave(s, "the queue has no callback any more")
		s = nil
	}
	if s == nil && to == "" && err == nil {
		h.queues.seen[q.ID()] = seen{q, last}
		return nil
	}
	fresh := s == nil
	if fresh {
		begin, ok := h.queues.seen[q.ID()]
		switch {
		case ok && begin.q == q:
		case h.whole && h.Service.ClosedInOrder():
			begin.event = last // it came while no daemon ran
		default: // it may have come right before a crash, or its row was lost
			begin.event = event{oldest(q), now.Info.Created}
		}
		s = &subscription{Kind: ofQueue, Topic: q.ID(), Site: site, Position: begin.event.String(), cursor: begin.event, proven: true}
	}
	delete(h.queues.seen, q.ID())
	h.mu.Lock()
	if fresh {
		h.put(s)
	}
	older := s.q == nil && s.cursor.seq > now.Seq
	if s.q, s.url = q, to; older {
		h.move(s, last)
	}
	if u, e := url.Parse(to); e == nil {
		s.host = u.Host
	}
	if err == nil && s.Site != site {
		s.Site = site
		s.reset() // after a stop it begins here
		h.mark(s)
	} else if s.Stopped {
		h.move(s, last)
	}
	h.mu.Unlock()
	if older {
		h.report(fmt.Errorf("hub: queue %s has %d events, but later ones were delivered: the home is an older copy, its callback goes on from now", q.ID(), now.Seq))
	}
	return err
}

// leave ends the callback of a queue.
func (h *Hub) leave(s *subscription, why string) {
	h.mu.Lock()
	n := s.waiting()
	if s.Stopped {
		n = 0
	}
	s.url = "" // a worker may have it
	h.drop(s)
	h.mu.Unlock()
	if n > 0 {
		h.report(fmt.Errorf("hub: callback of queue %s: %s: %d events were not delivered", s.Topic, why, n))
	}
}

// siteOf tells one URL from another and gives none away.
func siteOf(target string) string {
	sum := sha256.Sum256([]byte(target))
	return hex.EncodeToString(sum[:8])
}

// oldest returns the event before the first one of the journal.
func oldest(q *queuefs.Queue) job.Seq {
	return job.Seq(sort.Search(int(q.Seq()), func(n int) bool {
		_, err := q.Events(job.Seq(n), 1)
		return !errors.Is(err, ledger.ErrGone)
	}))
}

// Trail is how far behind the cursors of callbacks follow in an idle hub. When the process that
// delivers is lost, the changes since then are delivered, perhaps once more.
const Trail = 30 * time.Second

// trail is Tick of an idle hub.
func (h *Hub) trail(ctx context.Context) error {
	now := h.Now()
	if age := now.Sub(h.queues.trailed); age >= 0 && age < Trail {
		return nil
	}
	h.queues.trailed = now
	err := h.meetQueues(ctx)
	h.mu.Lock()
	for _, s := range h.subs {
		if s.q == nil {
			continue
		}
		state := s.q.State()
		last := event{state.Seq, state.LastEvent}
		if s.past == (event{}) {
			s.past = last
		}
		if s.past.seq > s.cursor.seq { // else it is of an earlier time
			h.move(s, s.past)
		}
		s.past = last
	}
	h.mu.Unlock()
	return errors.Join(err, h.save())
}

// conceal lets the engine take the URL of a callback out of a property file that was written by
// hand.
func (h *Hub) conceal(ctx context.Context, q *queuefs.Queue) error {
	if c := q.Info().Callback; c == home.PublicURL(c) || h.idle() {
		return nil
	}
	_, err := h.Service.SetQueue(ctx, q.ID(), func(*home.QueueInfo) error { return nil })
	if err != nil {
		err = fmt.Errorf("it can be read in %s: %w", home.QueueInfoName, err)
	}
	return err
}

// nextOfQueue returns the next change that no later one of its job has replaced. If there are
// only events of other kinds the cursor moves on.
func (h *Hub) nextOfQueue(_ context.Context, s *subscription) (*message, error) {
	h.mu.Lock()
	q, target, cursor, gapTo := s.q, s.url, s.cursor, s.GapTo
	h.mu.Unlock()
	if q == nil || target == "" {
		return nil, nil
	}
	for upto := cursor; ; {
		for len(s.pending) > 0 && s.pending[0].seq <= upto.seq {
			s.pending = s.pending[1:]
		}
		if len(s.pending) == 0 {
			changes, end, err := h.changes(q, upto, gapTo)
			if gap, ok := errors.AsType[*gapError](err); ok {
				return h.gap(q, target, upto, gap.until), nil
			}
			if err != nil {
				return nil, err
			}
			if s.pending = changes; len(changes) == 0 {
				if end == cursor {
					return nil, nil
				}
				return &message{upto: end.String()}, nil
			}
		}
		c := s.pending[0]
		body, err := h.body(q, c)
		switch {
		case errors.Is(err, ledger.ErrClosed), errors.Is(err, ledger.ErrFailed):
			return nil, err
		case err != nil:
			h.mu.Lock()
			s.missed++
			h.mu.Unlock()
			h.report(fmt.Errorf("hub: callback of queue %s: event %d is not delivered, because job %s cannot be read: %w", q.ID(), c.seq, c.job, err))
			fallthrough
		case body == nil:
			upto = c.event
			continue
		}
		m := &message{url: target, body: body, upto: c.event.String(), more: q.Seq() > c.seq}
		m.header = h.header(q, c.kind.String(), c.seq, body)
		return m, nil
	}
}

func (h *Hub) header(q *queuefs.Queue, kind string, seq job.Seq, body []byte) http.Header {
	id := fmt.Sprintf("%s\n%s\n%d", h.Service.Info().BaseURI, q.ID(), seq) // differs from other homes too
	if kind == gapKind {
		id += "\n" + kind // the event has a message of its own
	}
	sum := sha256.Sum256([]byte(id))
	header := http.Header{}
	header.Set("Content-Type", state.JSON.MediaType())
	header.Set("Cutie-Queue", q.ID())
	header.Set("Cutie-Event", kind)
	header.Set("Cutie-Sequence", strconv.FormatUint(uint64(seq), 10))
	header.Set("Cutie-Delivery", hex.EncodeToString(sum[:16]))
	if sign := h.secrets.sign(q.ID(), h.Now(), body); sign != "" {
		header.Set("Cutie-Signature", sign)
	}
	return header
}

// body returns the present state of a job; nil if a later event has replaced the change.
func (h *Hub) body(q *queuefs.Queue, c change) ([]byte, error) {
	j, err := q.Job(c.job)
	gone := errors.Is(err, ledger.ErrNoJob)
	switch {
	case gone && c.kind != job.Cull, err == nil && j.Seq > c.seq:
		return nil, nil
	case gone:
		j = job.Job{ID: c.job, Queue: q.ID(), Seq: c.seq}
	case err != nil:
		return nil, err
	}
	d := state.OfJob(state.NewBase(h.Service.Info().BaseURI), &j)
	if gone {
		d.Subject = "" // nothing is there any more
		d.Properties = slices.DeleteFunc(d.Properties, func(p state.Property) bool {
			return !slices.Contains([]string{"identifier", "queueState", "sequence"}, p.Name)
		})
	}
	return state.JSON.Append(nil, &d), nil
}

// window is how many changes are read at a time.
const window = 1000

// changes returns changes after a cursor, and the event up to which they are all.
func (h *Hub) changes(q *queuefs.Queue, after event, gapTo time.Time) ([]change, event, error) {
	events, err := q.Events(after.seq, window)
	if errors.Is(err, ledger.ErrGone) {
		return h.changed(q, after, gapTo)
	}
	if err != nil {
		return nil, after, err
	}
	last := map[job.ID]job.Seq{}
	for i := range events {
		last[events[i].Job] = events[i].Seq
	}
	var list []change
	for i := range events {
		e := &events[i]
		if after = (event{e.Seq, e.Time}); e.Job != 0 && last[e.Job] == e.Seq { // else it is of the properties of the queue
			list = append(list, change{after, e.Kind, e.Job})
		}
	}
	return list, after, nil
}

// A gapError says that nobody knows any more which jobs were culled up to a time.
type gapError struct{ until time.Time }

func (g *gapError) Error() string {
	return "culled jobs before " + job.FormatTime(g.until) + " are forgotten"
}

// changed is changes after the journal has released the events: the index has the last one of each
// job, and those of culled jobs.
func (h *Hub) changed(q *queuefs.Queue, after event, gapTo time.Time) (list []change, upto event, err error) {
	kept := h.Now().Add(-time.Hour * time.Duration(cmp.Or(h.Service.Info().TombstoneAge, 90*24)))
	if after.at.Before(kept) && gapTo.Before(kept) {
		return nil, after, &gapError{kept}
	}
	now := q.State() // before the look at the jobs: later changes are in the journal again
	upto = event{now.Seq, now.LastEvent}
	cut := func() {
		slices.SortFunc(list, func(a, b change) int { return a.at.Compare(b.at) }) // the order of their events
		if len(list) > window {
			list, upto = list[:window], event{}
		}
	}
	var page []ledger.Entry
	for p := range q.Pages() {
		if version, _, _, _ := q.PageVersion(p); version <= after.seq {
			continue
		}
		page, _, _ = q.Page(p, page[:0])
		for i := range page {
			if at := page[i].File.Modified; at.After(after.at) {
				list = append(list, change{event: event{at: at}, job: page[i].Job})
			}
		}
		if len(list) > 4*window {
			cut()
		}
	}
	stones, err := q.Tombstones(after.at, window+1)
	if err != nil {
		return nil, after, err
	}
	for _, t := range stones {
		list = append(list, change{event{t.Seq, t.Culled}, job.Cull, t.Job})
	}
	cut()
	known := list[:0]
	for _, c := range list {
		if c.kind == 0 {
			j, err := q.Job(c.job)
			if errors.Is(err, ledger.ErrClosed) || errors.Is(err, ledger.ErrFailed) {
				return nil, after, err
			}
			c.seq, c.kind = j.Seq, kindOf(&j)
			if errors.Is(err, ledger.ErrNoJob) || err == nil && j.Seq > now.Seq {
				continue // a later event says so
			}
		}
		if c.seq > after.seq {
			known = append(known, c)
		}
	}
	if upto == (event{}) {
		if len(known) == 0 {
			return h.changed(q, after, gapTo) // all of them have changed meanwhile
		}
		upto = known[len(known)-1].event
	}
	return known, upto, nil
}

// kindOf returns the kind of the event that the status of a job implies.
func kindOf(j *job.Job) job.Kind {
	switch {
	case j.Status == job.Consumed:
		return job.Consume
	case j.Status == job.Deleted:
		return job.Delete
	case j.Requeues > 0:
		return job.Requeue
	}
	return job.Submit
}

// gapKind is the kind of the message of a gap.
const gapKind = "gap"

// gap returns the message that names what was lost: culled jobs that are remembered no longer.
// The Change Lists may still have them.
func (h *Hub) gap(q *queuefs.Queue, target string, after event, until time.Time) *message {
	base := state.NewBase(h.Service.Info().BaseURI)
	body, _ := json.Marshal(struct { // strings alone do not fail
		Type  string `json:"@type"`
		Queue string `json:"queueState"`
		From  string `json:"from"`
		Until string `json:"until"`
		List  string `json:"list"`
	}{gapKind, base.Ref("state", q.ID()), job.FormatTime(after.at), job.FormatTime(until),
		base.CapabilityList(q.ID(), "replica")})
	h.report(fmt.Errorf("hub: callback of queue %s: jobs culled from %s to %s are not delivered, they are forgotten", q.ID(),
		job.FormatTime(after.at), job.FormatTime(until)))
	return &message{url: target, body: body, upto: after.String(), more: true, gap: until,
		header: h.header(q, gapKind, after.seq+1, body)}
}

// secretsName is the file of the keys of signatures, in the home, for its owner alone. It has
// lines "QUEUE: SECRET"; empty lines and lines after # mean nothing. For each line of a queue the
// signature has a v1: the hexadecimal HMAC-SHA256 of t, a dot, and the body, so that a secret can
// change without a gap. t is the time of the attempt in Unix seconds.
const secretsName = "callback-secrets.txt"

const (
	minSecret  = 16 // bytes of a key
	maxSecrets = 1 << 20
)

// secrets are the keys, by queue.
type secrets struct {
	mu   sync.Mutex
	of   map[string][]string
	file fs.FileInfo // when it was read; nil: there was none
}

// load reads the file again if it has changed. There need not be one.
func (s *secrets) load(home string) error {
	name := filepath.Join(home, secretsName)
	st, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		st, err = nil, nil
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if was := s.file; st == nil && was == nil || st != nil && was != nil && os.SameFile(st, was) &&
		st.Size() == was.Size() && st.ModTime().Equal(was.ModTime()) && st.Mode() == was.Mode() {
		return nil
	}
	of := map[string][]string{}
	if st != nil {
		switch {
		case st.Mode()&0o077 != 0:
			return fmt.Errorf("%s is open to others than its owner; chmod 600 makes it a secret", secretsName)
		case st.Size() > maxSecrets:
			return fmt.Errorf("%s is larger than %d bytes", secretsName, maxSecrets)
		}
		text, err := os.ReadFile(name)
		if err == nil {
			of, err = parseSecrets(string(text))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", secretsName, err)
		}
	}
	s.of, s.file = of, st
	return nil
}

// parseSecrets reads the lines. Errors do not show secrets.
func parseSecrets(text string) (map[string][]string, error) {
	of := map[string][]string{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		queue, secret, ok := strings.Cut(line, ":")
		queue, secret = strings.TrimSpace(queue), strings.TrimSpace(secret)
		if !ok {
			return nil, fmt.Errorf("line %d is not QUEUE: SECRET", n)
		}
		if id, err := job.CleanQueueID(queue); err != nil || id != queue {
			return nil, fmt.Errorf("line %d does not begin with the identifier of a queue", n)
		}
		if len(secret) < minSecret {
			return nil, fmt.Errorf("line %d: a secret has at least %d octets", n, minSecret)
		}
		of[queue] = append(of[queue], secret)
	}
	return of, nil
}

func (s *secrets) keys(queue string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[queue]
}

func (s *secrets) has(queue string) bool { return len(s.keys(queue)) > 0 }

// sign returns the signatures of a body, "" if the queue has no secret.
func (s *secrets) sign(queue string, now time.Time, body []byte) string {
	keys := s.keys(queue)
	if len(keys) == 0 {
		return ""
	}
	t := strconv.FormatInt(now.Unix(), 10)
	sign := "t=" + t
	for _, key := range keys {
		sign += ",v1=" + digest("sha256", key, []byte(t+"."), body)
	}
	return sign
}
