package store

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"time"

	"cutie/publisher/names"
	"cutie/queuefs"
)

// Lines are the lines of both sets of a queue in little memory: a home may have many
// queues at rest. The zero Lines are none.
type Lines string

// Pack returns lines without their queue. Times count in microseconds, as in the file.
func Pack(of *[names.Sets]Line) Lines {
	var buf [256]byte
	dst := buf[:0]
	for i := range of {
		dst = of[i].pack(dst)
	}
	return Lines(dst)
}

// Of returns the lines, as those of a queue.
func (l Lines) Of(queue string) (of [names.Sets]Line) {
	p := packed(l)
	for i := range of {
		of[i].unpack(&p)
		of[i].Queue, of[i].Set = queue, names.Set(i)
	}
	return of
}

// Open returns the open lists alone: the rest takes longer.
func (l Lines) Open() (of [names.Sets]OpenList) {
	p := packed(l)
	for i := range of {
		of[i].unpack(&p)
		for range 8 {
			p.number()
		}
		if p.octets(1) == "\x01" {
			p.octets(sha256.Size)
		}
	}
	return of
}

func (l *Line) pack(dst []byte) []byte {
	o, f := &l.Open, &l.Files
	for _, n := range [...]uint64{uint64(o.First), uint64(o.Read), uint64(o.Entries), uint64(o.Length),
		uint64(o.Files)} {
		dst = binary.AppendUvarint(dst, n)
	}
	before := int64(0) // times are near each other
	for _, t := range [...]time.Time{o.From, o.Until, o.Since, o.Changed} {
		dst = binary.AppendVarint(dst, t.UnixMicro()-before)
		before = t.UnixMicro()
	}
	for _, n := range [...]uint64{uint64(l.List), uint64(l.Package), uint64(l.Dump), uint64(f.Lists), uint64(f.Packages), uint64(f.Dumps), uint64(f.Left), uint64(f.Octets)} {
		dst = binary.AppendUvarint(dst, n)
	}
	sum, known := parseSum(l.SHA256)
	if !known {
		return append(dst, 0)
	}
	return append(append(dst, 1), sum[:]...)
}

func (l *Line) unpack(p *packed) {
	f := &l.Files
	l.Open.unpack(p)
	l.List, l.Package, l.Dump = queuefs.Seq(p.number()), queuefs.Seq(p.number()), queuefs.Seq(p.number())
	f.Lists, f.Packages, f.Dumps, f.Left, f.Octets = int(p.number()), int(p.number()), int(p.number()), int(p.number()), int64(p.number())
	if l.SHA256 = Unknown; p.octets(1) == "\x01" {
		l.SHA256 = hex.EncodeToString([]byte(p.octets(sha256.Size)))
	}
}

func (o *OpenList) unpack(p *packed) {
	o.First, o.Read, o.Entries, o.Length = queuefs.Seq(p.number()), queuefs.Seq(p.number()), int(p.number()), int64(p.number())
	o.Files = int64(p.number())
	at := int64(0)
	for _, t := range [...]*time.Time{&o.From, &o.Until, &o.Since, &o.Changed} {
		n := p.number()
		at += int64(n>>1) ^ -int64(n&1)
		*t = time.UnixMicro(at).UTC()
	}
}

// packed is the rest of Lines.
type packed string

func (p *packed) octets(n int) string {
	s := (*p)[:n]
	*p = (*p)[n:]
	return string(s)
}

func (p *packed) number() (n uint64) {
	for shift := 0; ; shift += 7 {
		b := p.octets(1)[0]
		if n |= uint64(b&0x7f) << shift; b < 0x80 {
			return n
		}
	}
}
