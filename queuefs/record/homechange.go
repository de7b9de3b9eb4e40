package record

import (
	"encoding/binary"
	"fmt"
)

// A HomeChange is a change of a home beside its jobs, in a journal that has the whole
// home. Records of jobs never begin as it does.
//
//	0xff | kind | length of queue u16 | queue | text
type HomeChange struct {
	Kind  HomeKind
	Queue string // "" for one of the service
	Text  string
}

// A HomeKind is the kind of a [HomeChange].
type HomeKind byte

const (
	QueueMade   HomeKind = 1 + iota // Text is queue-info.txt
	QueueInfo                       // likewise; of a file too large for the record of its event
	QueueGone                       // the queue is no more
	CallbackURL                     // Text is the URL for callbacks
	ServiceInfo                     // Text is cutie-info.txt
	homeKinds
)

const homeMark = 0xff

// Bytes returns the record.
func (c *HomeChange) Bytes() []byte {
	b := append(make([]byte, 0, 4+len(c.Queue)+len(c.Text)), homeMark, byte(c.Kind))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(c.Queue)))
	return append(append(b, c.Queue...), c.Text...)
}

// ParseHomeChange reads a record, and reports whether it is one of a home.
func ParseHomeChange(src []byte) (c HomeChange, is bool, err error) {
	if len(src) == 0 || src[0] != homeMark {
		return c, false, nil
	}
	if len(src) < 4 {
		return c, true, ErrForm
	}
	c.Kind = HomeKind(src[1])
	n := int(binary.LittleEndian.Uint16(src[2:]))
	if c.Kind == 0 || c.Kind >= homeKinds || len(src) < 4+n {
		return c, true, fmt.Errorf("%w: change of a home", ErrForm)
	}
	c.Queue, c.Text = string(src[4:4+n]), string(src[4+n:])
	return c, true, nil
}
