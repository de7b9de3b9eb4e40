package queuefs

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"strconv"

	"cutie/queuefs/anvl"
	"cutie/queuefs/durable"
	"cutie/queuefs/index"
	"cutie/queuefs/journal"
)

// What the index has on disk, in log/index:
//
//	checkpoint          where replay begins, and whether the home was closed
//	doubt               a sync of the file system has failed since the checkpoint
//	queues/QID/queue    numbers and names that the pages need
//	queues/QID/pN       page N
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const (
	queueFile = "queue"
	checkFile = "checkpoint"
	doubtFile = "doubt"
)

func parsePageName(name string) (int, bool) {
	if len(name) != 10 || name[0] != 'p' {
		return 0, false
	}
	n, err := strconv.Atoi(name[1:])
	return n, err == nil && n >= 0 && index.PageName(n) == name
}

// unseal reads a state file from before [durable.Sealed], with a line "crc: "
// at its end, and returns the text above this line.
func unseal(data []byte) ([]byte, error) {
	i := max(0, bytes.LastIndex(data, []byte("crc: ")))
	if fmt.Sprintf("crc: %08x\n", crc32.Checksum(data[:i], castagnoli)) != string(data[i:]) {
		return nil, index.ErrPage
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

// queueIndex is the file beside the pages of a queue.
type queueIndex struct {
	last                index.Numbers
	submitted, consumed int64
	created             int64 // µs, when the queue was made; 0: unknown
	types               []string
	info                [32]byte    // SHA-256 of the queue-info.txt in the last event of it; zero: unknown
	pages               int         // how many there are
	at                  journal.LSN // of the checkpoint it belongs to
	dirs                [4]int64    // when the directories last changed, if the home was closed; else 0
	since               journal.LSN // earlier records are of a former queue of the name
	before              Seq         // last event of former queues of the name
	settings            []byte      // the last legible queue-info.txt; nil: unknown
	bare                bool        // written before the first checkpoint: pages say nothing
	empty               bool        // the queue had no jobs at that time
}

// indexed returns the contents of the file for the queue; q.mu is held.
func (q *Queue) indexed(at journal.LSN) queueIndex {
	x := queueIndex{last: q.idx.Last(), submitted: q.idx.LastSubmit, consumed: q.idx.LastConsume,
		created: q.set.info.Created.UnixMicro(), types: q.idx.MediaTypes(), info: q.set.announced, at: at, since: q.life.since, before: q.life.before}
	if !q.set.made {
		x.settings = q.set.file
	}
	return x
}

func (x queueIndex) file() []byte {
	var r anvl.Record
	n := func(name string, v int64) { r.Add(name, strconv.FormatInt(v, 10)) }
	n("job", int64(x.last.Job))
	n("sequence", int64(x.last.Seq))
	n("time", x.last.Time)
	n("submitted", x.submitted)
	n("consumed", x.consumed)
	n("created", x.created)
	n("pages", int64(x.pages))
	n("lsn", int64(x.at))
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
				return x, index.ErrPage
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
			x.last.Job = JobID(v)
		case "sequence":
			x.last.Seq = Seq(v)
		case "time":
			x.last.Time = v
		case "submitted":
			x.submitted = v
		case "consumed":
			x.consumed = v
		case "created":
			x.created = v
		case "pages":
			x.pages = int(v)
		case "lsn", "position": // a position in a journal of before is an LSN
			x.at = journal.LSN(v)
		case "since":
			x.since = journal.LSN(v)
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
		return x, index.ErrPage
	}
	return x, nil
}

// checkpointFile says where replay begins.
type checkpointFile struct {
	past, keep journal.LSN
	clean      bool   // closed in order: the files are exact
	former     bool   // from the time of journals with positions, the LSNs of now
	batch      uint64 // of such a journal, at the earlier of the two
}

func (c checkpointFile) file() []byte {
	u := func(n journal.LSN) string { return strconv.FormatUint(uint64(n), 10) }
	return anvl.AppendRecord(nil, anvl.Record{{Name: "lsn", Value: u(c.past)}, {Name: "keep", Value: u(c.keep)},
		{Name: "clean", Value: strconv.FormatBool(c.clean)}})
}

// from returns where replay begins.
func (c checkpointFile) from() journal.LSN {
	if c.keep != 0 {
		return min(c.keep, c.past)
	}
	return c.past
}

// parseCheckpoint reads a checkpoint of either form.
func parseCheckpoint(r anvl.Record) (c checkpointFile, err error) {
	number := func(name string) (n uint64) {
		if err == nil {
			n, err = strconv.ParseUint(r.Value(name), 10, 64)
		}
		return n
	}
	c.clean = r.Value("clean") == "true"
	if c.former = r.Value("position") != ""; !c.former {
		c.past, c.keep = journal.LSN(number("lsn")), journal.LSN(number("keep"))
		return c, err
	}
	c.past, c.keep = journal.LSN(number("position")), journal.LSN(number("keepPosition"))
	c.batch = number("batch")
	if keep := number("keepBatch"); c.from() != c.past {
		c.batch = keep
	}
	return c, err
}

// readCheckpoint returns the zero value and false without a file that verifies.
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
	c, err = parseCheckpoint(r)
	return c, err == nil, err
}
