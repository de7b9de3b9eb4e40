package compose

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"sync"
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

var proofs = sync.Pool{New: func() any { return new(proof) }}

// A proof compares blocks of DEFLATE (RFC 1951) with the text they should give. The text
// is there, so nothing is written: a match is compared with the text before it. It accepts
// less than readers do: no last block, and complete codes only. The zero proof is ready.
type proof struct {
	src  []byte
	at   int    // in src, after the bits
	bits uint64 // the next ones, lowest first
	n    uint   // how many there are

	lengths     [286 + 30]uint8 // of the codes of a block
	codes       code            // of these lengths
	chars, dist code
}

// holds reports whether the blocks give the text, and end with it.
func (p *proof) holds(blocks, text []byte) bool {
	p.src, p.at, p.bits, p.n = blocks, 0, 0, 0
	defer func() { p.src = nil }()
	at := 0
	for p.at < len(p.src) {
		p.fill()
		last, kind := p.take(1), p.take(2)
		ok := last == 0
		switch {
		case !ok:
		case kind == 0:
			at, ok = p.stored(text, at)
		case kind == 1:
			ok = p.fixed()
		case kind == 2:
			ok = p.dynamic()
		default:
			ok = false
		}
		if ok && kind != 0 {
			at, ok = p.block(text, at)
		}
		if !ok || p.over() {
			return false
		}
	}
	return at == len(text) && p.n == 0 // it ends where a byte does
}

// fill makes at least 56 bits be there; after the end they are zero.
func (p *proof) fill() {
	if p.at+8 <= len(p.src) {
		p.bits |= binary.LittleEndian.Uint64(p.src[p.at:]) << p.n
		p.at += int((63 - p.n) / 8)
		p.n |= 56
		return
	}
	for p.n < 56 {
		if p.at < len(p.src) {
			p.bits |= uint64(p.src[p.at]) << p.n
		}
		p.at++
		p.n += 8
	}
}

// over reports whether bits after the end were taken. Whole bytes that were not taken are
// given back first.
func (p *proof) over() bool {
	p.at -= int(p.n / 8)
	p.n %= 8
	p.bits &= 1<<p.n - 1
	return p.at > len(p.src)
}

// take takes up to 32 bits that are there.
func (p *proof) take(n uint) uint {
	v := uint(p.bits & (1<<n - 1))
	p.bits >>= n
	p.n -= n
	return v
}

// stored compares a stored block (3.2.4), and returns where the text goes on.
func (p *proof) stored(text []byte, at int) (int, bool) {
	if p.over() {
		return at, false
	}
	p.bits, p.n = 0, 0 // up to the next byte
	if p.at+4 > len(p.src) {
		return at, false
	}
	n := int(binary.LittleEndian.Uint16(p.src[p.at:]))
	if uint16(n) != ^binary.LittleEndian.Uint16(p.src[p.at+2:]) {
		return at, false
	}
	p.at += 4
	if p.at+n > len(p.src) || at+n > len(text) || !bytes.Equal(p.src[p.at:p.at+n], text[at:at+n]) {
		return at, false
	}
	p.at += n
	return at + n, true
}

// fixed makes the codes of a block without codes of its own (3.2.6).
func (p *proof) fixed() bool {
	var lengths [288]uint8
	for i := range lengths {
		switch {
		case i < 144:
			lengths[i] = 8
		case i < 256:
			lengths[i] = 9
		case i < 280:
			lengths[i] = 7
		default:
			lengths[i] = 8
		}
	}
	var dist [32]uint8
	for i := range dist {
		dist[i] = 5
	}
	return p.chars.make(lengths[:]) && p.dist.make(dist[:])
}

// order is the one of the lengths of codes for lengths (3.2.7).
var order = [...]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// dynamic reads the codes of a block (3.2.7).
func (p *proof) dynamic() bool {
	p.fill()
	chars, dist, n := int(p.take(5))+257, int(p.take(5))+1, int(p.take(4))+4
	if chars > 286 || dist > 30 {
		return false
	}
	var lengths [19]uint8
	for _, i := range order[:n] {
		p.fill()
		lengths[i] = uint8(p.take(3))
	}
	if !p.codes.make(lengths[:]) {
		return false
	}
	for i := 0; i < chars+dist; {
		p.fill()
		symbol, ok := p.next(&p.codes)
		if !ok {
			return false
		}
		run, length := 1, uint8(0)
		switch {
		case symbol < 16:
			length = uint8(symbol)
		case symbol == 16 && i == 0:
			return false
		case symbol == 16:
			run, length = 3+int(p.take(2)), p.lengths[i-1]
		case symbol == 17:
			run = 3 + int(p.take(3))
		default:
			run = 11 + int(p.take(7))
		}
		if i+run > chars+dist {
			return false
		}
		for range run {
			p.lengths[i] = length
			i++
		}
	}
	return p.lengths[blockEnd] > 0 && p.chars.make(p.lengths[:chars]) && p.dist.make(p.lengths[chars:chars+dist])
}

// blockEnd is the symbol at the end of a block; greater ones are lengths of matches.
const blockEnd = 256

// Lengths and distances of matches (3.2.5): a base, and how many bits are added to it.
var (
	matchBase = [...]uint16{3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258}
	matchBits = [...]uint8{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0}
	distBase  = [...]uint16{1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577}
	distBits  = [...]uint8{0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13}
)

// block compares a block with codes, and returns where the text goes on.
func (p *proof) block(text []byte, at int) (int, bool) {
	for {
		p.fill()
		at = p.literals(text, at)
		symbol, ok := p.next(&p.chars)
		switch {
		case !ok:
			return at, false
		case symbol == blockEnd:
			return at, true
		case symbol < blockEnd:
			if at >= len(text) || text[at] != byte(symbol) {
				return at, false
			}
			at++
		default:
			n, ok := p.match(text, at, symbol-blockEnd-1)
			if !ok {
				return at, false
			}
			at += n
		}
	}
}

// literals passes over characters with the codes they should have: they are looked up by the
// text, and so none waits for the one before. It ends while a whole code is left.
func (p *proof) literals(text []byte, at int) int {
	have, n := p.bits, p.n
	for at < len(text) && n >= 30 {
		e := p.chars.literal[text[at]]
		size := e & 15
		if have&(1<<size-1) != uint64(e>>4) {
			break
		}
		have >>= size
		n -= uint(size)
		at++
	}
	p.bits, p.n = have, n
	return at
}

// match compares a match of the symbol of a length, and returns how long it is.
func (p *proof) match(text []byte, at int, symbol uint) (n int, ok bool) {
	if symbol >= uint(len(matchBase)) {
		return 0, false
	}
	p.fill()
	n = int(matchBase[symbol]) + int(p.take(uint(matchBits[symbol])))
	symbol, ok = p.next(&p.dist)
	if !ok || symbol >= uint(len(distBase)) {
		return 0, false
	}
	back := int(distBase[symbol]) + int(p.take(uint(distBits[symbol])))
	if back > at || at+n > len(text) {
		return 0, false
	}
	// If the match overlaps itself, the text of it is compared with what it should be.
	return n, bytes.Equal(text[at-back:at-back+n], text[at:at+n])
}

// directBits is the length of codes found at once.
const directBits = 10

// noCode is the code of characters without one: no bit is 2.
const noCode = 2<<4 | 1

// A code is a Huffman code (3.2.2).
type code struct {
	direct  [1 << directBits]uint16 // symbol<<4 | length, by the next bits; 0 if the code is longer
	count   [16]uint16              // codes of each length
	symbol  [288]uint16             // in the order of the codes
	literal [256]uint32             // code<<4 | length, as the bits come, of each character
}

// make makes the code of lengths. It is complete, or has one symbol at most.
func (c *code) make(lengths []uint8) bool {
	c.count = [16]uint16{}
	for _, n := range lengths {
		c.count[n]++
	}
	used := len(lengths) - int(c.count[0])
	c.count[0] = 0
	left := 1
	var first, from [17]uint16 // code of each length, and its place in symbol
	for n := 1; n < 16; n++ {
		if left = left<<1 - int(c.count[n]); left < 0 {
			return false
		}
		first[n+1] = (first[n] + c.count[n]) << 1
		from[n+1] = from[n] + c.count[n]
	}
	if left > 0 && (used > 1 || used == 1 && c.count[1] != 1) {
		return false
	}
	clear(c.direct[:])
	for i := range c.literal {
		c.literal[i] = noCode
	}
	for s, n := range lengths {
		if n == 0 {
			continue
		}
		c.symbol[from[n]] = uint16(s)
		from[n]++
		bits := bits.Reverse16(first[n]) >> (16 - n)
		if s < len(c.literal) {
			c.literal[s] = uint32(bits)<<4 | uint32(n)
		}
		if n <= directBits {
			for i := int(bits); i < len(c.direct); i += 1 << n {
				c.direct[i] = uint16(s)<<4 | uint16(n)
			}
		}
		first[n]++
	}
	return true
}

// next takes a symbol of a code; up to 15 bits are there.
func (p *proof) next(c *code) (symbol uint, ok bool) {
	if e := c.direct[p.bits&(1<<directBits-1)]; e != 0 {
		p.bits >>= e & 15
		p.n -= uint(e & 15)
		return uint(e >> 4), true
	}
	return p.long(c)
}

// long is next for a code of any length.
func (p *proof) long(c *code) (symbol uint, ok bool) {
	now, first, from := 0, 0, 0
	for n := 1; n < 16; n++ {
		now |= int(p.bits & 1)
		p.bits >>= 1
		p.n--
		count := int(c.count[n])
		if now-first < count {
			return uint(c.symbol[from+now-first]), true
		}
		from += count
		first = (first + count) << 1
		now <<= 1
	}
	return 0, false
}
