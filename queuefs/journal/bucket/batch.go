package bucket

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"cutie/queuefs/journal"
)

// A batch is one object of the journal. A number is that of a batch, from 1 on.
//
//	magic | journal | owner | claim u64 | number u64 | first LSN u64 | count u32 | size u32
//	kind u32 | zero u32 | begins: number u64, LSN u64, digest before | digest before | own digest
//	body: for each record its size u32 and its bytes; of a claim the owner; of a move the
//	directory
//
// The own digest is the SHA-256 of all other bytes.
type batch struct {
	header
	body []byte
}

type header struct {
	journal [16]byte // names the journal, the same in all batches
	owner   [16]byte // who wrote the batch
	claim   uint64   // number of the claim of the owner
	number  uint64
	first   journal.LSN // number of the first record, or of the next one
	count   int         // records
	size    int         // bytes of the body
	kind    kind
	begins  beginning
	prev    digest // of the batch before
	own     digest
}

// A beginning is where a journal begins: at the oldest batch not released.
type beginning struct {
	number uint64
	lsn    journal.LSN
	prev   digest // of the batch before, zero if there was none
}

type digest [sha256.Size]byte

type kind uint32

const (
	records kind = iota
	claim        // the owner is another one from here on
	mark         // says where the journal begins
	left         // the owner has closed the journal
	gone         // the journal goes on in a directory
	coming       // a journal of a directory is about to go on here
	kinds
)

const (
	magic      = "cutie-b1"
	headerSize = 192
	ownAt      = headerSize - sha256.Size
	recHeader  = 4
)

// prefix is that of the names of batches.
const prefix = "journal/"

// nameOf returns the name of the object of a batch.
func nameOf(number uint64) string { return fmt.Sprintf("%s%020d", prefix, number) }

// numberOf is the opposite of nameOf; 0 if name is not one of its names.
func numberOf(name string) (number uint64) {
	digits, ok := strings.CutPrefix(name, prefix)
	if _, err := fmt.Sscanf(digits, "%d", &number); !ok || err != nil || nameOf(number) != name {
		return 0
	}
	return number
}

// seal writes the header over the beginning of buf, the bytes of the batch, and computes
// its digest.
func (h *header) seal(buf []byte) {
	le := binary.LittleEndian
	b := append(buf[:0], magic...)
	b = append(b, h.journal[:]...)
	b = append(b, h.owner[:]...)
	b = le.AppendUint64(b, h.claim)
	b = le.AppendUint64(b, h.number)
	b = le.AppendUint64(b, uint64(h.first))
	b = le.AppendUint32(b, uint32(h.count))
	b = le.AppendUint32(b, uint32(h.size))
	b = le.AppendUint64(b, uint64(h.kind))
	b = le.AppendUint64(b, h.begins.number)
	b = le.AppendUint64(b, uint64(h.begins.lsn))
	b = append(b, h.begins.prev[:]...)
	b = append(b, h.prev[:]...)
	h.own = sum(buf)
	copy(buf[len(b):], h.own[:])
}

// sum returns the digest of the bytes of a batch.
func sum(buf []byte) (d digest) {
	s := sha256.New()
	s.Write(buf[:ownAt])
	s.Write(buf[headerSize:])
	s.Sum(d[:0])
	return d
}

var errForm = errors.New("is no batch of a journal")

// parseHeader reads the header that buf begins with; nothing is verified but its form.
func parseHeader(buf []byte) (h header, err error) {
	le := binary.LittleEndian
	if len(buf) < headerSize || string(buf[:8]) != magic {
		return h, errForm
	}
	copy(h.journal[:], buf[8:])
	copy(h.owner[:], buf[24:])
	h.claim, h.number, h.first = le.Uint64(buf[40:]), le.Uint64(buf[48:]), journal.LSN(le.Uint64(buf[56:]))
	h.count, h.size = int(le.Uint32(buf[64:])), int(le.Uint32(buf[68:]))
	of := le.Uint64(buf[72:])
	h.kind = kind(of)
	h.begins.number, h.begins.lsn = le.Uint64(buf[80:]), journal.LSN(le.Uint64(buf[88:]))
	copy(h.begins.prev[:], buf[96:])
	copy(h.prev[:], buf[128:])
	copy(h.own[:], buf[ownAt:])
	if of >= uint64(kinds) || h.number == 0 {
		return h, errForm
	}
	return h, nil
}

// parse reads a whole batch and verifies its digest.
func parse(buf []byte) (b batch, err error) {
	if b.header, err = parseHeader(buf); err != nil {
		return b, err
	}
	b.body = buf[headerSize:]
	switch {
	case len(b.body) < b.size:
		return b, fmt.Errorf("is cut off: %d of %d bytes", len(b.body), b.size)
	case len(b.body) > b.size:
		return b, fmt.Errorf("has %d bytes, not %d", len(b.body), b.size)
	case sum(buf) != b.own:
		return b, errors.New("does not have its digest")
	}
	return b, nil
}

// after returns the number of the record after the batch.
func (h *header) after() journal.LSN { return h.first + journal.LSN(h.count) }

// offsets returns where in the bytes of the batch its records begin.
func (b *batch) offsets() ([]uint32, error) {
	at := make([]uint32, 0, b.count)
	p := 0
	for range b.count {
		if p+recHeader > len(b.body) {
			return nil, errForm
		}
		at = append(at, uint32(headerSize+p+recHeader))
		size := int(binary.LittleEndian.Uint32(b.body[p:]))
		if p += recHeader; size > len(b.body)-p {
			return nil, errForm
		}
		p += size
	}
	return at, nil
}

// recordAt returns the record of a batch at an offset.
func recordAt(buf []byte, at uint32) []byte {
	size := binary.LittleEndian.Uint32(buf[at-recHeader:])
	return buf[at : at+size : at+size]
}

// An Owner is a process that owns a journal, or the directory the journal has moved to.
type Owner struct {
	Home   string // identifies its home: a home may go on after itself
	Name   string // for people
	URL    string // where it answers clients; "": nobody knows
	Left   bool   // it has closed the journal
	Gone   bool   // it is a directory where the journal goes on; the store has all up to there
	Coming bool   // it is a directory whose journal is about to go on here
	Claim  uint64 // number of the batch by which it became the owner
}

// text is two or three lines: former versions know no URL.
func (o *Owner) text() []byte {
	text := o.Home + "\n" + o.Name + "\n"
	if o.URL != "" {
		text += o.URL + "\n"
	}
	return []byte(text)
}

func parseOwner(text []byte) (o Owner, err error) {
	lines := strings.Split(string(text), "\n")
	n := len(lines) - 1
	if n < 2 || n > 3 || lines[n] != "" {
		return o, errForm
	}
	o = Owner{Home: lines[0], Name: lines[1]}
	if n == 3 {
		o.URL = lines[2]
	}
	return o, nil
}

// A FencedError says who owns the journal now. It wraps [journal.ErrFenced].
type FencedError struct{ By string }

func (e *FencedError) Error() string { return fmt.Sprintf("%v: %s", journal.ErrFenced, e.By) }
func (e *FencedError) Unwrap() error { return journal.ErrFenced }

// A DamageError names a damaged or missing batch.
type DamageError struct {
	Name, Text string
	Number     uint64 // of the batch
}

func (e *DamageError) Error() string { return e.Name + " " + e.Text }

func damageOf(number uint64, format string, args ...any) error {
	return damage(number, fmt.Sprintf(format, args...))
}

// damage returns the error for a batch.
func damage(number uint64, text string) error { return &DamageError{nameOf(number), text, number} }
