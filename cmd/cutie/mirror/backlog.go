package mirror

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"cutie/publisher/destination"
	"cutie/publisher/destination/local"
	"cutie/publisher/destination/source"
	"cutie/publisher/names"
	"cutie/queuefs"
	"cutie/queuefs/digest"
	"cutie/queuefs/dir"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/replay"
	"cutie/sitemap"
)

// Limits of a backlog.
const (
	maxChange = 2000     // events replayed at a time
	maxMemory = 64 << 20 // octets of payloads in memory
	smallSize = 64 << 10 // of a payload in memory
)

// A backlog has the events not yet replayed, in their order. It is kept while the original
// does not answer, for a takeover; its events may be read again then.
type backlog struct {
	f      *follower
	events []*event

	since   time.Time // the first event waits for files; zero: none does
	noParts time.Time // until then the Source is not asked for parts

	mu      sync.Mutex
	memory  int64
	missing error // of one file asked for in vain
}

func newBacklog(f *follower) *backlog { return &backlog{f: f} }

func (b *backlog) add(events []*event) { b.events = append(b.events, events...) }

// fresh leaves out events the backlog has.
func (b *backlog) fresh(events []*event) ([]*event, error) {
	for len(events) > 0 && len(b.events) > 0 && events[0].Seq <= b.events[len(b.events)-1].Seq {
		e := events[0]
		i, found := slices.BinarySearchFunc(b.events, e.Seq, func(had *event, seq job.Seq) int { return cmp.Compare(had.Seq, seq) })
		if !found || !b.events[i].Time.Equal(e.Time) {
			return nil, fmt.Errorf("%w: event %d of %s was another before", replay.ErrDiverged, e.Seq, job.FormatTime(e.Time))
		}
		events = events[1:]
	}
	return events, nil
}

// discard removes the temporary files of events not replayed.
func (b *backlog) discard() {
	for _, e := range b.events {
		e.drop(b.f.keeper.svc)
	}
	b.events = nil
}

func (e *event) drop(svc *queuefs.Service) {
	if e.Temp != "" {
		svc.DropFile(e.Temp)
	}
	for _, temp := range e.Event.Results {
		svc.DropFile(temp)
	}
	e.Temp, e.Event.Results = "", nil
}

// patience is how long events may wait for files before anybody is told.
const patience = 15 * time.Second

// trouble returns why events wait for long, nil if none does.
func (b *backlog) trouble() error {
	switch {
	case len(b.events) == 0:
		b.since = time.Time{}
	case b.since.IsZero():
		b.since = time.Now()
	case time.Since(b.since) > patience:
		return b.missing
	}
	return nil
}

// work fetches the files of the events, some of them at a time, and replays as many events
// as have theirs. It reports whether it replayed some.
func (b *backlog) work(ctx context.Context) (done bool, err error) {
	for window := maxChange; len(b.events) > 0; {
		window = min(window, len(b.events))
		gone := b.gather(ctx, window)
		if gone == nil && time.Since(b.since) > lostAfter && !b.since.IsZero() {
			b.passOver(window)
		}
		n := b.ready(maxChange)
		if n > 0 {
			if err := b.replay(ctx, n); err != nil {
				return done, err
			}
			done, b.since, window = true, time.Time{}, maxChange
		}
		switch {
		case gone != nil:
			return done, gone
		case n == 0 && window == len(b.events):
			return done, nil
		case n == 0:
			window *= 2 // a later event may explain why files are missing
		}
	}
	return done, nil
}

// lostAfter is how long a payload is asked for. Then the original has none either: its
// file is lost or damaged there, and the mirror has the job without it, too.
const lostAfter = time.Minute

// passOver gives up the payloads of the first n events.
func (b *backlog) passOver(n int) {
	for _, e := range b.events[:n] {
		if e.From == 0 && e.Job != 0 && !e.payload && e.Text != nil {
			b.f.keeper.o.Tell(b.f.id, fmt.Sprintf("the payload of %v cannot be had from the original: %v", e.Job, b.missing))
			e.payload = true
		}
	}
}

// first returns the first n events for the journal, and the last queue-info.txt among them.
func (b *backlog) first(n int) (change []replay.Event, settings []byte) {
	change = make([]replay.Event, n)
	for i, e := range b.events[:n] {
		if change[i] = e.Event; e.Job == 0 && e.Text != nil {
			settings = e.Text
		}
	}
	return change, settings
}

// replay replays the first n events.
func (b *backlog) replay(ctx context.Context, n int) error {
	change, settings := b.first(n)
	err := b.f.q.Replay(ctx, change, settings)
	if errors.Is(err, job.ErrTooBig) {
		if half := b.ready(n / 2); half > 0 && half < n {
			return b.replay(ctx, half)
		}
		if spilled, e := b.spill(n); spilled || e != nil {
			if e != nil {
				return e
			}
			return b.replay(ctx, n)
		}
	}
	if err != nil {
		return err
	}
	b.forget(n)
	return nil
}

// spill moves the payloads of the first n events from memory to files, and reports whether
// there were some.
func (b *backlog) spill(n int) (some bool, err error) {
	for _, e := range b.events[:n] {
		if len(e.Data) == 0 {
			continue
		}
		if e.Temp, err = b.f.keeper.svc.StoreFile(bytes.NewReader(e.Data), &e.Payload); err != nil {
			return some, err
		}
		b.memory -= int64(len(e.Data))
		e.Data, some = nil, true
	}
	return some, nil
}

// forget lets go of the first n events.
func (b *backlog) forget(n int) {
	for _, e := range b.events[:n] {
		b.memory -= int64(len(e.Data))
	}
	clear(b.events[:n])
	if b.events = b.events[n:]; len(b.events) == 0 {
		b.events = nil
	}
}

// ready returns how many of the first events may be replayed: behind them each job has
// the file of its last event, and its payload and results. It is at most n, or else the
// least number there is.
func (b *backlog) ready(n int) (ready int) {
	jobs := map[job.ID]*life{}
	open := 0
	for i, e := range b.events {
		if i >= n && ready > 0 {
			break
		}
		j := jobs[e.Job]
		if j == nil {
			j = &life{}
			jobs[e.Job] = j
		}
		was := j.lacks()
		j.follow(e)
		switch is := j.lacks(); {
		case is && !was:
			open++
		case was && !is:
			open--
		}
		if open == 0 {
			ready = i + 1
		}
	}
	return ready
}

// A life is the state of a job after the events so far, or of queue-info.txt.
type life struct {
	last    *event
	came    *event   // with the payload, in the backlog
	results []*event // with results still there
}

func (j *life) follow(e *event) {
	j.last = e
	if e.Job == 0 {
		return
	}
	if e.From == 0 {
		j.came = e
	}
	if e.To == 0 {
		j.came, j.results = nil, nil
		return
	}
	if e.To != job.Consumed {
		j.results = nil
	}
	if c := e.Event.Event.Results; c != nil {
		j.results = slices.DeleteFunc(j.results, func(before *event) bool { return replaced(before.Event.Event.Results.Came[0].Name, c) })
		if len(c.Came) > 0 {
			j.results = append(j.results, e)
		}
	}
}

// replaced reports whether a result went, or came anew.
func replaced(name string, c *job.ResultChange) bool {
	return slices.Contains(c.Went, name) || slices.ContainsFunc(c.Came, func(r job.Result) bool { return r.Name == name })
}

// lacks reports whether files are missing.
func (j *life) lacks() bool {
	if j.last == nil || j.last.Job != 0 && j.last.To == 0 { // culled
		return false
	}
	if j.last.Text == nil || j.came != nil && !j.came.payload {
		return true
	}
	for _, e := range j.results {
		if len(e.Event.Results) == 0 {
			return true
		}
	}
	return false
}

// gather gets the missing parts of the first n events.
func (b *backlog) gather(ctx context.Context, n int) error {
	if err := b.parts(ctx, n); err != nil {
		return err
	}
	return b.fetch(ctx, n)
}

// fetch asks for the files of the jobs of the first n events, as they are after all events
// known. One that is gone,
// or another, waits for later events.
func (b *backlog) fetch(ctx context.Context, n int) error {
	jobs := map[job.ID]*life{}
	var order []*life // of the first n events
	for i, e := range b.events {
		j := jobs[e.Job]
		if j == nil && i < n {
			j = &life{}
			jobs[e.Job] = j
			order = append(order, j)
		}
		if j != nil {
			j.follow(e)
		}
	}
	b.missing = nil
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := make(chan *life)
	var wg sync.WaitGroup
	for range source.DefaultConnections {
		wg.Go(func() {
			for j := range work {
				if err := b.complete(ctx, j); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, j := range order {
		if ctx.Err() == nil && j.lacks() {
			work <- j
		}
	}
	close(work)
	wg.Wait()
	return context.Cause(ctx)
}

// complete fetches the missing files of a job: all there are, whichever are gone.
func (b *backlog) complete(ctx context.Context, j *life) error {
	if j.last.Text == nil {
		if err := b.miss(b.text(ctx, j.last)); err != nil {
			return err
		}
	}
	if e := j.came; e != nil && !e.payload {
		if err := b.miss(b.payload(ctx, e)); err != nil {
			return err
		}
	}
	for _, e := range j.results {
		if len(e.Event.Results) > 0 {
			continue
		}
		if err := b.miss(b.result(ctx, e)); err != nil {
			return err
		}
	}
	return nil
}

// text fetches a job file, or queue-info.txt.
func (b *backlog) text(ctx context.Context, e *event) error {
	uri := b.f.base + home.QueueInfoName
	if e.Job != 0 {
		uri = b.f.uri(e.To.String(), e.Job)
	}
	text, err := b.f.small(ctx, uri, &e.File)
	if err == nil {
		e.Text = text
	}
	return err
}

func (b *backlog) result(ctx context.Context, e *event) error {
	res := e.Event.Event.Results.Came[0]
	temp, err := b.f.large(ctx, b.f.uri(dir.Results, e.Job)+"/"+res.Name, &job.Facts{Length: res.Size, SHA256: res.SHA256})
	if err == nil {
		e.Event.Results = map[string]string{res.Name: temp}
	}
	return err
}

func (b *backlog) payload(ctx context.Context, e *event) (err error) {
	uri := b.f.uri(dir.Payloads, e.Job)
	b.mu.Lock()
	inMemory := e.Payload.Length <= smallSize && b.memory+e.Payload.Length <= maxMemory
	if inMemory {
		b.memory += e.Payload.Length
	}
	b.mu.Unlock()
	if inMemory {
		e.Data, err = b.f.small(ctx, uri, &e.Payload)
	} else {
		e.Temp, err = b.f.large(ctx, uri, &e.Payload)
	}
	e.payload = err == nil
	if inMemory && err != nil {
		b.mu.Lock()
		b.memory -= e.Payload.Length
		b.mu.Unlock()
	}
	return err
}

// errDiffers: a file is not the one in the list.
var errDiffers = errors.New("the file is not the one in the list")

// miss keeps the reason why a file is missing, and returns all other errors.
func (b *backlog) miss(err error) error {
	if err == nil || !source.IsGone(err) && !errors.Is(err, errDiffers) {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.missing = err
	return nil
}

// small fetches a file into memory. An empty one is not nil.
func (f *follower) small(ctx context.Context, uri string, facts *job.Facts) ([]byte, error) {
	if facts.Length < 0 || facts.Length > maxMemory {
		return nil, fmt.Errorf("%s: a length of %d is not credible", uri, facts.Length)
	}
	buf := bytes.NewBuffer(make([]byte, 0, facts.Length+bytes.MinRead))
	err := f.client.Get(ctx, source.Request{URI: uri, Plain: true, Header: http.Header{}}, func(a *source.Answer) error {
		buf.Reset()
		_, err := buf.ReadFrom(io.LimitReader(a.Body, facts.Length+1))
		return err
	})
	if err == nil && (int64(buf.Len()) != facts.Length || sha256.Sum256(buf.Bytes()) != facts.SHA256) {
		err = fmt.Errorf("%s: %w", uri, errDiffers)
	}
	return buf.Bytes(), err
}

// large fetches a file into a temporary one, on stable storage.
func (f *follower) large(ctx context.Context, uri string, facts *job.Facts) (temp string, err error) {
	err = f.client.Get(ctx, source.Request{URI: uri, Plain: true, Header: http.Header{}}, func(a *source.Answer) error {
		temp, err = f.keeper.svc.StoreFile(io.LimitReader(a.Body, facts.Length+1), facts)
		return err
	})
	if errors.Is(err, digest.ErrMismatch) {
		err = fmt.Errorf("%s: %w", uri, errDiffers)
	}
	return temp, err
}

// open returns the mirror, made from a copy if need be.
func (f *follower) open(ctx context.Context) (*queuefs.Queue, error) {
	svc := f.keeper.svc
	q, err := svc.Queue(f.id)
	switch {
	case errors.Is(err, ledger.ErrNoQueue):
		return f.adopt(ctx)
	case err != nil:
		return nil, err
	}
	m := q.Mirror()
	if m.Live() && m.Base() != "" && m.List != f.list && !Answers(ctx, m.Base()) {
		yes, _, err := f.set.Succeeds(ctx, m.Base()+"/")
		if err == nil && yes {
			f.keeper.tell(f.id, "the original was "+m.Source+", its successor "+f.of.URL+" is followed")
			err = q.Original().Move(f.of.URL, f.list)
		}
		if err != nil {
			return nil, err
		}
		m = q.Mirror()
	}
	switch {
	case q.ID() != f.id || m == nil || m.Bad == "" && m.List != f.list:
		return nil, fmt.Errorf("%w: a queue of this home has the name %s, so %s is not mirrored", queuefs.ErrQueueExists, f.id, f.list)
	case !m.Live():
		return nil, errOver
	case m.Bad != "":
		return nil, fmt.Errorf("original of queue %s: %s", f.id, m.Bad)
	}
	return q, os.RemoveAll(f.copied()) // a crash after Adopt leaves it
}

// copied is the directory of the copy.
func (f *follower) copied() string {
	return filepath.Join(f.keeper.svc.Dir(), home.CopiesDir, f.id)
}

// adopt copies the queue and makes a mirror of the copy.
func (f *follower) adopt(ctx context.Context) (*queuefs.Queue, error) {
	svc := f.keeper.svc
	dir := f.copied()
	b := newBacklog(f)
	defer b.discard()
	n := 0
	m, begun := svc.Begun(f.id)
	if !begun {
		at, missing, err := f.copy(ctx, dir)
		if err != nil {
			return nil, err
		}
		m = home.Mirror{Source: f.of.URL, List: f.list, Event: job.Seq(at.Event), At: at.Until}
		if n, err = f.explain(ctx, b, missing, source.Cursor{Time: at.Until, Seq: at.Event}); err != nil {
			return nil, err
		}
	}
	events, settings := b.first(n)
	q, err := svc.Adopt(ctx, f.id, m, events, settings)
	if err != nil {
		return nil, err
	}
	b.forget(n)
	return q, os.RemoveAll(dir)
}

// copy copies the files of the queue. missing are files replaced by the original before
// they were fetched.
func (f *follower) copy(ctx context.Context, dir string) (at destination.Standing, missing []string, err error) {
	requests, err := f.keeper.http(f.of)
	if err != nil {
		return at, nil, err
	}
	copied, err := destination.Open(ctx, destination.Options{URL: f.list, Dir: dir, Sets: []string{f.list}, HTTP: requests,
		Settle: time.Millisecond}) // later events explain missing files
	if errors.Is(err, destination.ErrOther) {
		err = errors.Join(fmt.Errorf("%w; the copy begins anew", err), os.RemoveAll(dir))
	}
	if err != nil {
		return at, nil, err
	}
	r, err := copied.Sync(ctx)
	if err == nil && r.Refused > 0 {
		err = fmt.Errorf("%d files were refused", r.Refused)
	}
	if err = errors.Join(err, copied.Close()); err != nil {
		return at, nil, err
	}
	if missing, err = destination.Settle(dir); err == nil {
		err = f.tidy(dir)
	}
	if err != nil {
		return at, nil, err
	}
	_, all, err := destination.Standings(dir)
	if err == nil && (len(all) != 1 || !all[0].Baseline) {
		err = fmt.Errorf("%s: no copy of one queue", dir)
	}
	if err != nil {
		return at, nil, err
	}
	return all[0], missing, nil
}

// tidy gives the directory of a copied queue its name in a home, and removes
// directories without results.
func (f *follower) tidy(copied string) error {
	names, err := local.NewNames(f.site, false)
	if err != nil {
		return err
	}
	file, err := names.Path(f.base + home.QueueInfoName)
	if err != nil {
		return err
	}
	was, is := filepath.Join(copied, filepath.Dir(filepath.FromSlash(file))), filepath.Join(copied, home.QueuesDir, f.id)
	if was != is {
		if err := os.Rename(was, is); err != nil {
			return err
		}
	}
	empty, err := os.ReadDir(filepath.Join(is, dir.Results))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range empty {
		_ = os.Remove(filepath.Join(is, dir.Results, e.Name())) // fails for others
	}
	return err
}

// explain waits for events of all jobs with files missing in the copy, and returns how
// many events to replay.
func (f *follower) explain(ctx context.Context, b *backlog, missing []string, since source.Cursor) (n int, err error) {
	lacking := map[job.ID]bool{}
	for _, uri := range missing {
		var ev job.Event
		if err := names.Take(&ev, f.base, &sitemap.Entry{Loc: uri}); err != nil {
			return 0, err
		}
		lacking[ev.Job] = true
	}
	began := time.Now()
	for len(lacking) > 0 {
		err := f.changes(ctx, &since, 0, func(events []*event) error { b.add(events); return nil })
		if err == nil {
			err = b.gather(ctx, len(b.events))
		}
		if err != nil {
			return 0, err
		}
		for ready := b.ready(len(b.events)); n < ready; n++ {
			delete(lacking, b.events[n].Job)
		}
		if time.Since(began) > explainTime || len(b.events) > maxBacklog {
			// The files may be lost or damaged at the original: audits go on to name them.
			f.keeper.o.Tell(f.id, fmt.Sprintf("%d files are not as the lists of the original say, and are missing, such as %s", len(missing), missing[0]))
			break
		}
		if !sleep(ctx, transitPause) {
			return 0, ctx.Err()
		}
	}
	return n, nil
}

// explainTime is how long to wait for events to explain missing files.
const explainTime = 30 * time.Second
