package record

import (
	"encoding/binary"
	"fmt"
)

// A HomeChange is a change of a home beside its jobs, in a journal that has the whole
// home. Records of jobs never begin as it does.
//
//	0xff | kind | length of queue u16 | time µs i64 | queue | text
type HomeChange struct {
	Kind  HomeKind
	Queue string // "" for one of the service
	Time  int64  // µs; modification of the file with the text, or 0
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

const (
	homeMark = 0xff
	homeHead = 12
)

// Bytes returns the record.
func (c *HomeChange) Bytes() []byte {
	b := append(make([]byte, 0, homeHead+len(c.Queue)+len(c.Text)), homeMark, byte(c.Kind))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(c.Queue)))
	b = binary.LittleEndian.AppendUint64(b, uint64(c.Time))
	return append(append(b, c.Queue...), c.Text...)
}

// ParseHomeChange reads a record, and reports whether it is one of a home.
func ParseHomeChange(src []byte) (c HomeChange, is bool, err error) {
	if len(src) == 0 || src[0] != homeMark {
		return c, false, nil
	}
	if len(src) < homeHead {
		return c, true, ErrForm
	}
	c.Kind = HomeKind(src[1])
	n := int(binary.LittleEndian.Uint16(src[2:]))
	if c.Kind == 0 || c.Kind >= homeKinds || len(src) < homeHead+n {
		return c, true, fmt.Errorf("%w: change of a home", ErrForm)
	}
	c.Time = int64(binary.LittleEndian.Uint64(src[4:]))
	src = src[homeHead:]
	c.Queue, c.Text = string(src[:n]), string(src[n:])
	return c, true, nil
}
