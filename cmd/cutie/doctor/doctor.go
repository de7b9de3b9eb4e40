// Package doctor looks at the home of a daemon and around it: disk, clock, limits,
// certificate, the way its references lead, and the figures of the daemon. Each
// fault comes with its cure. It changes nothing, and takes seconds whatever the size of
// the home; package check reads all files.
package doctor

import (
	"context"
	"fmt"
	"time"

	"cutie/cmd/cutie/reach"
)

// A Level is how bad a finding is.
type Level string

const (
	OK      Level = "ok"
	Warning Level = "warning" // works, and may not for long, or not as expected
	Fault   Level = "fault"
)

// A Finding is the result of one look.
type Finding struct {
	Level Level
	About string // settings, home, disk, clock, limits, certificate, references, daemon, publishing, mirrors, store
	Text  string
	Cure  string // "" if all is well
}

// A Patient is a home, with the settings of its daemon.
type Patient struct {
	Home        string
	BaseURI     string // where references lead, with a slash at its end; "" for the one in the home
	Certificate string // PEM files; "" without TLS
	Key         string
	Conns       int           // connections asked for
	Memory      int64         // bytes for requests
	Audit       time.Duration // between audits of a mirror; 0: none
	Mirrors     []string      // URLs of the Sources it mirrors
	Readable    []string      // files of settings for the daemon to read; "" for none
	Finder      *reach.Finder // finds the daemon
	Now         time.Time
}

// Examine looks at everything, first at faults with others as a consequence.
func (p Patient) Examine(ctx context.Context) []Finding {
	e := &examination{Patient: p}
	if !e.home(ctx) {
		return e.findings
	}
	if e.daemon != nil {
		defer e.daemon.Close()
	}
	e.disk()
	e.clock()
	e.limits()
	e.references(ctx)
	e.certificate()
	e.sources(ctx)
	e.alive(ctx)
	e.shared(ctx)
	return e.findings
}

// An examination collects findings.
type examination struct {
	Patient
	findings []Finding
	daemon   *reach.Target // nil if none runs
	pid      int           // of the daemon, or of this process
}

func (e *examination) add(l Level, about, cure, format string, a ...any) {
	e.findings = append(e.findings, Finding{l, about, fmt.Sprintf(format, a...), cure})
}

func (e *examination) ok(about, format string, a ...any) { e.add(OK, about, "", format, a...) }

func (e *examination) warn(about, cure, format string, a ...any) {
	e.add(Warning, about, cure, format, a...)
}

func (e *examination) fault(about, cure, format string, a ...any) {
	e.add(Fault, about, cure, format, a...)
}
