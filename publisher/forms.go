package publisher

import (
	"bytes"
	"container/list"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"cutie/publisher/set"
)

// The compressed forms of a document are made of its text as a stream, and kept while it stays
// as it is; that of a closed Change List in gzip is a file. Equal texts give equal bytes in every
// coding, and a form is a single member of gzip (RFC 1952, 2.3) or frame of Zstandard, because
// many clients read no further.

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
