package publisher

import (
	"cutie/publisher/names"
	"cutie/publisher/store"
	"cutie/sitemap"
	"fmt"
	"strings"
)

// Settings of a Source.
type (
	Options   = names.Options
	Retention = names.Retention
	Terms     = names.Terms
)

// Published returns the settings a home was last published with; the caller adds
// Now and Report. If their file is damaged or absent, base URI and version come
// from the cursor, and the others are zero. BaseURI is empty if nothing is
// published yet. After an error New must not be called with a guess: with
// other settings it would begin all lists anew.
func Published(home string) (Options, error) {
	o, err := readPublished(home)
	if err != nil {
		return Options{}, fmt.Errorf("publisher: %w", err)
	}
	return o, nil
}

func readPublished(home string) (o Options, err error) {
	err = store.Settings(home, func(text []byte) (err error) {
		o, err = names.ParseSettings(text)
		return err
	}, func(stamp string) (err error) {
		var version string
		var older bool
		if o.BaseURI, version, older = strings.Cut(stamp, " "); older {
			o.Dialect, err = sitemap.ParseDialect(version)
		}
		return err
	})
	return o, err
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
	was, err := readPublished(home)
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
func openStore(home string, o *names.Complete) (*store.Store, error) {
	return store.Open(home, store.Options{Stamp: o.Stamp(), Settings: o.Settings(o.Terms()), Fault: o.Fault, Report: o.Reportf,
		Check: func(text []byte) error { _, err := names.ParseSettings(text); return err }})
}
