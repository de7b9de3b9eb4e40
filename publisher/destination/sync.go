package destination

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"slices"
	"strings"
	"time"

	"cutie/publisher/destination/source"
	"cutie/sitemap"
)

// A Report is the result of a run.
type Report struct {
	Source   string      `json:"source"`
	Sets     []SetReport `json:"sets"`
	Fetched  int64       `json:"fetched"`
	Same     int64       `json:"same"`
	Deleted  int64       `json:"deleted"`
	Refused  int64       `json:"refused"`
	Failed   int64       `json:"failed"`
	Extra    int64       `json:"extra"`             // files without an entry in a list
	Skipped  int64       `json:"skipped,omitempty"` // times that a set, a list or an entry could not be read
	Requests int64       `json:"requests"`
	Octets   int64       `json:"octets"` // received
	Seconds  float64     `json:"seconds"`
	DryRun   bool        `json:"dryRun,omitempty"`
}

// A SetReport is the part of a set.
type SetReport struct {
	Name     string    `json:"name"`
	Baseline bool      `json:"baseline"`        // made in this run
	By       By        `json:"by,omitempty"`    // of the baseline
	Until    time.Time `json:"until,omitzero"`  // all changes before it are there
	Event    uint64    `json:"event,omitempty"` // the last event, where the Source counts them
	Transit  int       `json:"transit"`         // resources without their file
	Error    string    `json:"error,omitempty"` // why it was passed over
}

// InSync reports whether the copy equals the Source.
func (r *Report) InSync() bool { return r.Failed == 0 && r.Refused == 0 && r.Skipped == 0 }

// Sync brings the copy up to the Source: a baseline for each set without one, else its
// changes. An error ends the run, but the work done stays done.
func (c *Copy) Sync(ctx context.Context) (*Report, error) {
	began := time.Now()
	r := &Report{Source: c.source.Base, DryRun: c.o.DryRun}
	skipped := c.counts.Skipped.Load()
	c.newSkips()
	sets, err := c.syncSets(ctx, false)
	if errors.Is(err, source.ErrGap) {
		c.o.Tell(fmt.Sprintf("%v; the copy begins anew, with the files it has", err))
		c.state.Gap = true
		made := c.counts.restart(c.o.DryRun)
		sets, err = c.syncSets(ctx, true)
		c.counts.Same.Add(-min(made, c.counts.Same.Load()))
	}
	r.Sets = append([]SetReport{}, sets...)
	r.Skipped = c.counts.Skipped.Load() - skipped
	if err == nil && c.listed != nil && c.whole() {
		r.Extra, err = c.extras(r.Skipped > 0)
	}
	if err == nil && r.Skipped == 0 && (c.listed != nil || !c.whole()) {
		c.state.Gap = false
	}
	if e := c.end(err == nil); err == nil || e != nil {
		err = errors.Join(err, e)
	}
	r.fill(c, began)
	return r, err
}

// syncSets brings all sets up to the Source. A set that cannot be is passed over, unless it is
// the only one, or has a gap in its changes for the first time.
func (c *Copy) syncSets(ctx context.Context, again bool) (all []SetReport, err error) {
	if err := c.begin(); err != nil {
		return nil, err
	}
	if err := c.dropSets(ctx); err != nil {
		return nil, err
	}
	bad := 0
	for _, set := range c.sets {
		r, err := c.syncSet(ctx, set)
		if err != nil {
			bad++
			if bad == len(c.sets) || ctx.Err() != nil || fatal(err) || errors.Is(err, source.ErrGap) && !again {
				return all, fmt.Errorf("set %s: %w", set.Name, err)
			}
			c.skipSet(set, err)
			r.Name, r.Error = set.Name, err.Error()
		}
		all = append(all, r)
	}
	return all, nil
}

func (r *Report) fill(c *Copy, began time.Time) {
	n := &c.counts
	r.Fetched, r.Same, r.Deleted, r.Refused, r.Failed = n.Fetched.Load(), n.Same.Load(), n.Deleted.Load(), n.Refused.Load(), n.Failed.Load()
	r.Requests, r.Octets = c.client.Counts()
	r.Seconds = time.Since(began).Round(time.Millisecond).Seconds()
}

// begin notes the begin of writing files. After a crash of the system files are
// compared by their digests.
func (c *Copy) begin() error {
	c.listed, c.fresh = nil, false
	for _, set := range c.sets {
		if s := c.of(set); c.o.Again || c.state.Gap || s.Partial {
			s.anew()
		}
	}
	c.o.Again = false
	if c.state.Gap && c.whole() {
		for _, set := range c.sets {
			c.of(set).Began = time.Time{} // no change has to tell deletions: files in no list go
		}
	}
	for _, set := range c.sets {
		if s := c.of(set); s.History == nil && s.Baseline && s.Cursor.Seq > 0 && set.IsQueue() && c.remembers() {
			s.History = newHistory(c.source.Base, s.Cursor.Time)
		}
	}
	if !slices.ContainsFunc(c.sets, func(s *source.Set) bool { return c.of(s).Baseline && s.Documents[sitemap.ChangeList] != "" }) {
		c.listed = map[uint64]uint64{}
	}
	if c.listed != nil {
		var err error
		if c.fresh, err = c.dir.Empty(); err != nil {
			return err
		}
	}
	if c.o.DryRun {
		return nil
	}
	boot := bootID()
	if c.state.Boot != "" && c.state.Boot != boot {
		c.o.Tell("the last run was cut off by a crash of the system: files are compared by their digests")
		c.o.Deep = true
		for _, s := range c.state.Sets {
			s.anew()
		}
	}
	if err := c.dir.Sweep(); err != nil {
		return err
	}
	c.state.Boot = boot
	text, err := c.stateText()
	if err != nil {
		return err
	}
	return c.dir.WriteState(stateFile, text)
}

func (c *Copy) end(whole bool) error {
	if c.o.DryRun {
		return nil
	}
	if whole {
		c.state.Boot = ""
		if c.counts.Failed.Load() == 0 {
			if err := c.dir.SweepParts(); err != nil {
				return err
			}
		}
	}
	if err := c.save(); err != nil {
		return err
	}
	return c.sweepHistories()
}

var seed = maphash.MakeSeed()

// list notes that a list of this run has a file, and reports whether it is the first one.
func (c *Copy) list(file string) (first bool) {
	first, _ = c.listAs(file, 0)
	return first
}

// listAs is list for an entry that says something; twice: an entry of this pass said the same.
func (c *Copy) listAs(file string, as uint64) (first, twice bool) {
	if c.listed == nil {
		return false, false
	}
	h := maphash.String(seed, file)
	was, known := c.listed[h]
	c.listed[h] = as
	return !known, known && as != 0 && was == as
}

// saying returns what an entry says in a pass, in short.
func (c *Copy) saying(e *sitemap.Entry) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	fmt.Fprint(&h, c.pass, e.Length, e.LastMod.UnixMicro(), e.Hashes)
	return h.Sum64() | 1
}

// extras counts files without an entry in a list, and removes them if it is to. After a
// gap they may be resources whose deletion no list tells any more. All stay if something was
// skipped, which may stand for them.
func (c *Copy) extras(skipped bool) (n int64, err error) {
	if c.fresh {
		return 0, nil
	}
	var gone []string
	remove := !skipped && (c.o.Delete == DeleteAll || c.o.Delete == DeleteTold && c.state.Gap)
	err = c.dir.Walk(func(file string, _ int64, _ time.Time) error {
		if _, ok := c.listed[maphash.String(seed, plainPath(file))]; !ok {
			if n++; remove {
				gone = append(gone, file)
			}
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) && c.o.DryRun {
		return 0, nil
	}
	for _, file := range gone {
		if err != nil {
			break
		}
		if !c.o.DryRun {
			err = c.dir.Remove(file)
		}
		c.counts.Deleted.Add(1)
		n--
	}
	return n, err
}

// plainPath returns the path of a file whose name was taken by a directory, or the other
// way round.
func plainPath(file string) string {
	if !strings.Contains(file, "^/") && !strings.HasSuffix(file, "^") {
		return file
	}
	names := strings.Split(file, "/")
	for i, name := range names {
		if len(name) > 1 {
			names[i] = strings.TrimSuffix(name, "^")
		}
	}
	return strings.Join(names, "/")
}

// syncSet brings one set up to the Source. If changes are missing the error is
// [source.ErrGap].
func (c *Copy) syncSet(ctx context.Context, set *source.Set) (r SetReport, err error) {
	s := c.of(set)
	if !s.Baseline {
		if r.By, err = c.baseline(ctx, set, s); err != nil {
			return r, err
		}
		r.Baseline = true
	}
	switch listed := set.Documents[sitemap.ChangeList] == ""; {
	case r.Baseline && (listed || c.o.DryRun): // nothing was made, so no change follows
	case listed:
		err = c.again(ctx, set, s)
	default:
		err = c.catchUp(ctx, set, s)
	}
	var late *source.LateError
	if errors.As(err, &late) {
		c.o.Tell(fmt.Sprintf("set %s: %v; whole lists are compared", set.Name, late))
		if r.By, err = c.compareLists(ctx, set, s, late.Time); err == nil {
			r.Baseline = r.By != ByBest
			err = c.catchUp(ctx, set, s)
		}
	}
	gap := errors.Is(err, source.ErrGap)
	wrong := err == nil && len(s.Transit) > 0 && c.o.Settle >= 0 && !c.o.DryRun
	if (gap || wrong) && r.By == ByDump {
		// The packages are too old, or a manifest is wrong; the Resource List is true now.
		if wrong {
			s.anew()
		}
		if r.By, err = c.baselineBy(ctx, set, s, ByList); err == nil {
			err = c.catchUp(ctx, set, s)
		}
	}
	if errors.Is(err, source.ErrGap) && c.state.Gap && r.Baseline {
		err = c.overGap(ctx, set, s, err)
	}
	if errors.Is(err, source.ErrGap) {
		s.Baseline, s.Began = false, time.Time{} // no change leads from there to now
	}
	if err != nil {
		return r, err
	}
	if len(s.Transit) == 0 {
		s.Synced = time.Now().UTC()
	}
	r.Name, r.Until, r.Event, r.Transit = set.Name, s.Cursor.Time, s.Cursor.Seq, len(s.Transit)
	c.counts.Failed.Add(int64(len(s.Transit)))
	for _, t := range s.Transit {
		if c.o.Settle < 0 {
			break // Explain tells
		}
		c.o.Tell(fmt.Sprintf("%s: %s, and no change explains it", t.Entry.Loc, t.Why))
	}
	return r, nil
}

// overGap goes on behind a gap that there is right after the baseline: the Source lists the
// changes from a time after that of its list. What changed between is not known, and the next
// run begins anew.
func (c *Copy) overGap(ctx context.Context, set *source.Set, s *setState, gap error) error {
	from, err := set.Reach(ctx, allLists)
	if err != nil {
		return errors.Join(gap, err)
	}
	c.skipSet(set, gap)
	c.mu.Lock()
	s.Cursor, s.Partial = source.Cursor{Time: from}, true
	c.mu.Unlock()
	return c.catchUp(ctx, set, s)
}

// compareLists makes the baseline of a set again, for changes that were listed late, the first
// one at a time from which on all changes are applied again. Without a Resource List these
// changes are all there is.
func (c *Copy) compareLists(ctx context.Context, set *source.Set, s *setState, from time.Time) (By, error) {
	listed := set.Documents[sitemap.ResourceList] != ""
	c.mu.Lock()
	if listed {
		s.anew()
		s.Began = from // it is older than the cursor
	} else {
		s.Cursor = source.Cursor{Time: from}
	}
	c.mu.Unlock()
	if !listed {
		return ByBest, nil
	}
	return c.baselineBy(ctx, set, s, ByList)
}

// patience is how often the changes are read again for resources in transit.
const patience = 4

// catchUp applies the changes after the cursor of a set. For resources in transit it looks
// for their changes a little longer, and asks for them once more in the end.
func (c *Copy) catchUp(ctx context.Context, set *source.Set, s *setState) error {
	for try := 0; ; try++ {
		_, err := c.follow(ctx, set, s, 0)
		if err != nil || len(s.Transit) == 0 || c.o.DryRun || c.o.Settle < 0 {
			return err
		}
		if try == patience {
			return c.retry(ctx, s)
		}
		select {
		case <-time.After(c.o.Settle << try):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// again makes the baseline of a set without Change List once more.
func (c *Copy) again(ctx context.Context, set *source.Set, s *setState) error {
	_, err := c.baselineBy(ctx, set, s, ByList)
	return err
}

// apply applies a batch of changes, the first of them with a number in the plan: of each
// resource the last one.
func (c *Copy) apply(ctx context.Context, s *setState, b source.Batch, p *plan, first int) error {
	changed := make(map[string]bool, len(b.Entries))
	for i := range b.Entries {
		changed[b.Entries[i].Loc] = true
	}
	c.mu.Lock()
	s.Transit = slices.DeleteFunc(s.Transit, func(t transit) bool { return changed[t.Entry.Loc] })
	for i := range s.Held {
		h := &s.Held[i]
		h.Entries = slices.DeleteFunc(h.Entries, func(e sitemap.Entry) bool { return changed[e.Loc] })
	}
	before := len(s.Transit)
	c.mu.Unlock()
	made := make([]bool, len(b.Entries))
	var deletions []int
	w := c.newWorkers(ctx, s, nil)
	for i := range b.Entries {
		e := &b.Entries[i]
		if made[i] = !p.final(first+i, e.Loc); made[i] {
			continue
		}
		if e.Change == sitemap.Deleted {
			gone, err := !b.Partial || c.o.DryRun, error(nil)
			if !gone {
				gone, err = c.gone(w.ctx, e.Loc)
			}
			if err != nil {
				w.cancel(err)
				break
			}
			if made[i] = !gone; gone {
				deletions = append(deletions, i)
			}
			continue
		}
		t := task{entry: *e, made: &made[i]}
		if file, err := c.dir.Path(e.Loc); err == nil {
			t.again = !c.list(file) && c.listed != nil
		}
		if !w.addTask(t) {
			break
		}
	}
	err := w.wait()
	if err == nil {
		c.explained(s, b.Entries, before)
		err = c.deleteAll(ctx, s, b.Entries, deletions, before, made)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		s.Cursor = b.Next
	} else if n := slices.Index(made, false); n > 0 {
		s.Cursor = b.Part(s.Cursor, n) // the files of these are there
	}
	c.remember(s, b.Entries, min(s.Cursor.Seq, b.Next.Seq))
	return err
}

// gone reports whether the Source says that it has a resource no more. Its deletion stands in a
// list of which an entry was skipped, and this may be its return.
func (c *Copy) gone(ctx context.Context, uri string) (bool, error) {
	err := c.client.Get(ctx, source.Request{URI: uri}, func(*source.Answer) error { return nil })
	if source.IsGone(err) {
		return true, nil
	}
	if ctx.Err() != nil || source.Passes(err) {
		return false, err
	}
	c.o.Tell(fmt.Sprintf("%s is not removed: its Source still answers, and a change that could not be read may be its return", uri))
	return false, nil
}

// explained takes those resources out of transit, from number before on, that a batch
// deletes after it has made them: lists read a second time may say more than the plan knew.
func (c *Copy) explained(s *setState, entries []sitemap.Entry, before int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(s.Transit) <= before {
		return
	}
	deleted := map[string]bool{}
	for i := range entries {
		deleted[entries[i].Loc] = entries[i].Change == sitemap.Deleted
	}
	kept := slices.DeleteFunc(slices.Clone(s.Transit[before:]), func(t transit) bool { return deleted[t.Entry.Loc] })
	s.Transit = append(s.Transit[:before], kept...)
}

// deleteAll makes the deletions of a batch, after all else in it, or holds them if
// resources of the batch came into transit: those after before.
func (c *Copy) deleteAll(ctx context.Context, s *setState, entries []sitemap.Entry, deletions []int, before int, made []bool) error {
	c.mu.Lock()
	var h held
	for _, t := range s.Transit[before:] {
		h.After = append(h.After, t.Entry.Loc)
	}
	c.mu.Unlock()
	if len(h.After) == 0 || c.o.DryRun {
		w := c.newWorkers(ctx, s, nil)
		for _, i := range deletions {
			if !w.addTask(task{entry: entries[i], made: &made[i]}) {
				break
			}
		}
		if err := w.wait(); err != nil {
			return err
		}
		return c.letGo(ctx, s)
	}
	for _, i := range deletions {
		h.Entries, made[i] = append(h.Entries, entries[i]), true
	}
	c.mu.Lock()
	s.Held = append(s.Held, h)
	c.mu.Unlock()
	return c.letGo(ctx, s)
}

// letGo makes held deletions that wait for nothing any more.
func (c *Copy) letGo(ctx context.Context, s *setState) error {
	c.mu.Lock()
	waiting := map[string]bool{}
	for _, t := range s.Transit {
		waiting[t.Entry.Loc] = true
	}
	var due []sitemap.Entry
	var stay []held
	for _, h := range s.Held {
		if slices.ContainsFunc(h.After, func(uri string) bool { return waiting[uri] }) {
			stay = append(stay, h)
		} else {
			due = append(due, h.Entries...)
		}
	}
	c.mu.Unlock()
	if len(due) > 0 {
		w := c.newWorkers(ctx, s, nil)
		for i := range due {
			if !w.add(due[i]) {
				break
			}
		}
		if err := w.wait(); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Held = stay
	return nil
}

// retry asks again for resources in transit. Until all were asked for they stay in the
// state, which may be written at any time.
func (c *Copy) retry(ctx context.Context, s *setState) error {
	c.mu.Lock()
	waiting := slices.Clip(s.Transit)
	c.mu.Unlock()
	w := c.newWorkers(ctx, s, nil)
	for _, t := range waiting {
		if !w.add(t.Entry) {
			break
		}
	}
	err := w.wait()
	c.mu.Lock()
	if err != nil {
		s.Transit = waiting
	} else {
		s.Transit = s.Transit[len(waiting):]
	}
	c.mu.Unlock()
	if err != nil {
		return err
	}
	return c.letGo(ctx, s)
}
