package indexfile

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"cutie/queuefs/anvl"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
)

// ParseFormer returns the last numbers of a queue by the file former of older homes:
//
//	name of the queue: job number, a blank, event number
//	*: the same, for all other names
func ParseFormer(data []byte, id string) (last index.Numbers, err error) {
	if data, err = Unseal(data); err != nil {
		return last, err
	}
	r, err := anvl.ParseRecord(data)
	if err != nil {
		return last, err
	}
	for _, e := range r {
		if e.Name == id || e.Name == "*" {
			n, err := parseNumbers(e.Value)
			if err != nil {
				return index.Numbers{}, err
			}
			last = last.Max(n)
		}
	}
	return last, nil
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
		case name != "crc" && name != "seal":
			if n, err := parseNumbers(value); err == nil {
				believe(n) // a line of the old file
			}
		}
	}
	return last
}

// parseNumbers also reads lines without an event number, which are older.
func parseNumbers(text string) (n index.Numbers, err error) {
	first, second, two := strings.Cut(text, " ")
	j, err := strconv.ParseUint(first, 10, 64)
	e := uint64(0)
	if err == nil && two {
		e, err = strconv.ParseUint(second, 10, 64)
	}
	if err == nil && (j > job.MaxID || e > job.MaxSeq) {
		err = fmt.Errorf("%.60q is out of reach", text)
	}
	if err != nil {
		return n, err
	}
	return index.Numbers{Job: job.ID(j), Seq: job.Seq(e)}, nil
}
