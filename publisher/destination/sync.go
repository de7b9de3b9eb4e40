package destination

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"time"

	"cutie/publisher/destination/local"
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
	r := &Report{Source: c.source.Base, DryRun: c.o.DryRun, Sets: []SetReport{}}
	skipped := c.counts.Skipped.Load()
	c.newSkips()
	c.listed = map[uint64]uint64{}
	err := c.syncSets(ctx, r, false)
	if errors.Is(err, source.ErrGap) {
		c.o.Tell(fmt.Sprintf("%v; the copy begins anew, with the files it has", err))
		c.state.Gap = true
		err = c.syncSets(ctx, r, true)
	}
	r.Skipped = c.counts.Skipped.Load() - skipped
	if err == nil && c.allListed && c.whole() {
		r.Extra, err = c.extras(r.Skipped > 0)
	}
	if err == nil && r.Skipped == 0 && (c.allListed || !c.whole()) {
		c.state.Gap = false
	}
	if e := c.end(err == nil); err == nil || e != nil {
		err = errors.Join(err, e)
	}
	n := &c.counts
	r.Fetched, r.Same, r.Deleted, r.Refused, r.Failed = n.Fetched.Load(), n.Same.Load(), n.Deleted.Load(), n.Refused.Load(), n.Failed.Load()
	r.Requests, r.Octets = c.client.Counts()
	r.Seconds = time.Since(began).Round(time.Millisecond).Seconds()
	return r, err
}

// syncSets brings all sets up to the Source. A set that cannot be is passed over, unless it is
// the only one, or has a gap in its changes for the first time.
func (c *Copy) syncSets(ctx context.Context, report *Report, again bool) error {
	report.Sets = report.Sets[:0]
	c.counts.Failed.Store(0)
	if err := c.begin(); err != nil {
		return err
	}
	if err := c.dropSets(ctx); err != nil {
		return err
	}
	bad := 0
	for _, set := range c.sets {
		r, err := c.syncSet(ctx, set)
		if err != nil {
			bad++
			if bad == len(c.sets) || ctx.Err() != nil || fatal(err) || errors.Is(err, source.ErrGap) && !again {
				return fmt.Errorf("set %s: %w", set.Name, err)
			}
			c.skipSet(set, err)
			r.Name, r.Error = set.Name, err.Error()
		}
		report.Sets = append(report.Sets, r)
	}
	return nil
}

// begin notes the begin of writing files. After a crash of the system files are
// compared by their digests.
func (c *Copy) begin() error {
	for _, set := range c.sets {
		if s := c.of(set); c.o.Again || c.state.Gap || s.Partial {
			s.anew()
		}
	}
	c.o.Again = false
	c.newPass()
	c.allListed, c.firstPass = true, c.pass
	for _, set := range c.sets {
		s := c.of(set)
		if c.state.Gap && c.whole() {
			s.Began = time.Time{} // no change has to tell deletions: files in no list go
		}
		if s.History == nil && s.Baseline && s.Cursor.Seq > 0 && set.IsQueue() && c.remembers() {
			s.History = newHistory(c.source.Base, s.Cursor.Time)
		}
		if s.Baseline && set.Documents[sitemap.ChangeList] != "" {
			c.allListed = false
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
	if err := c.dir.Sweep(local.Unfinished, nil); err != nil {
		return err
	}
	c.state.Boot = boot
	return c.note()
}

func (c *Copy) end(whole bool) error {
	if c.o.DryRun {
		return nil
	}
	if whole {
		c.state.Boot = ""
		if c.counts.Failed.Load() == 0 {
			if err := c.dir.Sweep(local.Parts, nil); err != nil {
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

// list notes the resource of a task, and whether this run had it before. twice: in this pass.
func (c *Copy) list(t *task) (twice bool) {
	if c.listed == nil {
		return false
	}
	key, err := c.dir.Path(t.entry.Loc)
	if t.file = key; err != nil {
		key = t.entry.Loc // it is refused, and counts once, too
	}
	h := maphash.String(seed, key)
	pass, again := c.listed[h]
	c.listed[h] = c.pass
	t.again = again
	return again && pass == c.pass
}

// newPass begins to list the resources of a list or a package.
func (c *Copy) newPass() {
	if c.listed != nil {
		c.pass++
	}
}

// extras counts files without an entry in a list, and removes them if it is to. After a
// gap they may be resources whose deletion no list tells any more. All stay if something was
// skipped, which may stand for them.
func (c *Copy) extras(skipped bool) (n int64, err error) {
	var extra []string
	err = c.dir.Walk(".", func(file string) error {
		if c.listed[maphash.String(seed, plainPath(file))] < c.firstPass {
			extra = append(extra, file)
		}
		return nil
	})
	if err != nil || skipped || c.o.Delete != DeleteAll && (c.o.Delete != DeleteTold || !c.state.Gap) {
		return int64(len(extra)), err
	}
	return 0, c.removeAll(extra...)
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
	listThenChanges := func() error {
		r.By = ByList
		if err := c.baselineBy(ctx, set, s, ByList); err != nil {
			return err
		}
		return c.catchUp(ctx, set, s)
	}
	switch plain := set.Documents[sitemap.ChangeList] == ""; {
	case r.Baseline && (plain || c.o.DryRun): // nothing was made, so no change follows
	case plain:
		err = c.baselineBy(ctx, set, s, ByList)
	default:
		err = c.catchUp(ctx, set, s)
	}
	var late *source.LateError
	if errors.As(err, &late) {
		// Changes were listed late: all of them are applied again from the oldest one on, after
		// whole lists were compared. Without a Resource List these changes are all there is.
		c.o.Tell(fmt.Sprintf("set %s: %v; whole lists are compared", set.Name, late))
		if set.Documents[sitemap.ResourceList] == "" {
			s.Cursor = source.Cursor{Time: late.Time}
			err = c.catchUp(ctx, set, s)
		} else {
			s.anew()
			s.Began, r.Baseline = late.Time, true
			err = listThenChanges()
		}
	}
	wrong := err == nil && len(s.Transit) > 0 && c.o.Settle >= 0 && !c.o.DryRun
	if (wrong || errors.Is(err, source.ErrGap)) && r.By == ByDump {
		// The packages are too old, or a manifest is wrong; the Resource List is true now.
		if wrong {
			s.anew()
		}
		err = listThenChanges()
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
	if c.o.Settle >= 0 { // else Explain tells
		for _, t := range s.Transit {
			c.o.Tell(fmt.Sprintf("%s: %s, and no change explains it", t.Entry.Loc, t.Why))
		}
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
	s.Cursor, s.Partial = source.Cursor{Time: from}, true
	return c.catchUp(ctx, set, s)
}

// baseline copies all resources of a set (Z39.99-2017, 5.2).
func (c *Copy) baseline(ctx context.Context, set *source.Set, s *setState) (By, error) {
	by := c.o.By
	listed, dumped := set.Documents[sitemap.ResourceList] != "", set.Documents[sitemap.ResourceDump] != ""
	if by == ByBest {
		empty := false
		if listed && dumped && !c.filtered() {
			var err error
			if empty, err = c.dir.Empty(); err != nil {
				return by, err
			}
		}
		if by = ByList; dumped && (!listed || empty || len(s.Packages) > 0) {
			by = ByDump
		}
	}
	err := c.baselineBy(ctx, set, s, by)
	// A package is gone once another one has taken its place, and at another daemon of the
	// same Source behind one name. One that is there may be broken.
	if by == ByDump && c.o.By == ByBest && err != nil && ctx.Err() == nil && !fatal(err) && !source.Passes(err) && listed {
		if !errors.Is(err, errNoPackages) && !source.IsGone(err) {
			c.o.Tell(fmt.Sprintf("set %s: the Resource List is used, for a package cannot be: %v", set.Name, err))
		}
		s.Packages = nil
		by, err = ByList, c.baselineBy(ctx, set, s, ByList)
	}
	return by, err
}

func (c *Copy) baselineBy(ctx context.Context, set *source.Set, s *setState, by By) error {
	var at time.Time
	var err error
	c.newPass()
	skipped := c.counts.Skipped.Load()
	if len(s.Packages) == 0 {
		c.mu.Lock()
		s.Transit, s.Held = nil, nil // the lists name them again
		c.mu.Unlock()
	}
	switch by {
	case ByDump:
		at, err = c.byDump(ctx, set, s)
	case ByList:
		w := c.makers(ctx, s, nil)
		at, err = set.Resources(w.ctx, func(e *sitemap.Entry, at time.Time) error {
			if err := c.began(s, at); err != nil {
				return err
			}
			if !w.addListed(e) {
				return context.Cause(w.ctx)
			}
			return nil
		})
		if e := w.wait(); err == nil || e != nil {
			err = e
		}
	default:
		err = fmt.Errorf("baseline by %q: list, or dump", by)
	}
	if err == nil {
		at, err = listTime(ctx, set, at)
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	if !s.Began.IsZero() && s.Began.Before(at) {
		at = s.Began
	}
	s.Cursor = source.Cursor{Time: at}
	s.Baseline, s.Packages, s.Began = true, nil, time.Time{}
	s.Partial = c.counts.Skipped.Load() > skipped
	c.mu.Unlock()
	if err := c.beginHistory(ctx, set, s); err != nil {
		return err
	}
	return c.save()
}

var errNoPackages = errors.New("the Resource Dump names no packages")

// byDump copies the resources of a set from the packages of its Resource Dump, and returns
// the time of their truth.
func (c *Copy) byDump(ctx context.Context, set *source.Set, s *setState) (at time.Time, err error) {
	packages, at, err := set.Packages(ctx)
	if err == nil && len(packages) == 0 {
		err = errNoPackages
	}
	if err == nil {
		err = c.began(s, at)
	}
	if err != nil {
		return at, err
	}
	for i := range packages {
		c.counts.Total.Add(max(packages[i].Length, 0))
	}
	for i := range packages {
		p := &packages[i]
		if s.unpacked(p) { // in a former run: what it lists is not known any more
			c.allListed = false
			c.counts.Held.Add(max(p.Length, 0))
		} else if err := c.unpack(ctx, s, p, sitemap.ResourceDumpManifest, nil); err != nil {
			return at, fmt.Errorf("%s: %w", p.Loc, err)
		}
	}
	return at, nil
}

// allLists is more Change Lists than a set has.
const allLists = 1 << 20

// listTime returns the time at which a list of resources is true, or where it gives none, that
// of the first change listed: to apply changes from before a list again does no harm.
func listTime(ctx context.Context, set *source.Set, at time.Time) (time.Time, error) {
	if !at.IsZero() || set.Documents[sitemap.ChangeList] == "" {
		return at, nil
	}
	return set.Reach(ctx, allLists)
}

// anew begins a set anew. The changes since the former cursor are applied after the
// baseline: they tell deletions.
func (s *setState) anew() {
	began := s.Began
	if s.Baseline {
		began = s.Cursor.Time
	}
	*s = setState{URI: s.URI, Began: began, Synced: s.Synced}
}

// began notes the time of the first lists of a baseline, before it makes a file. If
// the baseline is cut off and made of later lists, the changes between them are applied,
// too: files made before may have been deleted since.
func (c *Copy) began(s *setState, at time.Time) error {
	c.mu.Lock()
	known := c.o.DryRun || s.Baseline || at.IsZero() || !s.Began.IsZero()
	if !known {
		s.Began = at
	}
	c.mu.Unlock()
	if known {
		return nil
	}
	return c.note()
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
