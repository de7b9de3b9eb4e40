package compose

import (
	"bytes"
	"container/list"
	"io"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// A State is that of a document.
type State struct {
	Tag      string    // entity tag; "" if it has none
	Modified time.Time // zero if unknown
}

// A form is a compressed document in memory.
type form struct {
	State
	key    formKey
	len    int64 // bytes of the text
	octets []byte
}

type formKey struct {
	path string
	zstd bool
}

// Forms keeps the compressed form of documents, the last one of each path, as long as there
// is space. It is safe for concurrent use.
type Forms struct {
	max   int           // bytes
	turns chan struct{} // held while a document is compressed

	mu    sync.Mutex
	size  int
	order list.List // of *form, last used first
	items map[formKey]*list.Element
}

// NewForms returns a store of up to max bytes.
func NewForms(max int) *Forms {
	return &Forms{max: max, turns: make(chan struct{}, 2), items: make(map[formKey]*list.Element)}
}

// overhead is how many bytes a form takes beside its octets.
const overhead = 512

// Document returns the document at a path in a coding. The form with the entity tag is used
// if there is one; otherwise write writes the text to a [GzipWriter] or the like, and
// returns its state, which may be a later one.
func (s *Forms) Document(path string, c Coding, tag string, write func(w Packer) (State, error)) (*Document, error) {
	k := formKey{path, c == Zstd}
	f := s.get(k, tag)
	if f == nil {
		s.turns <- struct{}{}
		defer func() { <-s.turns }()
		if f = s.get(k, tag); f == nil { // else another request has made it
			var err error
			if f, err = pack(k, write); err != nil {
				return nil, err
			}
			s.put(f)
		}
	}
	d := &Document{State: f.State}
	if c == Identity {
		d.add(f.len, f.expand)
	} else {
		d.Text(f.octets)
	}
	return d, nil
}

func (s *Forms) get(k formKey, tag string) *form {
	s.mu.Lock()
	defer s.mu.Unlock()
	el := s.items[k]
	if el == nil || tag == "" || el.Value.(*form).Tag != tag {
		return nil
	}
	s.order.MoveToFront(el)
	return el.Value.(*form)
}

func (s *Forms) put(f *form) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if el := s.items[f.key]; el != nil {
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

func (s *Forms) remove(el *list.Element) {
	f := s.order.Remove(el).(*form)
	delete(s.items, f.key)
	s.size -= len(f.octets) + overhead
}

// A Packer compresses a text of parts, see [GzipWriter].
type Packer interface {
	io.WriteCloser
	Part() error
}

// pack makes a form.
func pack(k formKey, write func(Packer) (State, error)) (*form, error) {
	var out bytes.Buffer
	var w Packer
	if k.zstd {
		z := zstdWriters.Get().(*zstd.Encoder)
		defer zstdWriters.Put(z)
		z.Reset(&out)
		w = frame{z}
	} else {
		g, err := NewGzipWriter(&out)
		if err != nil {
			return nil, err
		}
		w = g
	}
	text := counted{Packer: w}
	state, err := write(&text)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, err
	}
	return &form{State: state, key: k, len: text.n, octets: bytes.Clone(out.Bytes())}, nil // it may be kept for long
}

// counted counts the bytes of a text.
type counted struct {
	Packer
	n int64
}

func (c *counted) Write(text []byte) (int, error) {
	c.n += int64(len(text))
	return c.Packer.Write(text)
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

// A frame of Zstandard has no parts.
type frame struct{ *zstd.Encoder }

func (frame) Part() error { return nil }

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
