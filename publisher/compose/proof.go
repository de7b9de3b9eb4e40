package compose

import (
	"bytes"
	"hash/crc32"
	"io"
	"sync"

	"github.com/klauspost/compress/flate"
)

// isGzip reports whether gz is the text in gzip, as compress makes it: all of its blocks
// are decoded, and compared.
func isGzip(gz, text []byte) bool {
	blocks, c := split(gz)
	if c != (Check{crc32.ChecksumIEEE(text), uint32(len(text))}) {
		return false
	}
	p := proofs.Get().(*proof)
	defer proofs.Put(p)
	return p.holds(blocks, text)
}

var proofs = sync.Pool{New: func() any { return &proof{z: flate.NewReader(nil).(flateReader)} }}

// A proof decodes blocks of DEFLATE and compares them with the text they should give.
type proof struct {
	z    flateReader
	src  bytes.Reader
	gz   []byte // the blocks with a last one
	part [8 << 10]byte
}

// holds reports whether the blocks, none of them a last one, give the text and end with it.
func (p *proof) holds(blocks, text []byte) bool {
	p.gz = append(append(p.gz[:0], blocks...), lastBlock...)
	p.src.Reset(p.gz)
	if err := p.z.Reset(&p.src, nil); err != nil {
		return false
	}
	for {
		n, err := p.z.Read(p.part[:])
		if n > len(text) || !bytes.Equal(p.part[:n], text[:n]) {
			return false
		}
		if text = text[n:]; err != nil {
			return err == io.EOF && len(text) == 0 && p.src.Len() == 0
		}
	}
}
