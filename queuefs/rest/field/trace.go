package field

import (
	"net/textproto"

	"cutie/queuefs/job"
)

// Fields of W3C Trace Context, in submissions and in answers to consumers.
const (
	TraceParent = "Traceparent"
	TraceState  = "Tracestate"
)

// Trace puts the trace in a header into the description of a job. As that specification
// asks, malformed fields count as none.
func Trace(m *job.Meta, header textproto.MIMEHeader) {
	if parents := header[TraceParent]; len(parents) == 1 {
		states := ""
		for i, s := range header[TraceState] {
			if i > 0 {
				states += ","
			}
			states += s
		}
		if r := job.TraceElements(parents[0], states); r != nil {
			m.Extra = r
		}
	}
}
