package indexfile

import (
	"strconv"

	"cutie/queuefs/anvl"
	"cutie/queuefs/durable"
	"cutie/queuefs/journal"
)

// A Checkpoint says where replay begins.
type Checkpoint struct {
	Past, Keep journal.LSN
	Small      int64  // size of the catalog of small queues; 0: unknown
	Clean      bool   // closed in order: the files are exact
	Stopped    bool   // closed in order, with files behind the journal from Past on
	Former     bool   // from the time of journals with positions, the LSNs of now
	Silent     bool   // from the time of journals that may have no batch at all
	Batch      uint64 // of such a journal, at the earlier of the two
}

// Text returns the contents of the file.
func (c Checkpoint) Text() []byte {
	u := func(n journal.LSN) string { return strconv.FormatUint(uint64(n), 10) }
	r := anvl.Record{{Name: "lsn", Value: u(c.Past)}, {Name: "keep", Value: u(c.Keep)},
		{Name: "clean", Value: strconv.FormatBool(c.Clean)}, {Name: "begun", Value: "true"}}
	if c.Stopped {
		r.Add("stopped", "true")
	}
	if c.Small > 0 {
		r.Add("small", strconv.FormatInt(c.Small, 10))
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
// that was in it at the checkpoint. After a clean stop none is needed. Homes of a former
// program may lack even the batch at the beginning of a segment.
func (c Checkpoint) Reached(reach journal.LSN) bool {
	return c.Clean || c.Silent && reach == 0 || c.Former || reach >= max(c.Past, 1)
}

// ParseCheckpoint reads a checkpoint of either form.
func ParseCheckpoint(r anvl.Record) (c Checkpoint, err error) {
	number := func(name string) (n uint64) {
		if err == nil {
			n, err = strconv.ParseUint(r.Value(name), 10, 64)
		}
		return n
	}
	c.Clean, c.Stopped = r.Value("clean") == "true", r.Value("stopped") == "true"
	c.Silent = r.Value("begun") != "true"
	if r.Value("small") != "" { // homes of before have none
		c.Small = int64(number("small"))
	}
	if c.Former = r.Value("position") != ""; !c.Former {
		c.Past, c.Keep = journal.LSN(number("lsn")), journal.LSN(number("keep"))
		return c, err
	}
	c.Past, c.Keep = journal.LSN(number("position")), journal.LSN(number("keepPosition"))
	c.Batch = number("batch")
	if keep := number("keepBatch"); c.From() != c.Past {
		c.Batch = keep
	}
	return c, err
}

// CheckpointIn is the file of a [Checkpoint] in the directory of the index.
func CheckpointIn(dir *durable.Dir) durable.Sealed {
	return durable.Sealed{Dir: dir, Name: CheckpointName, Kind: "checkpoint", Max: 1 << 16, Old: Unseal}
}
