package compose

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
)

// A Member is a run of text that never changes, kept in gzip. The zero Member is
// no text.
type Member struct {
	Len int64 // bytes of the text

	// For the caller, about the text.
	Entries int
	Version uint64
	At      time.Time

	gz     []byte
	zst    atomic.Pointer[[]byte]
	factor atomic.Uint32 // see shift; 0 until asked for
}

// NewMember compresses a text.
func NewMember(text []byte) *Member { return &Member{Len: int64(len(text)), gz: compress(text)} }

// Weight returns about how many bytes of memory the member takes, with its form
// in Zstandard.
func (m *Member) Weight() int { return 2 * len(m.gz) }

// shift returns shift of the length of the text, computed once.
func (m *Member) shift() uint32 {
	f := m.factor.Load()
	if f == 0 { // no factor is
		f = shift(uint32(m.Len))
		m.factor.Store(f)
	}
	return f
}

// zstd returns the member in Zstandard, made once.
func (m *Member) zstd() []byte {
	if z := m.zst.Load(); z != nil {
		return *z
	}
	r, err := m.expand()
	if err != nil {
		panic(err) // it was made here
	}
	defer r.Close()
	text := make([]byte, m.Len)
	if _, err := io.ReadFull(r, text); err != nil {
		panic(err)
	}
	z := Zstd.pack(text)
	m.zst.Store(&z)
	return z
}

var gzipReaders sync.Pool // of *gzip.Reader

// expand returns a reader of the text.
func (m *Member) expand() (io.ReadCloser, error) {
	z, _ := gzipReaders.Get().(*gzip.Reader)
	src := bytes.NewReader(m.gz)
	if z == nil {
		var err error
		if z, err = gzip.NewReader(src); err != nil {
			return nil, err
		}
	} else if err := z.Reset(src); err != nil {
		return nil, err
	}
	return &expander{z}, nil
}

type expander struct{ *gzip.Reader }

func (e *expander) Close() error {
	if e.Reader != nil {
		gzipReaders.Put(e.Reader)
		e.Reader = nil
	}
	return nil
}
