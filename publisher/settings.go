package publisher

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"cutie/publisher/names"
	"cutie/publisher/set"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/sitemap"
)

// Settings of a Source.
type (
	Options   = names.Options
	Retention = names.Retention
	Terms     = names.Terms
)

// Published returns the settings a home was last published with; the caller adds
// Now and Report. BaseURI is empty if nothing is published yet. After an error New must
// not be called with a guess: with other settings it would begin all lists anew.
func Published(home string) (o Options, err error) {
	text, err := set.Settings(home)
	if err == nil && text != nil {
		if o, err = names.ParseSettings(text); err != nil {
			err = fmt.Errorf("%s/%s: %w", Dir, set.SettingsFile, err)
		}
	}
	if err != nil {
		return Options{}, fmt.Errorf("publisher: %w", err)
	}
	return o, nil
}

// A Change is a base URI or a version of ResourceSync other than in the last run.
// Every Destination has to begin anew after it.
type Change struct {
	FromBase, ToBase       string // without a slash at the end
	FromVersion, ToVersion sitemap.Dialect
}

// Changed reports whether a home was last published with another base URI or
// version than o has. Nothing is a change of nothing: if nothing was published, or
// the settings cannot be read, it returns false.
func Changed(home string, o Options) (Change, bool) {
	was, err := Published(home)
	if err != nil || was.BaseURI == "" {
		return Change{}, false
	}
	before, err := was.Complete()
	if err != nil {
		return Change{}, false
	}
	now, err := o.Complete()
	c := Change{string(before.Base), string(now.Base), before.Dialect, now.Dialect}
	return c, err == nil && (before.Base != now.Base || before.Dialect != now.Dialect)
}

// A ChangeError is a [Change] without Options.Anew.
type ChangeError struct{ Change }

func (e *ChangeError) Error() string { return e.Change.String() + ": every mirror would begin anew" }

func (c Change) String() string {
	return fmt.Sprintf("published as %s/ in version %v, now %s/ in version %v", c.FromBase, c.FromVersion, c.ToBase, c.ToVersion)
}

// openStore opens the files of a home, and writes the settings into them.
func openStore(home string, o *names.Complete) (*set.Store, error) {
	return set.OpenStore(home, set.StoreOptions{Stamp: o.Stamp(), Settings: o.Settings(o.Terms()), Fault: o.Fault, Report: o.Reportf,
		Check: func(text []byte) error { _, err := names.ParseSettings(text); return err }})
}

// The rule for another base URI or version, in both directions and whatever lists
// there are: the history begins anew after the last event. Former documents are moved
// to resourcesync/cutie-former, where nobody reads them, until the next change.
// A document of the old history would name resources by references, or in a form,
// that this Source no longer has.

// begin begins the history anew in a store.
func (p *Publisher) begin() error {
	var lines []set.Lines
	for _, q := range p.svc.queues() {
		lines = append(lines, set.LinesOf(linesNow(q)))
	}
	return p.src.Store.Anew(lines)
}

// hasEvents reports whether there is anything to publish.
func (e *engine) hasEvents() bool {
	for _, q := range e.queues() {
		if q.Seq() > 0 {
			return true
		}
	}
	return false
}

// Rebuild makes everything published anew. It moves resourcesync in the home to a free name
// beside it and returns the new name, "" if there was none. [New] then makes the Change Lists
// from the journal, if it has all events of a queue; else they begin with the next event. There
// must be no [Publisher] of the home.
func Rebuild[Q Queue](svc Service[Q], o Options) (aside string, err error) {
	if aside, err = set.Clear(svc.Dir(), o.Fault); err != nil {
		err = fmt.Errorf("publisher: %w", err)
	}
	return aside, err
}

// Dir is the directory of everything published in a home.
const Dir = names.RootName

// Check reads all files published of the home in dir, which nobody else may have open, with
// the digests that the home has of them: lists, packages, Resource Dumps, settings and the
// cursor. It changes nothing. New makes damaged files again, or sets them aside.
func Check(dir string) (problems []durable.Finding) {
	bad := func(path string, err error) {
		text := strings.TrimPrefix(durable.Bare(err).Error(), filepath.Join(dir, path))
		text = strings.TrimLeft(text, ": ")
		gone := errors.Is(err, fs.ErrNotExist)
		if gone {
			text = "is missing"
		}
		problems = append(problems, durable.Damage(path, text, !gone && (!set.Unusable(err) || errors.Is(err, fs.ErrPermission))))
	}
	stamp := ""
	if o, err := Published(dir); err == nil && o.BaseURI != "" { // else Check says what is wrong
		if c, err := o.Complete(); err == nil {
			stamp = c.Stamp()
		}
	}
	set.CheckFiles(dir, stamp, func(queue string) bool {
		st, err := os.Lstat(filepath.Join(dir, home.QueuesDir, queue))
		return err == nil && st.IsDir()
	}, bad)
	return problems
}
