package daemon

import (
	"errors"
	"net/http"

	"cutie/cmd/cutie/access"
	"cutie/publisher/rdm"
	"cutie/queuefs/rest"
)

// messages answers resource description messages. What one needs depends on
// what it says, so the gate is asked by the handler.
func (d *daemon) messages() http.Handler {
	rights := map[rdm.Right]access.Right{rdm.Read: access.Read, rdm.Submit: access.Submit, rdm.Consume: access.Consume, rdm.Delete: access.Delete}
	return rdm.New(d.svc, rdm.Options{
		Log:     d.failed,
		User:    rest.UserOf,
		MaxBody: min(d.Limits.Body, maxMessage),
		Allow: func(header http.Header, r *http.Request, right rdm.Right, queue string) error {
			err := d.gate.Require(header, r, rights[right], queue)
			if refused := (*rest.Error)(nil); errors.As(err, &refused) {
				return &rdm.Error{Status: refused.Status, Message: refused.Message}
			}
			return err
		},
	})
}

// maxMessage is how many octets one message may have.
const maxMessage = 1 << 30
