// Package filing follows the journal of a queue with files: job files, payloads,
// results, packs, and the file of tombstones. Nobody waits for it: a call is answered
// when its record is on stable storage, and readers never see the lag. Files are not
// synced here; a checkpoint syncs the file system once for all.
package filing

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/ledger"
	"cutie/queuefs/packs"
	"cutie/queuefs/tree"
)

const (
	// AtOnce is how many jobs have their files written in one go, and bytesAtOnce
	// what these may have together in the journal: to take turns for every job would
	// cost more than to write it.
	AtOnce      = 32
	bytesAtOnce = 1 << 20

	// writers is how many goroutines write the files of many jobs. They wait for the
	// disk most of the time: for directories, and for what has left the cache.
	writers = 8

	// tries is how often a checkpoint looks again for files behind the journal.
	tries = 100
)

// A Filer writes the files of a queue. Its methods are safe for concurrent use.
type Filer struct {
	Ledger  *ledger.Ledger
	Tree    *tree.Tree
	Packs   *packs.Packs
	InDoubt func() bool // a sync has failed: files may be in the cache alone
}

// A work is a job and the files it is to have.
type work struct {
	*ledger.Behind
	files tree.Files
}

// Some brings the files of the jobs that are behind longest up to the journal, and
// returns how many it took up: at most n, and no more than [AtOnce]. Only one caller at
// a time works on a job. The first error ends it.
func (f *Filer) Some(n int) (int, error) {
	f.Tree.Begin()
	defer f.Tree.End()
	some := f.Ledger.TakeBehind(min(n, AtOnce), bytesAtOnce)
	if len(some) == 0 {
		return 0, nil
	}
	all := make([]work, len(some))
	for i := range some {
		b := &some[i]
		all[i] = work{b, tree.Files{ID: b.ID, Status: b.Status, From: b.Filed, Temp: b.Temp, Size: b.Size, PayloadFiled: b.PayloadFiled}}
	}
	err := f.write(all)
	// In the order of all: failed jobs go to the end.
	last := make([]ledger.Behind, len(all))
	for i := range all {
		all[i].Begun = all[i].files.Begun
		last[i] = *all[i].Behind
	}
	if e := f.Ledger.Written(last); e != nil {
		return 0, errors.Join(err, e)
	}
	return len(all), err
}

// write writes the files of jobs, up to the first error; its job becomes the last of
// them, so that it does not keep the others from their files at every try. Directories
// change in turns, so everything to be read is read before.
func (f *Filer) write(all []work) error {
	ready := 0
	var unready error
	for ; ready < len(all); ready++ {
		if unready = f.prepare(&all[ready]); unready != nil {
			break
		}
	}
	files := make([]*tree.Files, ready)
	for i := range files {
		files[i] = &all[i].files
	}
	placed, unplaced := f.Tree.WritePayloads(files)
	done, undone := f.Tree.WriteJobFiles(files[:placed])
	for i := range done {
		all[i].Done = true
	}
	for i, failed := range []error{unready, unplaced, undone} {
		if failed != nil {
			toLast(all, []int{ready, placed, done}[i])
		}
	}
	return cmp.Or(undone, unplaced, unready)
}

// toLast makes job i the last one.
func toLast(all []work, i int) {
	w := all[i]
	copy(all[i:], all[i+1:])
	all[len(all)-1] = w
}

// prepare reads what the files of a job will have.
func (f *Filer) prepare(w *work) error {
	if err := f.results(w.ID); err != nil {
		return err
	}
	if w.Status != 0 {
		var err error
		wanted := !w.PayloadFiled && w.Temp == "" && w.Journaled.Payload != 0
		if w.files.Text, w.files.Payload, err = f.Ledger.Parts(&w.View, wanted); err != nil {
			return err
		}
	}
	f.Tree.Prepare(&w.files, !f.InDoubt())
	return nil
}

// results brings the results of a job up to the journal. It may be called again after
// any of its steps, and after a crash from the start.
func (f *Filer) results(id job.ID) error {
	b, ok := f.Ledger.Results(id)
	if !ok {
		return nil
	}
	if err := f.Tree.WriteResults(id, b.Work()); err != nil {
		return fmt.Errorf("results of %v: %w", id, err)
	}
	f.Ledger.ResultsWritten(id, b)
	return nil
}

// Many brings the files of the jobs that are behind now up to the journal, as long as
// there is time. Others may write some of them meanwhile.
func (f *Filer) Many(inTime func() bool) error {
	n, until := f.Ledger.Backlog()
	var failed atomic.Bool
	some := func() error {
		for !failed.Load() && inTime() && f.Ledger.TakenBelow(until) {
			n, err := f.Some(AtOnce)
			if err != nil || n == 0 {
				failed.Store(err != nil)
				return err
			}
		}
		return nil
	}
	errs := make([]error, 1+min(n/100, writers-1))
	var others sync.WaitGroup
	for i := range errs[1:] {
		others.Go(func() { errs[1+i] = some() })
	}
	errs[0] = some()
	others.Wait()
	return cmp.Or(errs...) // the others say the same
}

// UpTo brings the files up to the record at of the journal, as long as there is time,
// and returns up to where they are.
func (f *Filer) UpTo(at journal.LSN, inTime func() bool) (journal.LSN, error) {
	for range tries {
		f.Tree.Settle()
		if err := f.Many(inTime); err != nil {
			return 0, err
		}
		f.Tree.Settle()
		switch {
		case !f.Ledger.BehindOf(at):
			return at, nil
		case !inTime():
			return f.Ledger.FiledTo(at), nil
		}
	}
	return 0, errors.New("files do not catch up")
}

// Remove removes the files of all culled jobs, as long as there is time: on a full disk
// the files of others can be written then.
func (f *Filer) Remove(inTime func() bool) error {
	for n := f.Ledger.CulledFirst(); n > 0 && inTime(); {
		done, err := f.Some(n)
		if err != nil {
			return err
		}
		if n -= done; done == 0 {
			break
		}
	}
	return nil
}
