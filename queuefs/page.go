package queuefs

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"strconv"

	"cutie/queuefs/anvl"
	"cutie/queuefs/durable"
	"cutie/queuefs/journal/segment"
)

// What the index has on disk, in log/index:
//
//	checkpoint          where replay begins, and whether the home was closed
//	doubt               a sync of the file system has failed since the checkpoint
//	queues/QID/queue    numbers and names that the pages need
//	queues/QID/pN       page N
//
// A page file is a header of 32 octets and the image of the slots, which is
// left out if no job of the page is left; the MD5 of the payloads follow if some
// are known. The checksum is of the page's name and of all behind it:
//
//	"CUTIEPG2" | crc u32 | 0 u32 | version u64 | time µs i64 | slots | MD5s
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const (
	pageMagic  = "CUTIEPG2"
	pageHeader = 32
	queueFile  = "queue"
	checkFile  = "checkpoint"
	doubtFile  = "doubt"
)

func pageName(n int) string { return fmt.Sprintf("p%09d", n) }

func parsePageName(name string) (int, bool) {
	if len(name) != 10 || name[0] != 'p' {
		return 0, false
	}
	n, err := strconv.Atoi(name[1:])
	return n, err == nil && n >= 0 && pageName(n) == name
}

// image returns page n of a queue as it stands on disk. What the flags say of
// files and of operations is left out: a checkpoint follows the files.
func (p *page) image(dst []byte, queue string, n int) []byte {
	dst = append(dst[:0], make([]byte, pageHeader)...)
	if !p.vacant() {
		dst = append(dst, p.slots...)
		for i := range PageJobs {
			dst[pageHeader+i*slotSize+1] &= flagHeld | flagLeased
		}
		dst = append(dst, p.md5s...)
	}
	copy(dst, pageMagic)
	binary.LittleEndian.PutUint64(dst[16:], uint64(p.version))
	binary.LittleEndian.PutUint64(dst[24:], uint64(p.at))
	binary.LittleEndian.PutUint32(dst[8:], pageSum(dst, queue, n))
	return dst
}

// pageSum is the checksum of a page file.
func pageSum(data []byte, queue string, n int) uint32 {
	name := crc32.Checksum([]byte(queue+"/"+pageName(n)), castagnoli)
	return crc32.Update(name, castagnoli, data[16:])
}

var errPage = errors.New("index page does not verify")

func parsePage(data []byte, queue string, n int) (*page, error) {
	if len(data) < pageHeader {
		return nil, errPage
	}
	sum := pageSum(data, queue, n)
	magic, size := string(data[:8]), len(data)-pageHeader
	old := magic == oldPageMagic && (size == 0 || size == PageJobs*oldSlotSize)
	if old {
		sum = crc32.Checksum(data[16:], castagnoli)
	} else if magic != pageMagic || size != 0 && size != pageSize && size != pageSize+md5sSize {
		return nil, errPage
	}
	if binary.LittleEndian.Uint32(data[8:]) != sum {
		return nil, errPage
	}
	p := &page{slots: noSlots, version: Seq(binary.LittleEndian.Uint64(data[16:])), at: int64(binary.LittleEndian.Uint64(data[24:])), changed: old}
	switch data = data[pageHeader:]; {
	case size == 0:
		return p, nil
	case old:
		p.slots = newSlots()
		p.takeOld(data)
	default:
		p.slots = newSlots()
		copy(p.slots, data)
		if size > pageSize {
			p.md5s = bytes.Clone(data[pageSize:])
		}
	}
	for i := range PageJobs {
		s := p.slot(i)
		if s[0]&^slotStands != 0 || s[1]&^(flagHeld|flagLeased) != 0 {
			freeSlots(p.slots)
			return nil, errPage
		}
		if st := s.status(); st != 0 {
			s.set(flagPayload)
			s.setFiled(st)
		}
	}
	return p, nil
}

// The pages of version 0.1 up to November 2026 had slots of 128 octets, with an
// MD5 behind either SHA-256, and a checksum without their name.
const (
	oldPageMagic = "CUTIEPG1"
	oldSlotSize  = 128
)

// takeOld reads slots of the earlier layout.
func (p *page) takeOld(data []byte) {
	for i := range PageJobs {
		s, o := p.slot(i), data[i*oldSlotSize:(i+1)*oldSlotSize]
		copy(s, o[:64])
		copy(s.fileSHA(), o[80:112])
		p.setMD5(i, [16]byte(o[64:80]))
	}
}

// unseal reads a state file that ends with a line "crc: ", as they did before
// [durable.Sealed], and returns what stands above that line.
func unseal(data []byte) ([]byte, error) {
	i := max(0, bytes.LastIndex(data, []byte("crc: ")))
	if fmt.Sprintf("crc: %08x\n", crc32.Checksum(data[:i], castagnoli)) != string(data[i:]) {
		return nil, errPage
	}
	return data[:i], nil
}

// queueIndexIn is the file of a queueIndex in the directory of an index.
func queueIndexIn(dir *durable.Dir, queue string) durable.Sealed {
	return durable.Sealed{Dir: dir, Name: queueFile, Kind: "index of queue " + queue, Max: 64 << 20, Old: unseal}
}

// readQueueIndex reads the file of a queueIndex. The error wraps
// [fs.ErrNotExist] or [durable.ErrDamaged] if there is none to go by.
func readQueueIndex(dir *durable.Dir, queue string) (x queueIndex, err error) {
	file := queueIndexIn(dir, queue)
	data, err := file.Read()
	if err != nil {
		return x, err
	}
	if x, err = parseQueueIndex(data); err != nil {
		return x, errors.Join(durable.ErrDamaged, err)
	}
	return x, nil
}

func (s *Service) checkpointFile() durable.Sealed {
	return durable.Sealed{Dir: s.ixdir, Name: checkFile, Kind: "checkpoint", Max: 1 << 16, Old: unseal}
}

// queueIndex is the file that goes with the pages of a queue.
type queueIndex struct {
	mint                mint
	seq                 Seq
	seqTime             int64
	submitted, consumed int64
	created             int64 // µs, when the queue was made; 0: unknown
	types               []string
	info                [32]byte         // SHA-256 of the queue-info.txt that was told last; zero: unknown
	pages               int              // how many there are
	at                  segment.Position // of the checkpoint it belongs to
	dirs                [4]int64         // when the directories last changed, if the home was closed; else 0
	since               segment.Position // what the journal has before is of a former queue of the name
	before              Seq              // last event of former queues of the name
	settings            []byte           // the last queue-info.txt that could be read; nil: unknown
	bare                bool             // written before the first checkpoint: pages say nothing
	empty               bool             // the queue had no jobs when that was written
}

// indexed returns what the file says of the queue; q.mu is held.
func (q *Queue) indexed(at segment.Position) queueIndex {
	x := queueIndex{mint: mint{job: q.job}, seq: q.seq, seqTime: q.seqTime, submitted: q.submitted, consumed: q.consumed,
		created: q.set.info.Created.UnixMicro(), types: q.types, info: q.set.announced, at: at, since: q.since, before: q.before}
	if !q.set.made {
		x.settings = q.set.file
	}
	return x
}

func (x queueIndex) file() []byte {
	var r anvl.Record
	n := func(name string, v int64) { r.Add(name, strconv.FormatInt(v, 10)) }
	n("job", int64(x.mint.job))
	n("sequence", int64(x.seq))
	n("time", x.seqTime)
	n("submitted", x.submitted)
	n("consumed", x.consumed)
	n("created", x.created)
	n("pages", int64(x.pages))
	n("position", int64(x.at))
	n("since", int64(x.since))
	n("before", int64(x.before))
	if x.bare {
		n("bare", 1)
		if x.empty {
			n("empty", 1)
		}
	}
	if x.info != ([32]byte{}) {
		r.Add("info", hex.EncodeToString(x.info[:]))
	}
	if len(x.settings) > 0 {
		r.Add("settings", string(x.settings))
	}
	for _, d := range x.dirs {
		n("directory", d)
	}
	for _, t := range x.types {
		r.Add("type", t)
	}
	return anvl.AppendRecord(nil, r)
}

func parseQueueIndex(data []byte) (x queueIndex, err error) {
	r, err := anvl.ParseRecord(data)
	if err != nil {
		return x, err
	}
	dirs := 0
	for _, e := range r {
		if e.Name == "type" {
			x.types = append(x.types, e.Value)
			continue
		}
		if e.Name == "settings" {
			x.settings = []byte(e.Value)
			continue
		}
		if e.Name == "info" {
			b, err := hex.DecodeString(e.Value)
			if err != nil || len(b) != len(x.info) {
				return x, errPage
			}
			copy(x.info[:], b)
			continue
		}
		v, err := strconv.ParseInt(e.Value, 10, 64)
		if err != nil {
			return x, err
		}
		switch e.Name {
		case "job":
			x.mint.job = JobID(v)
		case "sequence":
			x.seq = Seq(v)
		case "time":
			x.seqTime = v
		case "submitted":
			x.submitted = v
		case "consumed":
			x.consumed = v
		case "created":
			x.created = v
		case "pages":
			x.pages = int(v)
		case "position":
			x.at = segment.Position(v)
		case "since":
			x.since = segment.Position(v)
		case "before":
			x.before = Seq(v)
		case "bare":
			x.bare = v != 0
		case "empty":
			x.empty = v != 0
		case "directory":
			if dirs < len(x.dirs) {
				x.dirs[dirs] = v
				dirs++
			}
		}
	}
	if len(x.types) == 0 || x.types[0] != "" {
		return x, errPage
	}
	x.mint.seq, x.mint.time = x.seq, x.seqTime
	return x, nil
}

// checkpointFile says where replay begins.
type checkpointFile struct {
	past, keep segment.Mark
	clean      bool // closed in order: the files are exact
}

func (c checkpointFile) file() []byte {
	u := func(n uint64) string { return strconv.FormatUint(n, 10) }
	return anvl.AppendRecord(nil, anvl.Record{{Name: "position", Value: u(uint64(c.past.At))}, {Name: "batch", Value: u(c.past.Batch)},
		{Name: "keepPosition", Value: u(uint64(c.keep.At))}, {Name: "keepBatch", Value: u(c.keep.Batch)},
		{Name: "clean", Value: strconv.FormatBool(c.clean)}})
}

// readCheckpoint returns the zero value and false if there is none that
// verifies.
func (s *Service) readCheckpoint() (c checkpointFile, ok bool, err error) {
	var r anvl.Record
	data, err := s.checkpointFile().Read()
	if err == nil {
		r, err = anvl.ParseRecord(data)
	} else if errors.Is(err, fs.ErrNotExist) {
		return c, false, nil
	} else if !errors.Is(err, durable.ErrDamaged) {
		return c, false, err
	}
	if err != nil {
		s.report(Problem{Path: logDir + "/" + indexDir + "/" + checkFile, Text: err.Error() + "; the index is made again from the directories"})
		return c, false, nil
	}
	var v [4]uint64
	for i, name := range []string{"position", "batch", "keepPosition", "keepBatch"} {
		if v[i], err = strconv.ParseUint(r.Value(name), 10, 64); err != nil {
			return c, false, err
		}
	}
	c.past = segment.Mark{At: segment.Position(v[0]), Batch: v[1]}
	c.keep = segment.Mark{At: segment.Position(v[2]), Batch: v[3]}
	c.clean = r.Value("clean") == "true"
	return c, true, nil
}
