package dump

import (
	"archive/zip"
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/flate"
)

// A Growing is the beginning of a package: its early files, one after the other, in a
// file that grows with a Change List.
type Growing struct {
	in   io.ReaderAt
	dir  []record
	size int64
}

// errTorn says that a growing package does not end where it should.
var errTorn = errors.New("package has other files than were written")

// OpenGrowing reads the headers in the first size bytes of a growing package. With an
// error it has the files up to there.
func OpenGrowing(in io.ReaderAt, size int64) (*Growing, error) {
	g := &Growing{in: in}
	var window [32 << 10]byte
	var have []byte
	at := int64(0) // of the window
	for g.size < size {
		if skip := g.size - at; skip < int64(len(have)) {
			have = have[skip:]
		} else {
			have = nil
		}
		at = g.size
		r, n := parseLocal(have)
		if n == 0 {
			k, err := in.ReadAt(window[:min(int64(len(window)), size-at)], at)
			if err != nil && err != io.EOF {
				return g, err
			}
			have = window[:k]
			r, n = parseLocal(have)
		}
		last := 0
		if len(g.dir) > 0 {
			last = g.dir[len(g.dir)-1].file
		}
		if r.at = at; n == 0 || r.file <= last || at+int64(n)+r.packed > size {
			return g, fmt.Errorf("%w at octet %d", errTorn, at)
		}
		if len(g.dir) == 100 { // the others are about as long
			g.dir = slices.Grow(g.dir, int(min(size/(g.size/100), 1<<20)))
		}
		g.dir = append(g.dir, r)
		g.size += int64(n) + r.packed
	}
	return g, nil
}

// Salvage returns the early files of a damaged package, complete or not: those up to the
// first bad header, or those in the directory at its end, if it has more.
func Salvage(in io.ReaderAt, size int64) *Growing {
	g, _ := OpenGrowing(in, size)
	z, err := zip.NewReader(in, size)
	if err != nil {
		return g
	}
	all := &Growing{in: in}
	last := 0
	for _, f := range z.File {
		name, ok := strings.CutPrefix(f.Name, memberDir)
		number, err := strconv.Atoi(name)
		if !ok {
			continue // the manifest
		}
		r := record{file: number, at: all.size, packed: int64(f.CompressedSize64), length: int64(f.UncompressedSize64), crc: f.CRC32, method: f.Method, flags: f.Flags}
		if err != nil || number <= last || r.flags&streamed != 0 {
			break // a late one
		}
		last = number
		all.dir = append(all.dir, r)
		all.size += int64(localLength+len(r.name())) + r.packed
	}
	if len(all.dir) > len(g.dir) {
		return all
	}
	return g
}

// parseLocal reads the header of an early file, and returns its length, 0 if it is none.
func parseLocal(src []byte) (r record, n int) {
	le := binary.LittleEndian
	if len(src) < localLength || le.Uint32(src) != localMark {
		return r, 0
	}
	r.method, r.crc = le.Uint16(src[8:]), le.Uint32(src[14:])
	r.packed, r.length = int64(le.Uint32(src[18:])), int64(le.Uint32(src[22:]))
	n = localLength + int(le.Uint16(src[26:]))
	if len(src) < n {
		return r, 0
	}
	number, ok := bytes.CutPrefix(src[localLength:n], []byte(memberDir))
	if r.file, _ = strconv.Atoi(string(number)); !ok || r.file <= 0 {
		return r, 0
	}
	var again [2 * localLength]byte
	if !bytes.Equal(r.appendLocal(again[:0]), src[:n]) {
		return r, 0
	}
	return r, n
}

// Last returns the number of the last file, 0 without one.
func (g *Growing) Last() int {
	if len(g.dir) == 0 {
		return 0
	}
	return g.dir[len(g.dir)-1].file
}

// Read returns a file by its number, false if the package does not have it whole.
func (g *Growing) Read(number int) ([]byte, bool) {
	i, ok := slices.BinarySearchFunc(g.dir, number, func(r record, n int) int { return r.file - n })
	if !ok {
		return nil, false
	}
	text, err := g.read(&g.dir[i])
	return text, err == nil
}

// read reads a file to the end of its compressed form.
func (g *Growing) read(r *record) ([]byte, error) {
	packed := make([]byte, r.packed)
	if _, err := g.in.ReadAt(packed, r.at+int64(localLength+len(r.name()))); err != nil && err != io.EOF {
		return nil, err
	}
	text := packed
	if r.method == deflated {
		in := bytes.NewReader(packed)
		out := bytes.NewBuffer(make([]byte, 0, min(r.length, storeLimit)+bytes.MinRead))
		_, err := io.CopyN(out, flate.NewReader(in), r.length+1)
		if text = out.Bytes(); err != io.EOF || in.Len() > 0 {
			return nil, fmt.Errorf("%s in a package: %w", r.name(), ErrDamaged)
		}
	}
	if int64(len(text)) != r.length || crc32.ChecksumIEEE(text) != r.crc {
		return nil, fmt.Errorf("%s in a package: %w", r.name(), ErrDamaged)
	}
	return text, nil
}

// Check reads all files.
func (g *Growing) Check() error {
	for i := range g.dir {
		if _, err := g.read(&g.dir[i]); err != nil {
			return err
		}
	}
	return nil
}

// A Closing completes a growing package: late files, the manifest, and the directory.
type Closing struct {
	archive
	meter *meter
	buf   *bufio.Writer
	next  int // in the directory, of early files
}

// Close begins to complete the package. What follows is written to w; sum is of the
// files, and goes on.
func (g *Growing) Close(w io.Writer, sum hash.Hash) *Closing {
	m := &meter{w: w, sum: sum, n: g.size}
	buf := bufio.NewWriterSize(m, 256<<10)
	return &Closing{archive{w: buf, size: g.size, dir: g.dir}, m, buf, 0}
}

// Has reports whether the package has an early file. Numbers ascend from call to call.
func (c *Closing) Has(number int) bool {
	for c.next < len(c.dir) && c.dir[c.next].file < number {
		c.next++
	}
	return c.next < len(c.dir) && c.dir[c.next].file == number
}

// Add adds a late file, and calls pause often. If the file is not what f says, the error
// wraps [ErrDamaged], and the package is no more.
func (c *Closing) Add(number int, f File, in io.Reader, pause func() bool) error {
	if f.Length > storeLimit {
		return c.stream(number, &f, in, pause)
	}
	text := make([]byte, f.Length)
	if _, err := io.ReadFull(in, text); err != nil || sha256.Sum256(text) != f.SHA256 {
		return cmp.Or(err, ErrDamaged)
	}
	var tool Compressor
	content, err := tool.Content(text, f.Type)
	if err != nil {
		return err
	}
	return c.add(&content, number)
}

// End completes the package, and returns its length and its SHA-256 in hexadecimal.
func (c *Closing) End(m *Manifest) (length int64, sum string, err error) {
	if err := c.end(m); err != nil {
		return 0, "", err
	}
	if err := c.buf.Flush(); err != nil {
		return 0, "", err
	}
	return c.meter.n, hex.EncodeToString(c.meter.sum.Sum(nil)), nil
}
