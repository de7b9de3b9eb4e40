package publisher

import (
	"io"
	"net/textproto"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// A coding is a form in which a document is sent (RFC 9110, 8.4.1). All of
// them are made of parts that stay as they are when others change: gzip of
// blocks of one member, Zstandard of frames.
type coding uint8

const (
	identity coding = iota
	gzipped
	zstandard // RFC 8878
)

// String returns the name of the coding, as it stands in headers.
func (c coding) String() string { return [...]string{"identity", "gzip", "zstd"}[c] }

// suffix ends the entity tag of the form. It is to be another one when the same
// text gets other octets.
func (c coding) suffix() string { return [...]string{"", "-gzip", "-zst"}[c] }

// pack returns text in the coding.
func (c coding) pack(text []byte) []byte {
	switch c {
	case gzipped:
		return compress(nil, text)
	case zstandard:
		return zstdEncoder().EncodeAll(text, nil)
	}
	return text
}

// zstdEncoder makes frames, each by one goroutine, so that equal texts give
// equal frames. Measured on entries of Resource Lists: the fastest level leaves
// as much as gzip does, in half the time, and slower ones hardly less.
var zstdEncoder = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(256<<10))
	if err != nil {
		panic(err) // the options are constants
	}
	return e
})

// zstd returns the member as a frame of Zstandard, made once.
func (m *member) zstd() []byte {
	if z := m.zst.Load(); z != nil {
		return *z
	}
	r, err := m.expand()
	if err != nil {
		panic(err) // it was made here
	}
	defer r.Close()
	text := make([]byte, m.raw)
	if _, err := io.ReadFull(r, text); err != nil {
		panic(err)
	}
	z := zstandard.pack(text)
	m.zst.Store(&z)
	return z
}

// accepted returns the coding that the client likes best of those that it
// names and does not forbid (RFC 9110, 12.5.3); of equals gzip, because some
// clients read no further than the first frame of Zstandard. A wildcard is not
// taken as a wish.
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
		return gzipped
	case strings.EqualFold(name, "zstd"):
		return zstandard
	}
	return identity
}

// weight reads the parameter q: 1 if there is none, 0 if it is not understood.
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
