package daemon

import (
	"cutie/publisher/rdm"
	"cutie/queuefs/quota"
	"cutie/queuefs/rest"
)

// messages answers resource description messages. Their rights depend on their
// text, so the handler asks the gate.
func (d *daemon) messages(counts *quota.Keeper) room {
	return rdm.New(d.svc, rdm.Options{
		Log:     d.failed,
		User:    rest.UserOf,
		Quota:   counts,
		MaxBody: min(d.Limits.Body, maxMessage),
		Allow:   d.gate.Require,
	})
}

// maxMessage is how many octets one message may have.
const maxMessage = 1 << 30
