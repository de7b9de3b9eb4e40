package callback

import (
	"encoding/json"

	"cutie/queuefs"
	"cutie/queuefs/state"
)

// A phaseData is what a receiver is told of a phase: the data of its event
// among the server-sent ones.
type phaseData struct {
	Queue string      `json:"queue"`
	Seq   queuefs.Seq `json:"seq"`
	Time  string      `json:"time"`
	Kind  string      `json:"kind"`
	Job   string      `json:"job"`
	Phase string      `json:"phase,omitempty"` // absent: the job is gone
	State string      `json:"state,omitempty"` // where the job is; absent when it is gone
}

// phaseBody returns what is told of a phase, which is that of the event: what
// the job is by now the queue does not know.
func phaseBody(base state.Base, queue string, c change) ([]byte, error) {
	d := phaseData{Queue: queue, Seq: c.seq, Time: queuefs.FormatTime(c.at), Kind: c.kind.String(), Job: c.about.subject, Phase: c.phase}
	if c.phase != "" {
		d.State = base.Ref("uws", queue, "async", c.about.subject)
	}
	return json.Marshal(d)
}
