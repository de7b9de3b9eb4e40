package queuefs

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/ledger"
	"cutie/queuefs/packs"
	"cutie/queuefs/tree"
)

const (
	// filesAtOnce is how many jobs have their files written in one go, and bytesAtOnce
	// what these may have together in the journal: to take turns for every job would
	// cost more than to write it.
	filesAtOnce = 32
	bytesAtOnce = 1 << 20

	// writers is how many goroutines write the files of many jobs. They wait for the
	// disk most of the time: for directories, and for what has left the cache.
	writers = 8

	// tries is how often a checkpoint looks again for files behind the journal.
	tries = 100
)

// Files follow the journal: job files, payloads, results, packs, and the file of
// tombstones. Nobody waits for them: a call is answered when its record is on stable
// storage, and readers never see the lag. Files are not synced here; a checkpoint syncs
// the file system once for all.

// An unfiled is a job and the files it is to have.
type unfiled struct {
	*ledger.Behind
	files tree.Files
}

// fileSome brings the files of the jobs that are behind longest up to the journal, and
// returns how many it took up: at most n, and no more than [filesAtOnce]. Only one caller at
// a time works on a job. The first error ends it.
func (q *Queue) fileSome(n int) (int, error) {
	q.tree.Begin()
	defer q.tree.End()
	some := q.ledger.TakeBehind(min(n, filesAtOnce), bytesAtOnce)
	if len(some) == 0 {
		return 0, nil
	}
	all := make([]unfiled, len(some))
	for i := range some {
		b := &some[i]
		all[i] = unfiled{b, tree.Files{ID: b.ID, Status: b.Status, From: b.Filed, Temp: b.Temp, Size: b.Size, PayloadFiled: b.PayloadFiled}}
	}
	err := q.writeFiles(all)
	// In the order of all: failed jobs go to the end.
	last := make([]ledger.Behind, len(all))
	for i := range all {
		all[i].Begun = all[i].files.Begun
		last[i] = *all[i].Behind
	}
	if e := q.ledger.Written(last); e != nil {
		return 0, errors.Join(err, e)
	}
	return len(all), err
}

// writeFiles writes the files of jobs, up to the first error; its job becomes the last of
// them, so that it does not keep the others from their files at every try. Directories
// change in turns, so everything to be read is read before.
func (q *Queue) writeFiles(all []unfiled) error {
	ready := 0
	var unready error
	for ; ready < len(all); ready++ {
		if unready = q.prepareFiles(&all[ready]); unready != nil {
			break
		}
	}
	files := make([]*tree.Files, ready)
	for i := range files {
		files[i] = &all[i].files
	}
	placed, unplaced := q.tree.WritePayloads(files)
	done, undone := q.tree.WriteJobFiles(files[:placed])
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
func toLast(all []unfiled, i int) {
	w := all[i]
	copy(all[i:], all[i+1:])
	all[len(all)-1] = w
}

// prepareFiles reads what the files of a job will have.
func (q *Queue) prepareFiles(w *unfiled) error {
	if err := q.fileResults(w.ID); err != nil {
		return err
	}
	if w.Status != 0 {
		var err error
		wanted := !w.PayloadFiled && w.Temp == "" && w.Journaled.Payload != 0
		if w.files.Text, w.files.Payload, err = q.ledger.Parts(&w.View, wanted); err != nil {
			return err
		}
	}
	q.tree.Prepare(&w.files, !q.svc.each.inDoubt())
	return nil
}

// fileResults brings the results of a job up to the journal. It may be called again after
// any of its steps, and after a crash from the start.
func (q *Queue) fileResults(id job.ID) error {
	b, ok := q.ledger.Results(id)
	if !ok {
		return nil
	}
	if err := q.tree.WriteResults(id, b.Work()); err != nil {
		return fmt.Errorf("results of %v: %w", id, err)
	}
	q.ledger.ResultsWritten(id, b)
	return nil
}

// fileMany brings the files of the jobs that are behind now up to the journal, as long as
// there is time. Others may write some of them meanwhile.
func (q *Queue) fileMany(inTime func() bool) error {
	n, until := q.ledger.Backlog()
	var failed atomic.Bool
	some := func() error {
		for !failed.Load() && inTime() && q.ledger.TakenBelow(until) {
			n, err := q.fileSome(filesAtOnce)
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

// fileUpTo brings the files up to the record at of the journal, as long as there is time,
// and returns up to where they are.
func (q *Queue) fileUpTo(at journal.LSN, inTime func() bool) (journal.LSN, error) {
	for range tries {
		q.tree.Settle()
		if err := q.fileMany(inTime); err != nil {
			return 0, err
		}
		q.tree.Settle()
		switch {
		case !q.ledger.BehindOf(at):
			return at, nil
		case !inTime():
			return q.ledger.FiledTo(at), nil
		}
	}
	return 0, errors.New("files do not catch up")
}

// removeCulled removes the files of all culled jobs, as long as there is time: on a full disk
// the files of others can be written then.
func (q *Queue) removeCulled(inTime func() bool) error {
	for n := q.ledger.CulledFirst(); n > 0 && inTime(); {
		done, err := q.fileSome(n)
		if err != nil {
			return err
		}
		if n -= done; done == 0 {
			break
		}
	}
	return nil
}

// writePacks writes the packs of the pages that have become full, as long as there is time.
// A pack that fails is not tried again.
func (q *Queue) writePacks(inTime func() bool) {
	for {
		var n int
		var ids []job.ID
		var bytes int
		q.ledger.Look(func(x *index.Index) { n, ids, bytes = q.content.Packs.Next(x) })
		if n < 0 || !inTime() {
			return
		}
		_ = q.content.Packs.Write(n, ids, bytes, q.copyOf)
	}
}

// copyOf reads a job from the journal; nil if its files are as good.
func (q *Queue) copyOf(id job.ID) (*packs.Copy, error) {
	v, ok := q.ledger.View(id)
	if !ok || v.Journaled.File == 0 || v.Journaled.Payload == 0 {
		return nil, nil
	}
	text, payload, err := q.ledger.Parts(&v, true)
	return &packs.Copy{Text: text, Payload: payload}, err
}

// dropPacks removes the packs of pages without pending jobs, or all packs.
func (q *Queue) dropPacks(all bool) {
	old := q.content.Packs.Made()
	if !all {
		pages := old
		old = nil
		q.ledger.Look(func(x *index.Index) {
			for _, n := range pages {
				if x.Page(n).Pending == 0 {
					old = append(old, n)
				}
			}
		})
	}
	q.content.Packs.Drop(old)
}
