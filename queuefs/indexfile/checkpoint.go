package indexfile

import (
	"errors"
	"fmt"
	"strconv"

	"cutie/queuefs/anvl"
	"cutie/queuefs/durable"
	"cutie/queuefs/journal"
)

// A Checkpoint says where replay begins.
type Checkpoint struct {
	Past, Keep journal.LSN
	Small      int64 // size of the catalog of small queues; 0: unknown
	Clean      bool  // closed in order: the files are exact
	Stopped    bool  // closed in order, with files behind the journal from Past on
}

// Text returns the contents of the file.
func (c Checkpoint) Text() []byte {
	u := func(n journal.LSN) string { return strconv.FormatUint(uint64(n), 10) }
	r := anvl.Record{{Name: "lsn", Value: u(c.Past)}, {Name: "keep", Value: u(c.Keep)},
		{Name: "clean", Value: strconv.FormatBool(c.Clean)}, {Name: "format", Value: format}}
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
// that was in it at the checkpoint. After a clean stop none is needed.
func (c Checkpoint) Reached(reach journal.LSN) bool {
	return c.Clean || reach >= max(c.Past, 1)
}

// format is the number of the form of a home: of its index, its journal and its records.
const format = "1"

// ErrFormat is the error for a home of another format.
var ErrFormat = errors.New("the home is of another version")

// ParseCheckpoint reads a checkpoint. The error is [ErrFormat] for another format.
func ParseCheckpoint(r anvl.Record) (c Checkpoint, err error) {
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
	if r.Value("small") != "" {
		c.Small = int64(number("small"))
	}
	return c, err
}

// CheckpointIn is the file of a [Checkpoint] in the directory of the index.
func CheckpointIn(dir *durable.Dir) durable.Sealed {
	return durable.Sealed{Dir: dir, Name: CheckpointName, Kind: "checkpoint", Max: 1 << 16}
}
