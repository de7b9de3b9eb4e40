package properties

import (
	"crypto/sha256"

	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
)

// Check tells of a damaged or edited queue-info.txt. Repairing sets a damaged one aside
// and writes the properties in force. mended says that the problem is none any more;
// found is nil without one. closed says that the home was closed in order: after a crash a
// file without its event may be that of a change on its way, which the next opening takes in.
func (p *Queue) Check(repair, closed bool) (found *home.Problem, mended bool, err error) {
	hold, path := p.Ledger.Settings(), home.QueueInfoPath(p.Ledger.ID())
	bad := hold.Bad
	edited := false
	p.Ledger.Look(func(x *index.Index) { edited = x.Info != [sha256.Size]byte{} && x.Info != hold.SHA256 })
	switch {
	case bad == "" && edited && closed:
		return &home.Problem{Path: path, Text: "edited by other hands, and not taken in yet"}, false, nil
	case bad == "":
		return nil, false, nil
	case !repair || hold.Unread != nil:
		p := durable.Damage(path, bad, hold.Unread != nil)
		return &p, false, nil
	}
	to, err := p.File.SetAside()
	if err != nil {
		return nil, false, err
	}
	if to == "" {
		bad += "; written again"
	} else {
		bad += "; moved to " + to + ", and written again"
	}
	written, err := p.File.Replace(hold.Text)
	if err != nil {
		return nil, false, err
	}
	if err := p.Take(p.Of(written)); err != nil {
		return nil, false, err
	}
	return &home.Problem{Path: path, Text: bad}, true, nil
}
