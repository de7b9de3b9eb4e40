package rest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"cutie/queuefs"
	"cutie/queuefs/checkm"
	"cutie/queuefs/digest"
	"cutie/queuefs/outbound"
)

// maxComplaints is how many lines of a manifest an answer complains about.
const maxComplaints = 100

// A source is a payload that a line of a manifest names.
type source struct {
	line   int
	url    *url.URL
	length int64 // octets; below 0 if not said
	meta   queuefs.Meta
}

// readManifest reads a batch manifest (Cutie 0.3, 5.5), which has at least one
// line. All that is wrong with it is one error.
func (h *Handler) readManifest(in io.Reader, by queuefs.Meta) ([]source, error) {
	r := checkm.NewReader(in)
	r.MaxEntries = h.o.Batch.Lines
	var (
		sources []source
		wrong   complaints
	)
	for !wrong.full() {
		e, err := r.Read()
		if err == io.EOF {
			break
		}
		var parse *checkm.ParseError
		if errors.Is(err, checkm.ErrTooLarge) {
			return nil, tooLarge("%v", err)
		} else if errors.As(err, &parse) {
			wrong.add(parse.Line, parse.Err.Error())
			continue
		} else if err != nil {
			return nil, err
		}
		s, err := h.source(&e, by)
		if err != nil {
			wrong.add(e.Line, err.Error())
			continue
		}
		sources = append(sources, s)
	}
	if err := wrong.err(); err != nil {
		return nil, err
	}
	if len(sources) == 0 {
		return nil, badRequest("batch manifest names no files")
	}
	return sources, nil
}

// source returns what an entry of a manifest means; by is what is said of all
// jobs.
func (h *Handler) source(e *checkm.Entry, by queuefs.Meta) (source, error) {
	s := source{line: e.Line, length: e.Length, meta: by}
	if e.Include {
		return s, errors.New("another manifest is not included; its lines belong here")
	}
	var err error
	if s.url, err = url.Parse(e.Source); err != nil {
		return s, fmt.Errorf("%.80q is not a URL", e.Source)
	}
	if err := outbound.Check(s.url); err != nil {
		return s, fmt.Errorf("%.80q: %w", e.Source, err)
	}
	switch {
	case strings.EqualFold(e.Alg, "dir"):
		return s, errors.New("a directory is not a job")
	case e.Alg == "" && e.Digest != "":
		return s, errors.New("digest without type")
	case e.Alg != "" && e.Digest == "":
		return s, fmt.Errorf("%.40s without value", e.Alg)
	case e.Alg != "":
		t, err := digest.Parse(e.Alg)
		if err != nil {
			return s, err
		}
		v, err := digest.ParseValue(t, e.Digest)
		if err != nil {
			return s, err
		}
		s.meta.Expect = []digest.Value{v}
	}
	if e.Length > h.o.MaxBody {
		return s, fmt.Errorf("length %d is more than %d octets", e.Length, h.o.MaxBody)
	}
	s.meta.Filename = e.Name()
	if t := e.Value("mimeType"); t != "" {
		if s.meta.MediaType, err = mediaType(t); err != nil {
			return s, fmt.Errorf("%.80q is not a media type", t)
		}
	}
	s.meta.Sidecar = sidecarOf(e.Extra)
	if len(s.meta.Sidecar) > h.o.MaxSidecar {
		return s, fmt.Errorf("columns have more than %d octets", h.o.MaxSidecar)
	}
	return s, nil
}

// sidecarOf makes a sidecar of the columns that mean nothing here, in the form
// that Cutie 3.3 shows.
func sidecarOf(columns []checkm.Column) string {
	var parts []string
	for _, c := range columns {
		if !strings.HasSuffix(strings.ToLower(c.Name), "mimetype") {
			parts = append(parts, c.Name+"="+strings.ReplaceAll(c.Value, ";", `\;`))
		}
	}
	return strings.Join(parts, "; ")
}

// complaints are what is wrong with lines of a manifest, at most maxComplaints.
type complaints []complaint

type complaint struct {
	line int
	text string
}

func (c *complaints) add(line int, text string) {
	if !c.full() {
		*c = append(*c, complaint{line, text})
	}
}

func (c *complaints) full() bool { return len(*c) >= maxComplaints }

// err returns one error for all of them, nil if there are none.
func (c complaints) err() error {
	if len(c) == 0 {
		return nil
	}
	e := &manifestError{lines: make([]string, len(c))}
	for i := range c {
		e.lines[i] = fmt.Sprintf("line %d: %s", c[i].line, c[i].text)
	}
	if c.full() {
		e.lines = append(e.lines, "and perhaps more")
	}
	return e
}

// A manifestError says which lines of a manifest are wrong, and why.
type manifestError struct{ lines []string }

func (e *manifestError) Error() string { return strings.Join(e.lines, "; ") }

// As makes it a bad request.
func (e *manifestError) As(target any) bool {
	if t, ok := target.(**Error); ok {
		*t = &Error{http.StatusBadRequest, e.Error()}
		return true
	}
	return false
}
