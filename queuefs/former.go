package queuefs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"cutie/queuefs/anvl"
	"cutie/queuefs/durable"
)

// A queue made again under the name of one that was removed goes on with its
// job numbers and its event numbers: what was known under the reference of a
// job, or under the name of a document that ends with an event, in caches and
// in the notes of clients, never comes to mean another. The last numbers of
// each queue that was removed are kept in log/index/former:
//
//	name of the queue: job number, a blank, event number
//	*: the same, of all queues whose lines had to make room
const (
	formerFile = "former"
	formerRest = "*"
	maxFormer  = 10_000 // lines
)

// numbers are the last that a queue gave out, of a job and of an event.
type numbers struct {
	job JobID
	seq Seq
}

func (n numbers) max(o numbers) numbers { return numbers{max(n.job, o.job), max(n.seq, o.seq)} }

func (n numbers) String() string { return fmt.Sprintf("%d %d", n.job, n.seq) }

// parseNumbers also reads lines of the time when event numbers were not kept.
func parseNumbers(text string) (n numbers, err error) {
	job, seq, two := strings.Cut(text, " ")
	j, err := strconv.ParseUint(job, 10, 64)
	e := uint64(0)
	if err == nil && two {
		e, err = strconv.ParseUint(seq, 10, 64)
	}
	if err == nil && (j > maxJobID || e > maxSeq) {
		err = fmt.Errorf("%.60q is out of reach", text)
	}
	if err != nil {
		return numbers{}, err
	}
	return numbers{JobID(j), Seq(e)}, nil
}

func (s *Service) formerFile() durable.Sealed {
	return durable.Sealed{Dir: s.ixdir, Name: formerFile, Kind: "numbers of former queues", Max: 16 << 20, Old: unseal}
}

// readFormer returns the lines of the file, oldest first. A damaged file is set
// aside, and another is written from its legible lines.
func (s *Service) readFormer() (anvl.Record, error) {
	file := s.formerFile()
	data, err := file.Read()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		var r anvl.Record
		if r, err = anvl.ParseRecord(data); err == nil {
			return r, nil
		}
	} else if !errors.Is(err, durable.ErrDamaged) {
		return nil, err
	}
	why := err
	if data, err = s.ixdir.ReadFile(formerFile, nil, file.Max*2); err != nil {
		return nil, err
	}
	r := s.salvage(string(data))
	const copied = durable.TempPrefix + formerFile
	if err := s.ixdir.Replace(copied, data); err != nil {
		return nil, err
	}
	aside, err := s.ixdir.SetAside(s.ixdir, copied, formerFile)
	if err != nil {
		return nil, err
	}
	// The copy is set aside first: after a crash between the two there are both.
	if err := file.Write(anvl.AppendRecord(nil, r)); err != nil {
		return nil, err
	}
	s.report(Problem{Path: logDir + "/" + indexDir + "/" + formerFile, Text: fmt.Sprintf(
		"%v; set aside as %s; queues made again begin above the highest numbers that could be read, %v", why, aside, lastOf(r, formerRest))})
	return r, nil
}

// salvage returns what can be read of a damaged file. Since any of its lines
// may be wrong or gone, the highest number of them and of all queues counts for
// every name. A number that would leave few behind it is not believed.
func (s *Service) salvage(text string) (r anvl.Record) {
	var rest numbers
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		n, err := parseNumbers(value)
		if !ok || err != nil || n.job > maxJobID/2 || n.seq > maxJobID/2 || name == "crc" || name == "seal" {
			continue
		}
		rest = rest.max(n)
		if id, err := CleanQueueID(name); err == nil && id == name {
			r = retired(r, id, n)
		}
	}
	for _, q := range s.Queues() {
		rest = rest.max(q.numbers())
	}
	return retired(r, formerRest, rest)
}

// numbers returns the last numbers of the queue.
func (q *Queue) numbers() numbers {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return numbers{q.mint.job, q.mint.seq}
}

// retire keeps the last numbers of queues that are about to go, or were found
// gone, before what the index has of them goes. If they do not, the lines do no
// harm.
func (s *Service) retire(last map[string]numbers) error {
	r, err := s.readFormer()
	if err != nil {
		return err
	}
	more := false
	for _, id := range slices.Sorted(maps.Keys(last)) {
		was := lastOf(r, id)
		if known := was.max(lastOf(r, formerRest)); known.max(last[id]) != known {
			r, more = retired(r, id, was.max(last[id])), true
		}
	}
	if !more {
		return nil
	}
	return s.formerFile().Write(anvl.AppendRecord(nil, r))
}

// retireStrays is retire for the queues that the journal speaks of and
// queues.txt does not list. Until it has done it no journal goes.
func (s *Service) retireStrays() error {
	err := s.retire(s.strays)
	if err == nil {
		s.strays = nil
	}
	return err
}

// retired returns the lines with that of a queue at their end.
func retired(r anvl.Record, id string, last numbers) anvl.Record {
	rest := lastOf(r, formerRest)
	if id == formerRest {
		rest = rest.max(last)
	}
	r = slices.DeleteFunc(r, func(e anvl.Element) bool { return e.Name == id || e.Name == formerRest })
	for ; len(r) >= maxFormer; r = r[1:] {
		rest = rest.max(lastOf(r[:1], r[0].Name))
	}
	if id != formerRest {
		r.Add(id, last.String())
	}
	if rest != (numbers{}) {
		r.Add(formerRest, rest.String())
	}
	return r
}

// former returns the last numbers that a queue of the name may have given out
// before.
func (s *Service) former(id string) (numbers, error) {
	r, err := s.readFormer()
	return lastOf(r, id).max(lastOf(r, formerRest)), err
}

func lastOf(r anvl.Record, name string) numbers {
	for _, e := range r {
		if e.Name == name {
			n, _ := parseNumbers(e.Value)
			return n
		}
	}
	return numbers{}
}

// remains returns the highest numbers that the index speaks of in the directory
// of a queue that is not open. Other hands may have taken the queue away while
// the home was closed.
func (s *Service) remains(id string) (last numbers, err error) {
	all, err := s.ixdir.Sub(queuesDir)
	if errors.Is(err, fs.ErrNotExist) {
		return last, nil
	}
	if err != nil {
		return last, err
	}
	defer all.Close()
	dir, err := all.Sub(id)
	if errors.Is(err, fs.ErrNotExist) {
		return last, nil
	}
	if err != nil {
		return last, err
	}
	defer dir.Close()
	return indexedNumbers(dir, id)
}

// indexedNumbers returns the highest numbers that the files of an index speak
// of. Without a queue file that verifies, all numbers of a page may have been
// given out.
func indexedNumbers(dir *durable.Dir, queue string) (last numbers, err error) {
	x, err := readQueueIndex(dir, queue)
	switch {
	case err == nil:
		return numbers{x.mint.job, x.seq}, nil
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, durable.ErrDamaged):
		return last, err
	}
	pages, err := pageNumbers(dir)
	if err != nil {
		return last, err
	}
	var buf []byte
	for _, n := range pages {
		last.job = max(last.job, min(JobID(n+1)*PageJobs-1, maxJobID))
		if buf, err = dir.ReadFile(pageName(n), buf[:0], 2*pageSize); err != nil {
			return last, err
		}
		if p, err := parsePage(buf); err == nil {
			last.seq = max(last.seq, p.version)
			freeSlots(p.slots)
		}
	}
	return last, nil
}
