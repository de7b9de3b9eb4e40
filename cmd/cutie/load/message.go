package load

import (
	"io"
	"net"
)

// copyLimit is the size up to which a payload is copied into the message that
// carries it; a larger one is written from where it stands.
const copyLimit = 16 << 10

// Message is a request on its way out: short texts and payloads, sent with one
// system call where possible. It keeps its memory from one use to the next.
type Message struct {
	text  []byte // everything that is copied
	mark  int    // text from here on is in no part yet
	parts [][]byte
	out   net.Buffers // parts, used up by writing them
}

// Reset empties the message.
func (m *Message) Reset() {
	m.text, m.mark, m.parts = m.text[:0], 0, m.parts[:0]
}

// Add appends a text.
func (m *Message) Add(text ...[]byte) {
	for _, t := range text {
		m.text = append(m.text, t...)
	}
}

// AddJob appends the next payload of s.
func (m *Message) AddJob(s *Source) {
	stamp, rest := s.next()
	if s.p.size < stampSize {
		// The counter ends at octet 24, and its last octets change most.
		m.text = append(m.text, stamp[max(24-s.p.size, 0):][:s.p.size]...)
		return
	}
	m.text = append(m.text, stamp[:]...)
	if len(rest) <= copyLimit {
		m.text = append(m.text, rest...)
		return
	}
	m.parts = append(m.parts, m.text[m.mark:], rest)
	m.mark = len(m.text)
}

// Len returns how many octets the message has.
func (m *Message) Len() int {
	n := len(m.text) - m.mark
	for _, p := range m.parts {
		n += len(p)
	}
	return n
}

// WriteTo sends the message.
func (m *Message) WriteTo(w io.Writer) (int64, error) {
	if len(m.parts) == 0 {
		n, err := w.Write(m.text)
		return int64(n), err
	}
	m.out = append(append(m.out[:0], m.parts...), m.text[m.mark:])
	out := m.out // WriteTo moves the slice on; its memory stays ours
	return out.WriteTo(w)
}
