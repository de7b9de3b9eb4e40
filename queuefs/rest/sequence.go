package rest

import (
	"bytes"
	"io"
	"time"

	"cutie/queuefs/state"
)

// A sequence writes the states of jobs as one document of a form:
//
//	ANVL    records, separated by empty lines
//	JSON    an array with a state on each line
//	XML     the element job:jobStates around the states
//	Turtle  one graph, with a subject for each state
//	XHTML   a table for people, with a row for each job
//
// In any other form the states follow each other directly.
type sequence struct {
	out  io.Writer
	form state.Form

	pages Pages // for people
	base  state.Base
	queue string
	next  string // reference of the next page, "" at the end
	now   time.Time

	n    int
	buf  []byte
	head []byte // of every state in Turtle
	sent bool   // something has been written
}

// sequenceBuffer is how many octets of states are gathered before they are
// written.
const sequenceBuffer = 32 << 10

func (s *sequence) begin() {
	switch s.form {
	case state.JSON:
		s.buf = append(s.buf, '[')
	case state.XML:
		c := state.JobClass
		s.buf = append(s.buf, xmlDeclaration+"<"+c.Prefix+":"+c.List+" xmlns:"+c.Prefix+`="`+c.Namespace+"\">\n"...)
	case state.XHTML, state.HTML:
		s.buf = s.pages.JobsTop(s.buf, s.base, s.queue)
	}
}

const xmlDeclaration = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"

// add writes a state of the class of jobs.
func (s *sequence) add(d *state.Document) error {
	from := len(s.buf)
	switch s.form {
	case state.ANVL:
		if s.n > 0 {
			s.buf = append(s.buf, '\n')
		}
		s.buf = s.form.Append(s.buf, d)
	case state.JSON:
		if s.n > 0 {
			s.buf = append(s.buf, ',')
		}
		s.buf = s.form.Append(append(s.buf, '\n'), d)
		s.buf = bytes.TrimSuffix(s.buf, []byte("\n"))
	case state.XML:
		s.buf = s.form.Append(s.buf, d)
		s.buf = without(s.buf, from, []byte(xmlDeclaration))
	case state.Turtle:
		s.buf = s.form.Append(s.buf, d)
		if s.n == 0 {
			// Their common beginning is written once.
			if i := bytes.Index(s.buf, []byte("\n\n")); i >= 0 {
				s.head = bytes.Clone(s.buf[:i+1])
			}
		} else {
			s.buf = without(s.buf, from, s.head)
		}
	case state.XHTML, state.HTML:
		s.buf = s.pages.Job(s.buf, d, s.now)
	default:
		s.buf = s.form.Append(s.buf, d)
	}
	s.n++
	if len(s.buf) < sequenceBuffer {
		return nil
	}
	return s.flush()
}

func (s *sequence) end() error {
	switch s.form {
	case state.JSON:
		s.buf = append(s.buf, "\n]\n"...)
	case state.XML:
		s.buf = append(s.buf, "</"+state.JobClass.Prefix+":"+state.JobClass.List+">\n"...)
	case state.XHTML, state.HTML:
		s.buf = s.pages.JobsEnd(s.buf, s.next)
	}
	return s.flush()
}

func (s *sequence) flush() error {
	s.sent = true
	_, err := s.out.Write(s.buf)
	s.buf = s.buf[:0]
	return err
}

// without removes text from the beginning of buf[from:], if it is there.
func without(buf []byte, from int, text []byte) []byte {
	if rest, ok := bytes.CutPrefix(buf[from:], text); ok {
		return append(buf[:from], rest...)
	}
	return buf
}
