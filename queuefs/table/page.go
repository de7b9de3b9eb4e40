package table

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"

	"cutie/queuefs/durable"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
)

// A page of texts has the job files of the jobs of one page of the index, in frames of
// [frameJobs] jobs that are compressed each for itself, so that one job is read by unpacking
// one frame, and a change packs one frame anew:
//
//	magic "CUTIEJF1" | page u32 | frames u32 | version u64 | CRC-32C u32 | directory | frames
//
// The checksum covers what comes before it, and the directory. The directory has an entry
// for each frame, and none for a frame without jobs:
//
//	first job u16 | jobs u16 | length unpacked u32 | length u32 | CRC-32C of the frame u32
//
// Jobs count from the first one of the page. A text longer than [longText] is alone in its
// frame, marked by [aloneBit] beside its first job, so that it is not unpacked for its
// neighbours. Frames stand in the order of their first jobs, a lone one after the others of
// its group. A frame is compressed by zstd, and unpacked it has records:
//
//	job u64 | LSN u64 | length u32 | text

// A Page has the job files of [index.PageJobs] jobs. It is not changed once it is made: see
// [Page.With].
type Page struct {
	Number  int
	Version job.Seq // last event of the page

	frames []frame
}

// A Text is the job file of a job.
type Text struct {
	Job  job.ID
	At   journal.LSN // of the record that wrote it; 0: it is from the directory
	Text []byte      // nil for [Page.With]: the job is gone
}

// A frame is a frame as it is on disk.
type frame struct {
	first  int // of the jobs it can have, within the page
	alone  bool
	jobs   int
	length int // unpacked
	packed []byte
	sum    uint32
}

const (
	textMagic   = "CUTIEJF1"
	textHeader  = 28
	textEntry   = 16
	textRecord  = 20 // of a text, before it
	frameJobs   = 64
	longText    = 64 << 10
	aloneBit    = 1 << 15
	groupLength = frameJobs * (textRecord + longText) // of a frame unpacked, at most
)

// MaxText bounds a job file, in bytes: a sidecar with every byte escaped, and the rest.
const MaxText = 3*job.MaxSidecar + 256<<10

// zip has the encoder and the decoder of all frames.
var zip = sync.OnceValue(func() (z struct {
	*zstd.Encoder
	*zstd.Decoder
}) {
	var err error
	z.Encoder, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2),
		zstd.WithWindowSize(256<<10), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
	if err == nil {
		z.Decoder, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(groupLength))
	}
	if err != nil {
		panic(err) // the options are wrong
	}
	return z
})

// pageDamage is the error for contents that are no page.
func pageDamage(format string, a ...any) error {
	return fmt.Errorf("page of texts: %w: "+format, append([]any{durable.ErrDamaged}, a...)...)
}

// ParsePage reads a page that Append wrote. It unpacks no frame. The error wraps
// [durable.ErrDamaged].
func ParsePage(data []byte) (*Page, error) {
	le := binary.LittleEndian
	if len(data) < textHeader || string(data[:8]) != textMagic {
		return nil, pageDamage("no header")
	}
	frames := int(le.Uint32(data[12:]))
	if frames > index.PageJobs+index.PageJobs/frameJobs || len(data) < textHeader+frames*textEntry {
		return nil, pageDamage("%d frames in %d bytes", frames, len(data))
	}
	directory, rest := data[textHeader:textHeader+frames*textEntry], data[textHeader+frames*textEntry:]
	if le.Uint32(data[24:]) != headSum(data[:24], directory) {
		return nil, pageDamage("its directory does not verify")
	}
	p := &Page{Number: int(le.Uint32(data[8:])), Version: job.Seq(le.Uint64(data[16:])), frames: make([]frame, frames)}
	last := -1
	for i := range p.frames {
		e := directory[i*textEntry:]
		first, length := int(le.Uint16(e)), int(le.Uint32(e[8:]))
		f := frame{first: first &^ aloneBit, alone: first&aloneBit != 0, jobs: int(le.Uint16(e[2:])),
			length: int(le.Uint32(e[4:])), sum: le.Uint32(e[12:])}
		if !f.possible() || f.order() <= last || length > len(rest) {
			return nil, pageDamage("entry %d of its directory", i)
		}
		last = f.order()
		f.packed, rest = rest[:length:length], rest[length:]
		p.frames[i] = f
	}
	if len(rest) > 0 {
		return nil, pageDamage("%d bytes after its frames", len(rest))
	}
	return p, nil
}

func headSum(head, directory []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, directory)
}

// possible reports whether the numbers of a frame are those of one that With makes.
func (f *frame) possible() bool {
	if f.alone {
		return f.first < index.PageJobs && f.jobs == 1 && f.length > textRecord+longText && f.length <= textRecord+MaxText
	}
	return f.first < index.PageJobs && f.first%frameJobs == 0 && f.jobs > 0 && f.jobs <= frameJobs &&
		f.length >= f.jobs*textRecord && f.length <= groupLength
}

// order is the place of the frame among others.
func (f *frame) order() int {
	if f.alone {
		return 2*f.first + 1
	}
	return 2 * f.first
}

// group is the number of the group of jobs that the frame is of.
func (f *frame) group() int { return f.first / frameJobs }

// Append appends the page in its form on disk.
func (p *Page) Append(dst []byte) []byte {
	le := binary.LittleEndian
	start := len(dst)
	dst = le.AppendUint32(append(dst, textMagic...), uint32(p.Number))
	dst = le.AppendUint32(dst, uint32(len(p.frames)))
	dst = le.AppendUint64(dst, uint64(p.Version))
	dst = le.AppendUint32(dst, 0)
	for i := range p.frames {
		f := &p.frames[i]
		first := f.first
		if f.alone {
			first |= aloneBit
		}
		dst = le.AppendUint16(dst, uint16(first))
		dst = le.AppendUint16(dst, uint16(f.jobs))
		dst = le.AppendUint32(dst, uint32(f.length))
		dst = le.AppendUint32(dst, uint32(len(f.packed)))
		dst = le.AppendUint32(dst, f.sum)
	}
	head := dst[start:]
	le.PutUint32(head[24:], headSum(head[:24], head[textHeader:]))
	for i := range p.frames {
		dst = append(dst, p.frames[i].packed...)
	}
	return dst
}

// Frame returns the texts of the frame that has the text of a job, or would have it. They
// share memory. The error wraps [durable.ErrDamaged].
func (p *Page) Frame(id job.ID) ([]Text, error) {
	within := int(id % index.PageJobs)
	var found *frame
	for i := range p.frames {
		if f := &p.frames[i]; f.alone && f.first == within || !f.alone && f.group() == within/frameJobs {
			found = f // a lone one comes after the others of its group
		}
	}
	if found == nil {
		return nil, nil
	}
	return p.unpack(found)
}

// Texts returns all texts of the page, in the order of their jobs, see Frame.
func (p *Page) Texts() (all []Text, err error) {
	for i := range p.frames {
		some, err := p.unpack(&p.frames[i])
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	slices.SortFunc(all, Text.compare)
	return all, nil
}

func (t Text) compare(o Text) int { return cmp.Compare(t.Job, o.Job) }

// unpack reads a frame.
func (p *Page) unpack(f *frame) ([]Text, error) {
	if crc32.Checksum(f.packed, castagnoli) != f.sum {
		return nil, pageDamage("the frame of job %d does not verify", f.first)
	}
	data, err := zip().DecodeAll(f.packed, make([]byte, 0, f.length))
	if err != nil || len(data) != f.length {
		return nil, pageDamage("the frame of job %d does not unpack", f.first)
	}
	le := binary.LittleEndian
	texts := make([]Text, 0, f.jobs)
	last := job.ID(p.Number)*index.PageJobs + job.ID(f.first)
	end := last + frameJobs
	if f.alone {
		end = last + 1
	}
	for len(data) >= textRecord {
		t := Text{Job: job.ID(le.Uint64(data)), At: journal.LSN(le.Uint64(data[8:]))}
		n := int(le.Uint32(data[16:]))
		if data = data[textRecord:]; n > len(data) || n > longText != f.alone || t.Job < last || t.Job >= end {
			break
		}
		t.Text, data = data[:n:n], data[n:]
		last = t.Job + 1
		texts = append(texts, t)
	}
	if len(data) > 0 || len(texts) != f.jobs {
		return nil, pageDamage("the frame of job %d has no records", f.first)
	}
	return texts, nil
}

// pack makes a frame of texts.
func pack(first int, alone bool, texts []Text) frame {
	size := 0
	for _, t := range texts {
		size += textRecord + len(t.Text)
	}
	le := binary.LittleEndian
	data := make([]byte, 0, size)
	for _, t := range texts {
		data = le.AppendUint64(data, uint64(t.Job))
		data = le.AppendUint64(data, uint64(t.At))
		data = le.AppendUint32(data, uint32(len(t.Text)))
		data = append(data, t.Text...)
	}
	f := frame{first: first, alone: alone, jobs: len(texts), length: len(data), packed: zip().EncodeAll(data, nil)}
	f.sum = crc32.Checksum(f.packed, castagnoli)
	return f
}

// With returns the page at a version, with other texts of some of its jobs, at most one a
// job; a job without a text is gone. Frames without any of them are those of p. The error
// wraps [durable.ErrDamaged].
func (p *Page) With(version job.Seq, changed []Text) (*Page, error) {
	var groups [index.PageJobs / frameJobs][]Text
	for _, t := range changed {
		if len(t.Text) > MaxText || int(t.Job/index.PageJobs) != p.Number {
			return nil, fmt.Errorf("job file of %v: %w", t.Job, job.ErrTooBig)
		}
		g := int(t.Job%index.PageJobs) / frameJobs
		groups[g] = append(groups[g], t)
	}
	to := &Page{Number: p.Number, Version: version}
	next := 0
	for g, some := range groups {
		from := next
		for next < len(p.frames) && p.frames[next].group() == g {
			next++
		}
		if len(some) == 0 {
			to.frames = append(to.frames, p.frames[from:next]...)
			continue
		}
		for i := range p.frames[from:next] {
			texts, err := p.unpack(&p.frames[from+i])
			if err != nil {
				return nil, err
			}
			some = append(some, texts...) // behind those that take their places
		}
		to.add(g, some)
	}
	return to, nil
}

// add adds the frames of a group. Of two texts of a job the first one counts.
func (p *Page) add(g int, texts []Text) {
	slices.SortStableFunc(texts, Text.compare)
	texts = slices.CompactFunc(texts, func(a, b Text) bool { return a.Job == b.Job })
	var short []Text
	var lone []frame
	for i, t := range texts {
		switch {
		case t.Text == nil:
		case len(t.Text) > longText:
			lone = append(lone, pack(int(t.Job%index.PageJobs), true, texts[i:i+1]))
		default:
			short = append(short, t)
		}
	}
	if len(short) > 0 {
		p.frames = append(p.frames, pack(g*frameJobs, false, short))
	}
	p.frames = append(p.frames, lone...)
}
