package soif

import (
	"fmt"
	"io"
	"strconv"
)

// A Writer writes objects. A [Reader] reads them back the same.
type Writer struct {
	w   io.Writer
	buf []byte
	err error
}

// NewWriter returns a Writer to w, with one Write an object.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write writes an object. An object that could not be read again is refused,
// and nothing of it is written; an error of the output is final.
func (w *Writer) Write(o Object) error {
	if w.err != nil {
		return w.err
	}
	if err := o.Check(); err != nil {
		return err
	}
	w.buf = o.Append(w.buf[:0])
	_, w.err = w.w.Write(w.buf)
	return w.err
}

// Check returns the reason why the object cannot be written: a type, a URL or a
// name that would not read back the same.
func (o *Object) Check() error {
	switch {
	case !all(o.Type, nameOctet, 1) || o.Type[0] == '@':
		return fmt.Errorf("template type %.60q cannot be written", o.Type)
	case !all(o.URL, visible, 0) || o.URL == "-" || o.URL == "}" || o.URL != "" && o.URL[0] == '@':
		return fmt.Errorf("URL %.80q cannot be written", o.URL)
	}
	for i := range o.Attributes {
		if !all(o.Attributes[i].Name, nameOctet, 1) {
			return fmt.Errorf("attribute name %.60q cannot be written", o.Attributes[i].Name)
		}
	}
	return nil
}

// all tells whether s has at least so many octets, all of the kind, and is no
// longer than a Reader takes.
func all(s string, kind func(byte) bool, least int) bool {
	for i := range len(s) {
		if !kind(s[i]) {
			return false
		}
	}
	return len(s) >= least && len(s) <= maxToken
}

// Append appends the object to dst as a [Writer] writes it. Check must accept
// it.
func (o *Object) Append(dst []byte) []byte {
	dst = AppendHead(dst, o.Type, o.URL)
	for i := range o.Attributes {
		dst = AppendAttribute(dst, o.Attributes[i].Name, o.Attributes[i].Value)
	}
	return AppendEnd(dst)
}

// Reader returns a reader of the object as a [Writer] writes it, without a copy of its
// values. Check must accept the object.
func (o *Object) Reader() io.Reader { return &objectReader{o: o, text: AppendHead(nil, o.Type, o.URL)} }

// An objectReader has the text before a value, the value, and so on.
type objectReader struct {
	o     *Object
	next  int // attribute; after the last comes the end
	text  []byte
	value string
}

func (r *objectReader) Read(p []byte) (n int, err error) {
	for {
		if n = copy(p, r.text); n > 0 || len(p) == 0 {
			r.text = r.text[n:]
			return n, nil
		}
		if n = copy(p, r.value); n > 0 {
			r.value = r.value[n:]
			return n, nil
		}
		if r.next > len(r.o.Attributes) {
			return 0, io.EOF
		}
		r.text = r.text[:0]
		if r.next > 0 {
			r.text = append(r.text, '\n') // after the last value
		}
		if r.next < len(r.o.Attributes) {
			a := &r.o.Attributes[r.next]
			r.text, r.value = appendName(r.text, a.Name, len(a.Value)), a.Value
		} else {
			r.text = AppendEnd(r.text)
		}
		r.next++
	}
}

// AppendHead appends the first line of an object; the caller goes on with
// [AppendAttribute] and [AppendEnd].
func AppendHead(dst []byte, typ, url string) []byte {
	dst = append(append(append(dst, '@'), typ...), " { "...)
	if url == "" {
		url = "-"
	}
	return append(append(dst, url...), '\n')
}

// AppendAttribute appends the line, or the lines, of an attribute.
func AppendAttribute(dst []byte, name, value string) []byte {
	return append(append(appendName(dst, name, len(value)), value...), '\n')
}

// appendName appends the part of an attribute before its value.
func appendName(dst []byte, name string, size int) []byte {
	dst = append(append(dst, name...), '{')
	dst = strconv.AppendInt(dst, int64(size), 10)
	return append(dst, "}:\t"...)
}

// AppendEnd appends the last line of an object.
func AppendEnd(dst []byte) []byte { return append(dst, "}\n"...) }
