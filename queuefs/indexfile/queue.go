package indexfile

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"cutie/queuefs/anvl"
	"cutie/queuefs/durable"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
)

// A Queue is the file beside the pages of a queue.
type Queue struct {
	Last                index.Numbers
	Submitted, Consumed int64
	Created             int64 // µs, when the queue was made; 0: unknown
	Types               []string
	Info                [32]byte    // SHA-256 of the queue-info.txt in the last event of it; zero: unknown
	Pages               int         // how many there are
	At                  journal.LSN // of the checkpoint it belongs to
	Dirs                [4]int64    // when the directories last changed, if the home was closed; else 0
	Since               journal.LSN // earlier records are of a former queue of the name
	Before              job.Seq     // last event of former queues of the name
	Settings            []byte      // the last legible queue-info.txt; nil: unknown
	Stamp               string      // of the file with the settings, see [home.Reading.Stamp]; "": unknown
	Bare                bool        // written before the first checkpoint: pages say nothing
	Empty               bool        // the queue had no jobs at that time
	Culled              job.Seq     // of the last tombstone in its file; 0: unknown
	Mirror              bool        // the queue was a mirror, not yet live
}

// Text returns the contents of the file.
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
	if x.Culled != 0 {
		n("culled", int64(x.Culled))
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
		case "lsn":
			x.At = journal.LSN(v)
		case "since":
			x.Since = journal.LSN(v)
		case "before":
			x.Before = job.Seq(v)
		case "culled":
			x.Culled = job.Seq(v)
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

// QueueIn is the file of a [Queue] in the directory of its index.
func QueueIn(dir *durable.Dir, queue string) durable.Sealed {
	return durable.Sealed{Dir: dir, Name: QueueName, Kind: "index of queue " + queue, Max: 64 << 20}
}

// ReadQueue reads the file of a [Queue]. The error wraps
// [fs.ErrNotExist] or [durable.ErrDamaged] if there is none to go by.
func ReadQueue(dir *durable.Dir, queue string) (x Queue, err error) {
	file := QueueIn(dir, queue)
	data, err := file.Read()
	if err != nil {
		return x, err
	}
	if x, err = ParseQueue(data); err != nil {
		return x, fmt.Errorf("%w: %w", durable.ErrDamaged, err)
	}
	return x, nil
}

// Salvage returns the highest numbers in the lines of a damaged file: any line can be
// wrong or missing. A number that leaves few after it is not believed.
func Salvage(data []byte) (last index.Numbers) {
	believe := func(n index.Numbers) {
		if n.Job <= job.MaxID/2 && n.Seq <= job.MaxID/2 {
			last = last.Max(n)
		}
	}
	for line := range bytes.Lines(data) {
		name, value, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), ": ")
		n, err := strconv.ParseUint(value, 10, 64)
		switch {
		case err == nil && name == "job":
			believe(index.Numbers{Job: job.ID(n)})
		case err == nil && name == "sequence":
			believe(index.Numbers{Seq: job.Seq(n)})
		}
	}
	return last
}
