package publisher

import (
	"bytes"
	"container/list"
	"errors"
	"io"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"cutie/publisher/set"
)

// A document is a sequence of parts: texts in memory and files. Its compressed forms are made
// of its text as a stream and kept by forms while it stays as it is; that of a closed Change
// List in gzip is a file. Equal texts give equal bytes in every coding, and a form is a
// single member of gzip (RFC 1952, 2.3) or frame of Zstandard, because many clients read no
// further.

// A document is one representation. It implements [io.ReadSeeker], and opens a
// part when reading gets there.
type document struct {
	docState

	parts []part
	size  int64
	at    int64 // where the next Read begins
	past  int   // parts before that, at least
	start int64 // where these end
	cur   io.ReadCloser
	end   int64 // of the part that cur reads
}

// A part opens its bytes from an offset on.
type part struct {
	size int64
	open func(from int64) (io.ReadCloser, error)
}

func (d *document) add(size int64, open func(from int64) (io.ReadCloser, error)) {
	if size > 0 {
		d.parts = append(d.parts, part{size, open})
		d.size += size
	}
}

// Text adds bytes in memory.
func (d *document) Text(b []byte) {
	d.add(int64(len(b)), func(from int64) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(b[from:])), nil
	})
}

// Content adds the first size bytes of a content, opened when they are read.
func (d *document) Content(open set.Opener, size int64) {
	d.add(size, func(from int64) (io.ReadCloser, error) {
		c, err := open()
		if err != nil {
			return nil, err
		}
		return &section{io.NewSectionReader(c, from, size-from), c}, nil
	})
}

type section struct {
	*io.SectionReader
	content set.Content
}

func (s *section) Close() error { return s.content.Close() }

func (d *document) Read(p []byte) (int, error) {
	for {
		if d.cur == nil {
			if err := d.next(); err != nil {
				return 0, err
			}
		}
		n, err := d.cur.Read(p)
		d.at += int64(n)
		if err == io.EOF {
			if err = d.Close(); d.at < d.end {
				err = io.ErrUnexpectedEOF
			}
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// next opens the part with the next byte.
func (d *document) next() (err error) {
	for ; d.past < len(d.parts); d.past++ {
		p := d.parts[d.past]
		if d.end = d.start + p.size; d.at < d.end {
			d.cur, err = p.open(d.at - d.start)
			return err
		}
		d.start = d.end
	}
	return io.EOF
}

// Seek implements [io.Seeker].
func (d *document) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += d.at
	case io.SeekEnd:
		offset += d.size
	}
	if offset < 0 {
		return 0, errors.New("seek before the document")
	}
	d.Close()
	d.at, d.past, d.start = offset, 0, 0
	return offset, nil
}

// Close closes the part being read.
func (d *document) Close() error {
	if d.cur == nil {
		return nil
	}
	cur := d.cur
	d.cur = nil
	return cur.Close()
}

// A coding is a content coding (RFC 9110, 8.4.1).
type coding uint8

const (
	identity coding = iota
	inGzip
	inZstd // RFC 8878
)

// String returns the name of the coding in headers.
func (c coding) String() string { return [...]string{"identity", "gzip", "zstd"}[c] }

// Suffix ends entity tags of the form. It must change if the same text gets
// other bytes.
func (c coding) Suffix() string { return [...]string{"", "-gzip", "-zst"}[c] }

// accepted returns the coding a client likes best of those it names (RFC 9110,
// 12.5.3). Of equals it is inGzip, because some clients read the first frame of
// Zstandard only. A wildcard is no wish.
func accepted(values []string) coding {
	best, most := identity, 0.0
	for _, v := range values {
		for item := range strings.SplitSeq(v, ",") {
			name, params, _ := strings.Cut(item, ";")
			c := parseCoding(textproto.TrimString(name))
			if c == identity {
				continue
			}
			if q := weight(params); q > most || q == most && q > 0 && c < best {
				best, most = c, q
			}
		}
	}
	return best
}

func parseCoding(name string) coding {
	switch {
	case strings.EqualFold(name, "gzip"), strings.EqualFold(name, "x-gzip"):
		return inGzip
	case strings.EqualFold(name, "zstd"):
		return inZstd
	}
	return identity
}

// weight reads the parameter q: 1 without one, 0 if it is malformed.
func weight(params string) float64 {
	params = textproto.TrimString(params)
	if params == "" {
		return 1
	}
	name, value, _ := strings.Cut(params, "=")
	q, err := strconv.ParseFloat(value, 64)
	if err != nil || !strings.EqualFold(name, "q") || q < 0 || q > 1 {
		return 0
	}
	return q
}

// A docState is that of a document.
type docState struct {
	Tag      string    // entity tag; "" if it has none
	Modified time.Time // zero if unknown
}

// A form is a compressed document in memory.
type form struct {
	docState
	key    formKey
	begun  int64 // when its text was begun, see forms
	len    int64 // bytes of the text
	octets []byte
}

type formKey struct {
	path string
	zstd bool
}

// forms keeps the compressed form of documents, the last one of each path, as long as there
// is space. It is safe for concurrent use.
type forms struct {
	max   int           // bytes
	turns chan struct{} // held while a document is compressed
	count atomic.Int64  // of requests and of texts begun: what was before what

	mu    sync.Mutex
	size  int
	order list.List // of *form, last used first
	items map[formKey]*list.Element
}

// newForms returns a store of up to max bytes.
func newForms(max int) *forms {
	return &forms{max: max, turns: make(chan struct{}, 2), items: make(map[formKey]*list.Element)}
}

// overhead is how many bytes a form takes beside its octets.
const overhead = 512

// get returns the document at a path in a coding. The form with the entity tag is used
// if there is one; otherwise write writes the text, and returns its state, which may be a
// later one.
func (s *forms) get(path string, c coding, tag string, write func(w io.Writer) (docState, error)) (*document, error) {
	k := formKey{path, c == inZstd}
	asked := s.count.Add(1)
	f := s.kept(k, tag, asked)
	if f == nil {
		s.turns <- struct{}{}
		defer func() { <-s.turns }()
		// Another request may have made it meanwhile. All who wait while a busy list is
		// compressed share the next form: it was begun after they asked.
		if f = s.kept(k, tag, asked); f == nil {
			begun := s.count.Add(1)
			var err error
			if f, err = pack(k, write); err != nil {
				return nil, err
			}
			f.begun = begun
			s.put(f)
		}
	}
	d := &document{docState: f.docState}
	if c == identity {
		d.add(f.len, f.expand)
	} else {
		d.Text(f.octets)
	}
	return d, nil
}

// kept returns the form with an entity tag, or one that was begun after the request.
func (s *forms) kept(k formKey, tag string, asked int64) *form {
	s.mu.Lock()
	defer s.mu.Unlock()
	el := s.items[k]
	if el == nil {
		return nil
	}
	f := el.Value.(*form)
	if f.begun < asked && (tag == "" || f.Tag != tag) {
		return nil
	}
	s.order.MoveToFront(el)
	return f
}

func (s *forms) put(f *form) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if el := s.items[f.key]; el != nil {
		if el.Value.(*form).begun > f.begun {
			return // a later one was faster
		}
		s.remove(el)
	}
	if f.Tag == "" || len(f.octets) > s.max/2 {
		return
	}
	s.items[f.key] = s.order.PushFront(f)
	for s.size += len(f.octets) + overhead; s.size > s.max; {
		s.remove(s.order.Back())
	}
}

func (s *forms) remove(el *list.Element) {
	f := s.order.Remove(el).(*form)
	delete(s.items, f.key)
	s.size -= len(f.octets) + overhead
}

// pack makes a form.
func pack(k formKey, write func(io.Writer) (docState, error)) (*form, error) {
	var out bytes.Buffer
	var w io.WriteCloser
	if k.zstd {
		z := zstdWriters.Get().(*zstd.Encoder)
		defer zstdWriters.Put(z)
		z.Reset(&out)
		w = z
	} else {
		z := set.GzipWriters.Get().(*gzip.Writer)
		defer set.GzipWriters.Put(z)
		z.Reset(&out)
		w = z
	}
	text := counter{w: w}
	state, err := write(&text)
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	return &form{docState: state, key: k, len: text.n, octets: bytes.Clone(out.Bytes())}, nil // it may be kept for long
}

// A counter counts the bytes written.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(text []byte) (int, error) {
	n, err := c.w.Write(text)
	c.n += int64(n)
	return n, err
}

// zstdWriters make frames by one goroutine, so that equal texts give equal frames. Measured
// on entries of Resource Lists: the fastest level leaves as much as gzip in half the time,
// and slower ones hardly less.
var zstdWriters = sync.Pool{New: func() any {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(256<<10), zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err) // the options are constants
	}
	return z
}}

var gzipReaders sync.Pool // of *gzip.Reader

// expand opens the text from a byte on.
func (f *form) expand(from int64) (io.ReadCloser, error) {
	src := bytes.NewReader(f.octets)
	z, _ := gzipReaders.Get().(*gzip.Reader)
	var err error
	if z == nil {
		z, err = gzip.NewReader(src)
	} else {
		err = z.Reset(src)
	}
	if err == nil {
		_, err = io.CopyN(io.Discard, z, from)
	}
	return &expander{z}, err
}

type expander struct{ *gzip.Reader }

func (e *expander) Close() error {
	if e.Reader != nil {
		gzipReaders.Put(e.Reader)
		e.Reader = nil
	}
	return nil
}
