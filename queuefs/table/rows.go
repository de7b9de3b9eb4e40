package table

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"cutie/queuefs/anvl"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
)

// Keys of the kind [Meta].
const (
	CheckpointKey = "checkpoint" // a [Checkpoint]
	FloorKey      = "floor"      // a [Queue] with last numbers that no removed queue has gone above, after rows were lost
	ServiceKey    = "service"    // the last legible cutie-info.txt
)

// PageKey returns the key of page n of a queue.
func PageKey(queue string, n int) string {
	return string(binary.BigEndian.AppendUint32([]byte(queue+"\x00"), uint32(n)))
}

// PageNumber returns the number of a page by the key of its row.
func PageNumber(key string) int {
	if len(key) < 4 {
		return 0
	}
	return int(binary.BigEndian.Uint32([]byte(key[len(key)-4:])))
}

// CulledKey returns the key of the tombstone of an event of a queue.
func CulledKey(queue string, seq job.Seq) string {
	return string(binary.BigEndian.AppendUint64([]byte(queue+"\x00"), uint64(seq)))
}

// Of returns what the keys of pages and tombstones of a queue begin with.
func Of(queue string) string { return queue + "\x00" }

// A Checkpoint says where replay begins.
type Checkpoint struct {
	Past, Keep journal.LSN
	Clean      bool // closed in order: the files are exact
	Stopped    bool // closed in order, with files behind the journal from Past on
}

// Text returns the contents of the row.
func (c Checkpoint) Text() []byte {
	u := func(n journal.LSN) string { return strconv.FormatUint(uint64(n), 10) }
	r := anvl.Record{{Name: "lsn", Value: u(c.Past)}, {Name: "keep", Value: u(c.Keep)},
		{Name: "clean", Value: strconv.FormatBool(c.Clean)}, {Name: "format", Value: format}}
	if c.Stopped {
		r.Add("stopped", "true")
	}
	return anvl.AppendRecord(nil, r)
}

// From returns where replay begins.
func (c Checkpoint) From() journal.LSN {
	if c.Keep != 0 {
		return min(c.Keep, c.Past)
	}
	return c.Past
}

// Reached reports whether a journal with records up to reach, 0 for none at all, has all
// that was in it at the checkpoint. After a clean stop none is needed.
func (c Checkpoint) Reached(reach journal.LSN) bool {
	return c.Clean || reach >= max(c.Past, 1)
}

// format is the number of the form of a home: of its index, its journal and its records.
const format = "1"

// ErrFormat is the error for a home of another format.
var ErrFormat = errors.New("the home is of another version")

// ParseCheckpoint reads a checkpoint. The error is [ErrFormat] for another format.
func ParseCheckpoint(text []byte) (c Checkpoint, err error) {
	r, err := anvl.ParseRecord(text)
	if err != nil {
		return c, err
	}
	if f := r.Value("format"); f != format {
		return c, fmt.Errorf("%w: it has format %q, and this program reads format %s; use the program that wrote it", ErrFormat, f, format)
	}
	number := func(name string) (n uint64) {
		if err == nil {
			n, err = strconv.ParseUint(r.Value(name), 10, 64)
		}
		return n
	}
	c.Clean, c.Stopped = r.Value("clean") == "true", r.Value("stopped") == "true"
	c.Past, c.Keep = journal.LSN(number("lsn")), journal.LSN(number("keep"))
	return c, err
}

// A Queue is the row of a queue, beside its pages.
type Queue struct {
	Last                index.Numbers
	Submitted, Consumed int64
	Created             int64 // µs, when the queue was made; 0: unknown
	Types               []string
	Info                [32]byte    // SHA-256 of the queue-info.txt in the last event of it; zero: unknown
	Pages               int         // how many there are
	Versions            int64       // [Sum] over them; 0: more pages are on their way
	At                  journal.LSN // of the checkpoint it belongs to
	Dirs                [4]int64    // when the directories last changed, if the home was closed; else 0
	Since               journal.LSN // earlier records are of a former queue of the name
	Before              job.Seq     // last event of former queues of the name
	Settings            []byte      // the last legible queue-info.txt; nil: unknown
	Stamp               string      // of the file with the settings, see [home.Reading.Stamp]; "": unknown
	Bare                bool        // written before the first checkpoint: pages say nothing
	Empty               bool        // the queue had no jobs at that time
	Mirror              bool        // the queue was a mirror, not yet live
}

// Text returns the contents of the row.
func (x Queue) Text() []byte {
	var r anvl.Record
	n := func(name string, v int64) { r.Add(name, strconv.FormatInt(v, 10)) }
	n("job", int64(x.Last.Job))
	n("sequence", int64(x.Last.Seq))
	n("time", x.Last.Time)
	n("submitted", x.Submitted)
	n("consumed", x.Consumed)
	n("created", x.Created)
	n("pages", int64(x.Pages))
	n("versions", x.Versions)
	n("lsn", int64(x.At))
	n("since", int64(x.Since))
	n("before", int64(x.Before))
	if x.Bare {
		n("bare", 1)
		if x.Empty {
			n("empty", 1)
		}
	}
	if x.Mirror {
		n("mirror", 1)
	}
	if x.Info != ([32]byte{}) {
		r.Add("info", hex.EncodeToString(x.Info[:]))
	}
	if len(x.Settings) > 0 {
		r.Add("settings", string(x.Settings))
		if x.Stamp != "" {
			r.Add("stamp", x.Stamp)
		}
	}
	for _, d := range x.Dirs {
		n("directory", d)
	}
	for _, t := range x.Types {
		r.Add("type", t)
	}
	return anvl.AppendRecord(nil, r)
}

// ParseQueue reads the output of Text.
func ParseQueue(data []byte) (x Queue, err error) {
	r, err := anvl.ParseRecord(data)
	if err != nil {
		return x, err
	}
	dirs := 0
	for _, e := range r {
		if e.Name == "type" {
			x.Types = append(x.Types, e.Value)
			continue
		}
		if e.Name == "settings" {
			x.Settings = []byte(e.Value)
			continue
		}
		if e.Name == "stamp" {
			x.Stamp = e.Value
			continue
		}
		if e.Name == "info" {
			b, err := hex.DecodeString(e.Value)
			if err != nil || len(b) != len(x.Info) {
				return x, index.ErrPage
			}
			copy(x.Info[:], b)
			continue
		}
		v, err := strconv.ParseInt(e.Value, 10, 64)
		if err != nil {
			return x, err
		}
		switch e.Name {
		case "job":
			x.Last.Job = job.ID(v)
		case "sequence":
			x.Last.Seq = job.Seq(v)
		case "time":
			x.Last.Time = v
		case "submitted":
			x.Submitted = v
		case "consumed":
			x.Consumed = v
		case "created":
			x.Created = v
		case "pages":
			x.Pages = int(v)
		case "versions":
			x.Versions = v
		case "lsn":
			x.At = journal.LSN(v)
		case "since":
			x.Since = journal.LSN(v)
		case "before":
			x.Before = job.Seq(v)
		case "bare":
			x.Bare = v != 0
		case "empty":
			x.Empty = v != 0
		case "mirror":
			x.Mirror = v != 0
		case "directory":
			if dirs < len(x.Dirs) {
				x.Dirs[dirs] = v
				dirs++
			}
		}
	}
	if len(x.Types) == 0 || x.Types[0] != "" {
		return x, index.ErrPage
	}
	return x, nil
}

// Sum adds the version of page n to a digest over the versions of the pages of a queue. It
// tells that a page is an older one.
func Sum(of int64, n int, version job.Seq) int64 {
	const prime = 1099511628211 // of FNV-1a, by words
	h := uint64(of)
	for _, w := range [...]uint64{uint64(n) + 1, uint64(version)} {
		h = (h ^ w) * prime
		h ^= h >> 29
	}
	return int64(h>>1 | 1) // never 0, nor negative
}
