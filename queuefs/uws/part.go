package uws

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/textproto"
	"strconv"
	"strings"

	"cutie/queuefs"
)

// A part is one of several files in a payload of multipart/form-data. The job
// file has an element for each: offset of its header, length of header and of
// content, in octets, and name.
type part struct {
	at, head, size int64
	name           string
}

func (p part) String() string { return fmt.Sprintf("%d %d %d %s", p.at, p.head, p.size, p.name) }

func parsePart(s string) (p part, ok bool) {
	f := strings.SplitN(s, " ", 4)
	if len(f) < 4 {
		return p, false
	}
	for i, to := range []*int64{&p.at, &p.head, &p.size} {
		n, err := strconv.ParseInt(f[i], 10, 64)
		if err != nil || n < 0 {
			return p, false
		}
		*to = n
	}
	p.name = f[3]
	return p, p.String() == s
}

// partsOf returns the files of a multipart payload.
func partsOf(cut *queuefs.Job) (parts []part) {
	for _, s := range cut.Extra.Values(elemPart) {
		if p, ok := parsePart(s); ok {
			parts = append(parts, p)
		}
	}
	return parts
}

// join returns the payload of a job with several files, and describes it in m.
func (f *filled) join(m *queuefs.Meta) (io.Reader, error) {
	var (
		buf   bytes.Buffer
		whole []io.Reader
		at    int64
	)
	w := multipart.NewWriter(&buf) // no file can contain its random boundary
	frame := func() (octets []byte) {
		octets = bytes.Clone(buf.Bytes())
		buf.Reset()
		whole = append(whole, bytes.NewReader(octets))
		return octets
	}
	for _, u := range f.uploads {
		content, err := u.draft.Reader()
		if err != nil {
			return nil, err
		}
		h := textproto.MIMEHeader{"Content-Disposition": {multipart.FileContentDisposition(u.name, u.filename)}}
		if u.mediaType != "" {
			h.Set("Content-Type", u.mediaType)
		}
		w.CreatePart(h) // a buffer takes everything
		octets := frame()
		line := int64(bytes.Index(octets, []byte(w.Boundary())) + len(w.Boundary()) + len("\r\n"))
		p := part{at + line, int64(len(octets)) - line, u.draft.Size(), u.name}
		m.Extra.Add(elemPart, p.String())
		whole = append(whole, content)
		at += int64(len(octets)) + p.size
	}
	w.Close()
	frame()
	m.MediaType = w.FormDataContentType()
	return io.MultiReader(whole...), nil
}

// cut returns a part of a payload.
func (p part) cut(payload *queuefs.Payload) (mediaType string, content io.ReadSeeker, err error) {
	in, ok := payload.ReadSeeker.(io.ReaderAt)
	if !ok || p.at+p.head+p.size > payload.Size() {
		return "", nil, errors.New("the payload does not have its parts")
	}
	h, err := textproto.NewReader(bufio.NewReader(io.NewSectionReader(in, p.at, p.head))).ReadMIMEHeader()
	if err != nil {
		return "", nil, fmt.Errorf("part %.40q of the payload: %w", p.name, err)
	}
	return h.Get("Content-Type"), io.NewSectionReader(in, p.at+p.head, p.size), nil
}
