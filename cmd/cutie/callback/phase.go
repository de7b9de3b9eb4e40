package callback

import (
	"encoding/json"

	"cutie/queuefs"
	"cutie/queuefs/state"
)

// A phaseData is the body of a phase, the same as in a server-sent event.
type phaseData struct {
	Queue string      `json:"queue"`
	Seq   queuefs.Seq `json:"seq"`
	Time  string      `json:"time"`
	Kind  string      `json:"kind"`
	Job   string      `json:"job"`
	Phase string      `json:"phase,omitempty"` // absent: the job is gone
	State string      `json:"state,omitempty"` // where the job is; absent when it is gone
}

// phaseBody returns the body of a phase, as of its event: the queue does not
// know the present phase.
func phaseBody(base state.Base, queue string, c change) ([]byte, error) {
	d := phaseData{Queue: queue, Seq: c.seq, Time: queuefs.FormatTime(c.at), Kind: c.kind.String(), Job: c.about.subject, Phase: c.phase}
	if c.phase != "" {
		d.State = base.Ref("uws", queue, "async", c.about.subject)
	}
	return json.Marshal(d)
}
