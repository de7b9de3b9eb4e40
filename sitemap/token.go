package sitemap

import (
	"bufio"
	"encoding/xml"
	"errors"
	"io"
	"strings"
)

// meter is the input of the XML decoder. It gives out the rest of one element
// and no more, so no element can fill the memory.
type meter struct {
	*bufio.Reader // the decoder uses only ReadByte, overridden here
	left          int
	err           error // of the underlying reader; after what is in the buffer
}

// fail notes an error of the buffer, which forgets it.
func (m *meter) fail(err error) {
	if err != io.EOF && err != bufio.ErrBufferFull {
		m.err = err
	}
}

func (m *meter) ReadByte() (byte, error) {
	if m.left <= 0 {
		return 0, errTooLarge
	}
	if m.left--; m.err != nil && m.Buffered() == 0 {
		return 0, m.err
	}
	c, err := m.Reader.ReadByte()
	if err != nil {
		m.fail(err)
	}
	return c, err
}

// token returns the next token; the end of the input is an error.
func (r *Reader) token() (xml.Token, error) {
	tok, err := r.dec.Token()
	if err == nil {
		return tok, nil
	}
	return nil, r.inputError(err)
}

// skip reads to the end of the current element.
func (r *Reader) skip() error {
	if err := r.dec.Skip(); err != nil {
		return r.inputError(err)
	}
	return nil
}

func (r *Reader) inputError(err error) error {
	if r.in.err != nil {
		return r.in.err
	}
	var syntax *xml.SyntaxError
	switch {
	case err == io.EOF, errors.As(err, &syntax) && syntax.Msg == "unexpected EOF":
		err = io.ErrUnexpectedEOF
	case syntax != nil:
		err = errors.New(syntax.Msg)
	}
	return r.parseError(err)
}

// child returns the start of the root's next child. The error is [io.EOF] after
// the end of the document; only comments may follow it.
func (r *Reader) child() (*xml.StartElement, error) {
	if r.ended {
		return nil, io.EOF
	}
	start, err := r.inner()
	if start != nil || err != nil {
		return start, err
	}
	r.ended = true
	for {
		tok, err := r.dec.Token()
		if err == io.EOF && r.in.err == nil {
			return nil, io.EOF
		}
		if err != nil {
			return nil, r.inputError(err)
		}
		if start, ok := tok.(xml.StartElement); ok {
			return nil, r.wrong("second root <%s>", start.Name.Local)
		}
	}
}

// inner returns the start of the next element inside the current one, nil at
// its end.
func (r *Reader) inner() (*xml.StartElement, error) {
	for {
		tok, err := r.token()
		if err != nil {
			return nil, err
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			return &tok, nil
		case xml.EndElement:
			return nil, nil
		}
	}
}

// text returns the trimmed content of the current element.
func (r *Reader) text() (string, error) {
	var b strings.Builder
	for {
		tok, err := r.token()
		if err != nil {
			return "", err
		}
		switch tok := tok.(type) {
		case xml.CharData:
			b.Write(tok)
		case xml.StartElement:
			return "", r.wrong("<%s> where text belongs", tok.Name.Local)
		case xml.EndElement:
			return strings.TrimSpace(b.String()), nil
		}
	}
}
