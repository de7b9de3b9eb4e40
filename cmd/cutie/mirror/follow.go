package mirror

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"cutie/publisher/destination/source"
	"cutie/publisher/names"
	"cutie/queuefs"
	"cutie/queuefs/content"
	"cutie/queuefs/dir"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/replay"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
	"cutie/sitemap"
)

// How an original is followed.
const (
	longPoll     = 55 * time.Second       // wait of one request
	leastBetween = 20 * time.Millisecond  // two requests
	quickPoll    = 1 * time.Second        // where the Source does not wait
	transitPause = 100 * time.Millisecond // until files in transit are looked at again
	manyEvents   = 10_000                 // replayed before more are read
	maxBacklog   = 500_000                // events waiting for files in transit
)

// replay follows the original until there is an error.
func (f *follower) replay(ctx context.Context) error {
	if f.backlog == nil {
		f.backlog = newBacklog(f)
	}
	b := f.backlog
	b.since = time.Time{}
	since, first := f.position(), true
	for {
		switch m := f.q.Mirror(); {
		case !m.Live():
			return errOver
		case m.List != f.list:
			return fmt.Errorf("%s follows %s now", f.id, m.Source)
		}
		began := time.Now()
		wait := longPoll
		if first || len(b.events) > 0 {
			wait = 0
		}
		came, done := 0, false
		err := f.changes(ctx, &since, wait, func(events []*event) error {
			events, err := f.fresh(events)
			if err == nil {
				events, err = b.fresh(events)
			}
			if err == nil {
				err = f.seamless(b, events)
			}
			if err != nil {
				return err
			}
			came += len(events)
			if b.add(events); len(b.events) < manyEvents {
				return nil
			}
			some, err := b.work(ctx)
			f.progress(b, false)
			if done = done || some; err == nil && len(b.events) > maxBacklog {
				err = fmt.Errorf("%d events wait for files of the original: %w", len(b.events), b.missing)
			}
			return err
		})
		if err != nil {
			return err
		}
		first = false
		f.state.Contact = time.Now().UTC().Truncate(time.Microsecond)
		some, err := b.work(ctx)
		f.progress(b, true)
		if done = done || some; err != nil {
			return err
		}
		f.trouble(b.trouble())
		pause := leastBetween - time.Since(began)
		switch {
		case len(b.events) > 0 && !done && came == 0:
			pause = transitPause
		case came == 0 && wait > 0 && time.Since(began) < time.Second:
			pause = quickPoll // the Source does not wait
		}
		if !sleep(ctx, pause) {
			return ctx.Err()
		}
	}
}

// changes gives the events after a cursor to take, in parts, and moves it behind them.
func (f *follower) changes(ctx context.Context, since *source.Cursor, wait time.Duration, take func([]*event) error) error {
	var last []sitemap.Entry // of the last event, which may go on in the next part
	give := func(entries []sitemap.Entry) error {
		events, err := f.events(entries)
		if err != nil || len(events) == 0 {
			return err
		}
		return take(events)
	}
	err := f.set.Changes(ctx, *since, wait, func(part source.Batch) error {
		*since = part.Next
		f.newest = max(f.newest, job.Seq(part.Newest))
		entries := append(last, part.Entries...)
		n := len(entries)
		for n > 0 && entries[n-1].Seq == entries[len(entries)-1].Seq {
			n--
		}
		last = slices.Clone(entries[n:])
		return give(entries[:n])
	})
	if err != nil {
		return err
	}
	return give(last)
}

// progress says how far the mirror is; with all, all lists were read.
func (f *follower) progress(b *backlog, all bool) {
	last, _ := f.q.LastEvent()
	f.state.Known = max(last, f.newest)
	if all && len(b.events) == 0 {
		f.state.Synced = f.state.Contact
	}
	f.q.Original().SetProgress(f.state)
}

// position returns the cursor to begin with: behind the last event in the journal, but
// so the list gives this event again, for a comparison.
func (f *follower) position() source.Cursor {
	_, at := f.q.LastEvent()
	if m := f.q.Mirror(); !at.After(m.At) { // nothing was replayed; the copy may know no number
		return source.Cursor{Time: m.At, Seq: uint64(m.Event)}
	}
	return source.Cursor{Time: at.Add(-time.Microsecond)}
}

// fresh leaves out events the mirror has, and compares the last one of them.
func (f *follower) fresh(events []*event) ([]*event, error) {
	seq, at := f.q.LastEvent()
	m := f.q.Mirror()
	for len(events) > 0 && events[0].Seq <= seq && at.After(m.At) {
		if e := events[0]; e.Seq == seq && !e.Time.Equal(at) || e.Seq < seq && e.Time.After(at) {
			return nil, fmt.Errorf("%w: event %d is of %s here, and of %s there", replay.ErrDiverged, e.Seq, job.FormatTime(at), job.FormatTime(e.Time))
		}
		events = events[1:]
	}
	return events, nil
}

// seamless refuses events with numbers missing before them, the first time: an original
// passes over a number for an event of no file, rarely; a list passed over would be a
// loss. Read again they are taken.
func (f *follower) seamless(b *backlog, events []*event) error {
	last, at := f.q.LastEvent()
	if n := len(b.events); n > 0 {
		last = b.events[n-1].Seq
	} else if !at.After(f.q.Mirror().At) {
		return nil // the copy may not know its number
	}
	for _, e := range events {
		if e.Seq > last+1 && e.Seq > f.gap {
			f.gap = e.Seq
			return fmt.Errorf("events %d to %d are in no list; they are looked for once more", last+1, e.Seq-1)
		}
		last = e.Seq
	}
	return nil
}

// AuditPath is where an administrator has a mirror audited now; the name of the queue
// follows it.
const AuditPath = "/audit"

// An Audited is the report of an audit (Z39.99-2017, 5.2.3): each file in the Resource List of the
// original, compared by its digest with the file here.
type Audited struct {
	state.Typed
	Queue       string    `json:"queue"`
	Source      string    `json:"source"`
	Began       time.Time `json:"began"`
	Seconds     float64   `json:"seconds"`
	Files       int64     `json:"files"`
	Missing     int64     `json:"missing"`
	Different   int64     `json:"different"`
	Extra       int64     `json:"extra"`
	Differences []string  `json:"differences"` // some of them
}

func (a *Audited) faults() int64 { return a.Missing + a.Different + a.Extra }

// maxDifferences is how many a report names.
const maxDifferences = 1000

// settleTries is how often differences are looked at again: the original may change a
// file while its list is read, and the mirror follows a little later.
const settleTries = 8

// An auditor compares a mirror with its original.
type auditor struct {
	f      *follower // of its own: nobody else uses it
	report Audited
	seen   map[job.ID]bool
	doubts []string // paths of different files, and of files in no list
}

// audit audits a mirror by the Resource List of its original.
func (f *follower) audit(ctx context.Context) (*Audited, error) {
	began := time.Now().UTC().Truncate(time.Microsecond)
	a := &auditor{f: f, seen: map[job.ID]bool{}}
	a.report = Audited{Typed: state.AuditedClass.Typed(), Queue: f.id, Source: f.of.URL, Began: began, Differences: []string{}}
	if _, err := f.set.Resources(ctx, func(e *sitemap.Entry, _ time.Time) error { return a.look(ctx, e) }); err != nil {
		return nil, err
	}
	if err := a.extra(ctx); err != nil {
		return nil, err
	}
	if err := a.settle(ctx); err != nil {
		return nil, err
	}
	r := &a.report
	r.Seconds = time.Since(began).Round(time.Millisecond).Seconds()
	return r, f.q.Original().NoteAudit(home.Audit{Time: began, Files: r.Files, Faults: r.faults()})
}

// look compares a file in the list.
func (a *auditor) look(ctx context.Context, e *sitemap.Entry) error {
	path, ok := strings.CutPrefix(e.Loc, a.f.base)
	if !ok {
		return fmt.Errorf("%s: it is not below %s", e.Loc, a.f.base)
	}
	a.report.Files++
	facts := names.FactsOf(e)
	if rest, ok := strings.CutPrefix(path, dir.Payloads+"/"); ok {
		if id, err := job.ParseID(rest); err == nil {
			a.seen[id] = true
		}
	}
	sum, there, err := a.sum(path)
	if err == nil && (!there || sum != facts.SHA256) {
		a.doubts = append(a.doubts, path)
	}
	return errors.Join(err, ctx.Err())
}

// extra finds jobs of the mirror missing in the list.
func (a *auditor) extra(ctx context.Context) error {
	q := a.f.q
	for after := job.ID(0); ctx.Err() == nil; {
		ids := q.IDs(index.Filter{After: after, Limit: index.PageJobs})
		if len(ids) == 0 {
			break
		}
		for _, id := range ids {
			if after = id; !a.seen[id] {
				a.doubts = append(a.doubts, dir.Payloads+"/"+id.String())
			}
		}
	}
	return ctx.Err()
}

// settle compares the files in doubt with the answers of the original, until all are the
// same, or some have differed for long.
func (a *auditor) settle(ctx context.Context) error {
	pause := 50 * time.Millisecond
	for try := 1; len(a.doubts) > 0; try++ {
		var still []string
		for _, path := range a.doubts {
			want, exists, err := a.ask(ctx, path)
			if err != nil {
				return err
			}
			sum, there, err := a.sum(path)
			if err != nil {
				return err
			}
			if there == exists && sum == want {
				continue
			}
			if still = append(still, path); try == settleTries {
				a.count(path, there, exists)
			}
		}
		if a.doubts = still; try == settleTries {
			break
		}
		if len(still) > 0 && !sleep(ctx, pause) {
			return ctx.Err()
		}
		pause *= 2
	}
	return nil
}

func (a *auditor) count(path string, there, exists bool) {
	r, what := &a.report, "different"
	switch {
	case !there:
		what = "missing"
		r.Missing++
	case !exists:
		what = "extra"
		r.Extra++
	default:
		r.Different++
	}
	if len(r.Differences) < maxDifferences {
		r.Differences = append(r.Differences, what+": "+path)
	}
}

// ask returns the digest of a file of the original.
func (a *auditor) ask(ctx context.Context, path string) (sum [sha256.Size]byte, exists bool, err error) {
	err = a.f.client.Get(ctx, source.Request{URI: a.f.base + path, Plain: true, Header: http.Header{}}, func(answer *source.Answer) error {
		h := sha256.New()
		_, err := io.Copy(h, answer.Body)
		h.Sum(sum[:0])
		return err
	})
	if source.IsGone(err) {
		return sum, false, nil
	}
	return sum, err == nil, err
}

// sum returns the digest of a file of the mirror.
func (a *auditor) sum(path string) (sum [sha256.Size]byte, there bool, err error) {
	in, err := a.open(path)
	if err == nil {
		defer in.Close()
		h := sha256.New()
		_, err = io.Copy(h, in)
		h.Sum(sum[:0])
	}
	if errors.Is(err, content.ErrUnread) || errors.Is(err, ledger.ErrClosed) {
		return sum, false, err
	}
	return sum, err == nil, nil // damaged here is missing here
}

// open opens a file of the mirror by its path in the directory of the queue.
func (a *auditor) open(path string) (io.ReadCloser, error) {
	q := a.f.q
	if path == home.QueueInfoName {
		text, _ := q.InfoFile()
		return io.NopCloser(strings.NewReader(string(text))), nil
	}
	in, name, _ := strings.Cut(path, "/")
	name, result, _ := strings.Cut(name, "/")
	id, err := job.ParseID(name)
	if err != nil {
		return nil, err
	}
	switch in {
	case dir.Payloads:
		return q.Payload(id)
	case dir.Results:
		_, r, err := q.Result(id, result)
		return r, err
	}
	st, err := job.ParseStatus(in)
	if err != nil {
		return nil, err
	}
	text, _, err := q.JobFile(id, st)
	return io.NopCloser(strings.NewReader(string(text))), err
}

// auditNow answers an administrator.
func (k *Keeper) auditNow(w http.ResponseWriter, r *http.Request) error {
	q, err := k.svc.Ask(r.PathValue("queue"))
	if err != nil {
		return err
	}
	report, err := k.audit(r.Context(), q)
	if err != nil {
		return err
	}
	if strings.Contains(r.Header.Get("Accept"), "text/html") { // a person, at the page of the mirrors
		http.Redirect(w, r, string(web.BaseOf(r, k.svc.Info().BaseURI))+"mirrors", http.StatusSeeOther)
		return nil
	}
	return web.AnswerJSON(w, report)
}

// audit audits a mirror.
func (k *Keeper) audit(ctx context.Context, q *queuefs.Queue) (*Audited, error) {
	m := q.Mirror()
	if !m.Live() || m.List == "" {
		return nil, fmt.Errorf("%s: %w: it is no mirror", q.ID(), job.ErrConflict)
	}
	of := &Source{URL: m.Source}
	for i := range k.o.Sources {
		if k.o.Sources[i].URL == m.Source {
			of = &k.o.Sources[i]
		}
	}
	client, err := k.client(of)
	if err != nil {
		return nil, err
	}
	f := &follower{keeper: k, of: of, id: q.ID(), list: m.List, q: q, client: client}
	if err := f.find(ctx); err != nil {
		return nil, web.Errorf(http.StatusBadGateway, "the original of %s: %v", q.ID(), err)
	}
	report, err := f.audit(ctx)
	if err == nil {
		k.mu.Lock()
		k.differ[q.ID()] = report.Differences
		k.mu.Unlock()
	}
	if err != nil && ctx.Err() == nil {
		err = web.Errorf(http.StatusBadGateway, "audit of %s: %v", q.ID(), err)
	}
	return report, err
}

// Differences returns some files of a mirror that its last audit since the start found
// missing, different or extra.
func (k *Keeper) Differences(queue string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.differ[queue]
}

// auditAll audits each mirror once in a while, one at a time.
func (k *Keeper) auditAll(ctx context.Context) {
	for k.o.Audit > 0 && sleep(ctx, min(k.o.Audit, auditTick)) {
		for _, q := range k.svc.Queues() {
			m := q.Mirror()
			if p := q.Original().Progress(); !m.Live() || time.Since(p.Synced) > 2*longPoll || time.Since(m.Audit.Time) < k.o.Audit {
				continue
			}
			report, err := k.audit(ctx, q)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				k.o.Tell(q.ID(), err.Error())
			case report.faults() > 0:
				k.o.Tell(q.ID(), fmt.Sprintf("audit: %d missing, %d different, %d extra of %d files, such as %s",
					report.Missing, report.Different, report.Extra, report.Files, report.Differences[0]))
			}
		}
	}
}

// auditTick is the time between two looks for due audits.
const auditTick = time.Minute
