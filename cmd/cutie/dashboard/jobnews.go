package dashboard

import (
	"strings"

	"cutie/queuefs"
	"cutie/queuefs/state"
)

// jobNews says on the page of a job how the job differs from it. The page itself stays: its
// reader may be in a form.
type jobNews struct{ Text, Ref string }

// JobParts are the parts of the page of a job that change. The page was made after the event
// seen; j is nil for a job gone since.
func JobParts(base state.Base, j *queuefs.Job, seen queuefs.Seq) []Part {
	n := jobNews{}
	switch {
	case j == nil:
		n.Text = "The job is gone: a cull took it away, or its queue is removed."
	case j.Seq > seen:
		d := state.OfJob(base, j)
		n = jobNews{"The job has changed since. Now it is " + strings.Join(badges(&d), ", ") + ".", state.XHTML.Ask(d.Subject)}
	}
	return []Part{newPart("news", "job news", n)}
}
