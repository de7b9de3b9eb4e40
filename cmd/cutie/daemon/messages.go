package daemon

import (
	"cutie/publisher/rdm"
	"cutie/queuefs/rest"
)

// messages answers resource description messages. What one needs depends on
// what it says, so the gate is asked by the handler.
func (d *daemon) messages() room {
	return rdm.New(d.svc, rdm.Options{
		Log:     d.failed,
		User:    rest.UserOf,
		MaxBody: min(d.Limits.Body, maxMessage),
		Allow:   d.gate.Require,
	})
}

// maxMessage is how many octets one message may have.
const maxMessage = 1 << 30
