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
	"cutie/queuefs/durable"
)

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
func (p Patient) Examine(ctx context.Context) []durable.Finding {
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

// An examination collects findings. Their paths are settings, home, disk, clock, limits,
// certificate, references, daemon, publishing, push, mirrors and store.
type examination struct {
	Patient
	findings []durable.Finding
	daemon   *reach.Target // nil if none runs
	pid      int           // of the daemon, or of this process
}

func (e *examination) add(l durable.Level, about, cure, format string, a ...any) {
	e.findings = append(e.findings, durable.Finding{Level: l, Path: about, Text: fmt.Sprintf(format, a...), Cure: cure})
}

func (e *examination) ok(about, format string, a ...any) {
	e.add(durable.Fine, about, "", format, a...)
}

func (e *examination) warn(about, cure, format string, a ...any) {
	e.add(durable.Warning, about, cure, format, a...)
}

func (e *examination) fault(about, cure, format string, a ...any) {
	e.add(durable.Faulty, about, cure, format, a...)
}
