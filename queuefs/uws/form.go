package uws

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"strconv"
	"strings"

	"cutie/queuefs"
	"cutie/queuefs/buffers"
	"cutie/queuefs/dir"
	queuejob "cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/web"
)

const mediaForm = "application/x-www-form-urlencoded"

// maxPairs is how many parameters a job may have.
const maxPairs = 1000

// parseForm reads a form and keeps its order, unlike package url.
func parseForm(s string) (pairs []pair, err error) {
	for part := range strings.SplitSeq(s, "&") {
		if part == "" {
			continue
		}
		var p pair
		name, value, _ := strings.Cut(part, "=")
		if p.name, err = url.QueryUnescape(name); err == nil {
			p.value, err = url.QueryUnescape(value)
		}
		if err != nil {
			return nil, err
		}
		if pairs = append(pairs, p); len(pairs) > maxPairs {
			return nil, errors.New("more than " + strconv.Itoa(maxPairs) + " parameters")
		}
	}
	return pairs, nil
}

func formatForm(pairs []pair) string {
	var b strings.Builder
	for i, p := range pairs {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(url.QueryEscape(p.name) + "=" + url.QueryEscape(p.value))
	}
	return b.String()
}

func (h *Handler) body(w http.ResponseWriter, r *request) (*web.BodyReader, error) {
	return web.NewBodyReader(w, r.Request, h.o.MaxBody, bodyIdle)
}

// maxUploads is how many files may come with a job.
const maxUploads = 32

// A filled form has the parameters of query and body, and the files.
type filled struct {
	q        *queuefs.Queue
	params   []pair
	size     int // bytes of params
	uploads  []upload
	memory   *buffers.Account // nil: without a limit
	replaces queuejob.ID      // of a PENDING job whose parameters change; 0: none
}

// An upload is a file of a job. It is the payload of a submission, on disk if
// it is large.
type upload struct {
	name      string // of the parameter
	filename  string
	mediaType string
	sub       *queuefs.Submission
	draft     *queuefs.Upload
}

// discard lets go of the files, except of a committed submission.
func (f *filled) discard() {
	for _, u := range f.uploads {
		u.sub.Discard()
	}
}

// add takes parameters from query, form or part.
func (f *filled) add(pairs ...pair) error {
	for _, p := range pairs {
		if err := checkText(p); err != nil {
			return bad("%v", err)
		}
		if f.size += len(p.name) + len(p.value); f.size > maxParams || len(f.params) >= maxPairs {
			return tooLarge("parameters have more than %d octets, or are more than %d; upload them as a file",
				maxParams, maxPairs)
		}
		f.params = append(f.params, p)
	}
	return nil
}

// fill reads query and body. Only a new job takes files.
func (h *Handler) fill(w http.ResponseWriter, r *request, files bool) (f *filled, err error) {
	f = &filled{q: r.q, memory: buffers.Of(r.Context())}
	defer func() {
		if err != nil {
			f.discard()
		}
	}()
	if err := f.add(r.query...); err != nil {
		return f, err
	}
	_, fromPage := r.value(linesField)
	media, attrs, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	in, err := h.body(w, r)
	if err != nil {
		return f, err
	}
	switch {
	case r.Method == http.MethodGet || r.Method == http.MethodHead || r.ContentLength == 0 || r.Body == http.NoBody:
	case media == "multipart/form-data":
		if attrs["boundary"] == "" {
			return f, bad("multipart/form-data without a boundary")
		}
		parts := web.NewParts(r.Context(), in, attrs["boundary"], maxPairs+2*maxUploads)
		return f, f.parts(r.Context(), parts, files, fromPage)
	case media == mediaForm || media == "":
		text, err := web.ReadAll(r.Context(), io.LimitReader(in, 3*maxParams+1))
		if err != nil {
			return f, err
		}
		if len(text) > 3*maxParams {
			return f, tooLarge("form has more than %d octets; upload a file", 3*maxParams)
		}
		pairs, err := parseForm(string(text))
		if err != nil {
			return f, bad("form: %v", err)
		}
		return f, f.add(pairs...)
	case files && r.set.opaque:
		return f, f.take(upload{name: payloadName, mediaType: label(r.Header.Get("Content-Type"))}, in)
	default:
		return f, web.Errorf(http.StatusUnsupportedMediaType,
			"unsupported body: %s; parameters come as a form, a file in multipart/form-data", label(media))
	}
	return f, nil
}

// parts reads a body of multipart/form-data.
func (f *filled) parts(ctx context.Context, parts *web.Parts, files, fromPage bool) error {
	for {
		p, err := parts.NextRaw()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return partError(err)
		}
		name, filename := p.FormName(), p.FileName()
		_, attrs, _ := mime.ParseMediaType(p.Header.Get("Content-Disposition"))
		if _, isFile := attrs["filename"]; isFile {
			in := bufio.NewReader(p)
			if _, err := in.Peek(1); filename == "" && err == io.EOF {
				continue // from a browser: no file was chosen
			}
			switch {
			case !files:
				return forbidden("files come when a job is made")
			case len(f.uploads) == maxUploads:
				return forbidden("a job takes %d files, and %.40q is one more", maxUploads, name)
			case fromPage:
				name = f.freeName(name)
			case f.taken(name):
				return forbidden("two files are named %.40q", name)
			}
			if isControl(name) {
				return forbidden("%s is no file", name)
			}
			if err := checkText(pair{name: name}); err != nil {
				return bad("%v", err)
			}
			if err := checkName(name); err != nil {
				return forbidden("%v", err)
			}
			u := upload{name: name, filename: label(filename), mediaType: label(p.Header.Get("Content-Type"))}
			if err := f.take(u, in); err != nil {
				return partError(err)
			}
			continue
		}
		value, err := web.ReadAll(ctx, io.LimitReader(p, maxParams+1))
		if err != nil {
			return partError(err)
		}
		if err := f.add(pair{name, string(value)}); err != nil {
			return err
		}
	}
}

func (f *filled) begin() *queuefs.Submission {
	sub := f.q.Begin()
	sub.Memory(f.memory)
	return sub
}

// take stores a file.
func (f *filled) take(u upload, in io.Reader) (err error) {
	u.sub = f.begin()
	f.uploads = append(f.uploads, u)
	last := &f.uploads[len(f.uploads)-1]
	if last.draft, err = u.sub.Add(queuejob.Meta{}); err != nil {
		return err
	}
	_, err = last.draft.ReadFrom(in)
	return err
}

// partError returns a 400 for an error in the body, and errors of the storage
// as they are.
func partError(err error) error {
	var e *web.Error
	var broken *os.PathError
	if errors.As(err, &e) || errors.As(err, &broken) || errors.Is(err, ledger.ErrNoSpace) ||
		errors.Is(err, ledger.ErrFailed) || errors.Is(err, buffers.ErrFull) {
		return err
	}
	return bad("multipart/form-data: %v", err)
}

// label makes text from a client one line of limited length.
func label(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if r < 0x20 || !isChar(r) {
			return '\uFFFD'
		}
		return r
	}, s)
	for len(s) > maxLabel {
		r := []rune(s)
		s = string(r[:len(r)*maxLabel/len(s)-1])
	}
	return s
}

// A part is one of several files in a payload of multipart/form-data. The job
// file has an element for each: offset of its header, length of header and of
// content, in octets, and name.
type part struct {
	at, head, size int64
	name           string
}

func (p part) String() string { return fmt.Sprintf("%d %d %d %s", p.at, p.head, p.size, p.name) }

func parsePart(s string) (p part, ok bool) {
	if f := strings.SplitN(s, " ", 4); len(f) == 4 {
		p.at, _ = strconv.ParseInt(f[0], 10, 64)
		p.head, _ = strconv.ParseInt(f[1], 10, 64)
		p.size, _ = strconv.ParseInt(f[2], 10, 64)
		p.name = f[3]
	}
	return p, p.at >= 0 && p.head >= 0 && p.size >= 0 && p.String() == s
}

// partsOf returns the files of a multipart payload.
func partsOf(cut *queuejob.Job) (parts []part) {
	for _, s := range cut.Extra.Values(elemPart) {
		if p, ok := parsePart(s); ok {
			parts = append(parts, p)
		}
	}
	return parts
}

// join returns the payload of a job with several files, and describes it in m.
func (f *filled) join(m *queuejob.Meta) (io.Reader, error) {
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
func (p part) cut(payload *dir.Payload) (mediaType string, content io.ReadSeeker, err error) {
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
