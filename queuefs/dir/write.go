package dir

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"cutie/queuefs/durable"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/ledger"
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

// Files follow the journal: job files, payloads and results. Nobody waits for them: a call is
// answered when its record is on stable storage, and readers never see the lag. Files are not
// synced here; a checkpoint syncs the file system once for all.

// WriteSome brings the files of the jobs that are behind longest up to the journal, and
// returns how many it took up: at most n, and no more than [AtOnce]. Only one caller at
// a time works on a job. The first error ends it.
func (d *Dir) WriteSome(n int) (int, error) {
	d.work.RLock()
	defer d.work.RUnlock()
	some := d.ledger.TakeBehind(min(n, AtOnce), bytesAtOnce)
	if len(some) == 0 {
		return 0, nil
	}
	all := make([]*files, len(some))
	for i := range some {
		all[i] = &files{Behind: &some[i]}
	}
	err := d.writeFiles(all)
	last := make([]ledger.Behind, len(all))
	for i, f := range all {
		last[i] = *f.Behind
	}
	if e := d.ledger.Written(last); e != nil {
		return 0, errors.Join(err, e)
	}
	return len(all), err
}

// writeFiles writes the files of jobs, up to the first error; its job becomes the last of
// them, so that it does not keep the others from their files at every try. Directories
// change in turns, so everything to be read is read before: those of payloads beside those
// of job files, since a processor is lost while it waits for the lock of a directory.
func (d *Dir) writeFiles(all []*files) error {
	ready, unready := each(all, d.prepare)
	placed, unplaced := inTurn(&d.payTurn, all[:ready], d.writePayload)
	done, undone := inTurn(&d.jobTurn, all[:placed], d.writeJobFile)
	for _, f := range all[:done] {
		f.Done = true
	}
	for i, failed := range []error{unready, unplaced, undone} {
		if failed != nil {
			n := []int{ready, placed, done}[i]
			f := all[n]
			copy(all[n:], all[n+1:])
			all[len(all)-1] = f
		}
	}
	return cmp.Or(undone, unplaced, unready)
}

// each calls do up to its first error, and returns the number of calls without one.
func each(all []*files, do func(*files) error) (n int, err error) {
	for n < len(all) && err == nil {
		if err = do(all[n]); err == nil {
			n++
		}
	}
	return n, err
}

func inTurn(turn *sync.Mutex, all []*files, do func(*files) error) (int, error) {
	turn.Lock()
	defer turn.Unlock()
	return each(all, func(f *files) error {
		f.Begun = true
		return do(f)
	})
}

// WriteMany brings the files of the jobs that are behind now up to the journal, as long as
// there is time. Others may write some of them meanwhile.
func (d *Dir) WriteMany(inTime func() bool) error {
	n, until := d.ledger.Backlog()
	var failed atomic.Bool
	some := func() error {
		for !failed.Load() && inTime() && d.ledger.TakenBelow(until) {
			n, err := d.WriteSome(AtOnce)
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

// WriteUpTo brings the files up to the record at of the journal, as long as there is time,
// and returns up to where they are.
func (d *Dir) WriteUpTo(at journal.LSN, inTime func() bool) (journal.LSN, error) {
	for range tries {
		d.settle()
		if err := d.WriteMany(inTime); err != nil {
			return 0, err
		}
		d.settle()
		switch {
		case !d.ledger.BehindOf(at):
			return at, nil
		case !inTime():
			return d.ledger.FiledTo(at), nil
		}
	}
	return 0, errors.New("files do not catch up")
}

// settle waits until nobody works on the files of a job.
func (d *Dir) settle() {
	d.work.Lock()
	defer d.work.Unlock()
}

// RemoveCulled removes the files of all culled jobs, as long as there is time: on a full disk
// the files of others can be written then.
func (d *Dir) RemoveCulled(inTime func() bool) error {
	for n := d.ledger.CulledFirst(); n > 0 && inTime(); {
		done, err := d.WriteSome(n)
		if err != nil {
			return err
		}
		if n -= done; done == 0 {
			break
		}
	}
	return nil
}

// files are those of a job that are to be as the journal says. A job of status 0 was culled,
// and is to have none.
type files struct {
	*ledger.Behind

	name          string
	text, payload []byte       // to be written; nil: stays as it is
	strays        []job.Status // with a file that should not be there
}

// prepare reads what the files of a job will have, and has the system read what the changes
// of directories will ask of the disk.
func (d *Dir) prepare(f *files) (err error) {
	f.name = f.ID.String()
	if err := d.writeResults(f.ID); err != nil || f.Status == 0 {
		return err
	}
	wanted := !f.PayloadFiled && f.Temp == "" && f.Journaled.Payload != 0
	if f.text, f.payload, err = d.ledger.Parts(&f.View, wanted); err != nil {
		return err
	}
	if f.payload != nil {
		_, _ = d.pays().Stat(f.name)
	}
	if f.Filed == index.FiledUnknown {
		d.compare(f, !d.opts.InDoubt())
		return nil
	}
	if f.Filed != 0 {
		_, _ = d.status(f.Filed).Stat(f.name)
	}
	if f.Filed != f.Status {
		_, _ = d.status(f.Status).Stat(f.name)
	}
	return nil
}

// compare finds the files of f that are there already: after a crash the files of most jobs
// are as they should be. Contents are trusted only if believed.
func (d *Dir) compare(f *files, believed bool) {
	for st := job.Pending; st <= job.Deleted; st++ {
		if st == f.Status {
			if believed && holds(d.status(st), f.name, f.text) {
				f.text = nil
			}
		} else if _, err := d.status(st).Stat(f.name); !errors.Is(err, fs.ErrNotExist) {
			f.strays = append(f.strays, st)
		}
	}
	if f.payload != nil && believed && holds(d.pays(), f.name, f.payload) {
		f.payload = nil
	}
}

// holds reports whether a file has these contents.
func holds(d *durable.Dir, name string, data []byte) bool {
	st, err := d.Stat(name)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size != int64(len(data)) {
		return false
	}
	got, err := d.ReadFile(name, make([]byte, 0, len(data)+1024), len(data))
	return err == nil && bytes.Equal(got, data)
}

// writePayload writes the payload, or gives a large one its name. A file that
// could not be trusted is written anew.
func (d *Dir) writePayload(f *files) error {
	switch {
	case f.Status == 0 || f.PayloadFiled:
		return nil
	case f.Temp == "" && f.payload == nil:
		return nil
	case f.Temp == "":
		return d.pays().Renew(f.name, f.payload)
	}
	err := d.opts.Temp.Rename(f.Temp, d.pays(), f.name)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, e := d.opts.Temp.Stat(f.Temp); !errors.Is(e, fs.ErrNotExist) {
		return err // payload/ itself is missing
	}
	// It got its name before a crash, or other hands took it away. Then the other
	// files go on: a reader or a check of the payload will find it missing.
	switch st, e := d.pays().Stat(f.name); {
	case e != nil && !errors.Is(e, fs.ErrNotExist):
		return e
	case e != nil || st.Size != f.Size:
		d.opts.Report(d.Path(Payloads, f.name), "payload lost before it got its name")
	}
	return nil
}

// writeJobFile makes the job file, or gives it new lines and moves it.
func (d *Dir) writeJobFile(f *files) error {
	if f.Status == 0 {
		return d.remove(f)
	}
	to := d.status(f.Status)
	for _, st := range f.strays {
		if err := d.status(st).Remove(f.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	switch {
	case f.text == nil:
		return nil
	case f.Filed == 0 || f.Filed == index.FiledUnknown:
		return to.Renew(f.name, f.text)
	}
	// The new lines first, then the move. A crash between the two leaves
	// pending/ID that says consumed; the journal still has the event.
	old := d.status(f.Filed)
	err := old.Rewrite(f.name, f.text)
	if err == nil && f.Filed != f.Status {
		err = old.Rename(f.name, to, f.name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return to.Renew(f.name, f.text) // other hands took it away
	}
	return err
}

// remove removes the files of a culled job, also a payload that never got its
// name.
func (d *Dir) remove(f *files) error {
	if f.Temp != "" {
		if err := d.opts.Temp.Remove(f.Temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, st := range []job.Status{job.Pending, job.Consumed, job.Deleted, 0} {
		if err := d.status(st).Remove(f.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// writeResults brings the results of a job up to the journal. It may be called again after
// any of its steps, and after a crash from the start.
func (d *Dir) writeResults(id job.ID) error {
	b, ok := d.ledger.Results(id)
	if !ok {
		return nil
	}
	w := b.Work()
	for _, temp := range w.Drop {
		if err := d.opts.Temp.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	var err error
	switch {
	case len(w.Place) > 0:
		err = d.placeResults(id, w.Place, w.Wipe)
	case w.Wipe:
		err = d.removeResults(id)
	}
	if err != nil {
		return fmt.Errorf("results of %v: %w", id, err)
	}
	d.ledger.ResultsWritten(id, b)
	return nil
}

// placeResults gives temporary files their names as results of a job, and if they are all it
// is to have, removes the others.
func (d *Dir) placeResults(id job.ID, place []ledger.Placed, all bool) error {
	results, err := d.root.AddSub(Results)
	if err != nil {
		return err
	}
	defer results.Close()
	in, err := results.AddSub(id.String())
	if err != nil {
		return err
	}
	defer in.Close()
	for _, p := range place {
		err := d.opts.Temp.Rename(p.Temp, in, p.Name)
		if errors.Is(err, fs.ErrNotExist) {
			// It got its name before a crash, or other hands took it away.
			if _, err = in.Stat(p.Name); errors.Is(err, fs.ErrNotExist) {
				d.opts.Report(d.ResultPath(id, p.Name), "result lost")
				continue
			}
		}
		if err != nil {
			return err
		}
	}
	if !all {
		return nil
	}
	return removeBut(in, func(name string) bool {
		return slices.ContainsFunc(place, func(p ledger.Placed) bool { return p.Name == name })
	})
}

func removeBut(dir *durable.Dir, keep func(name string) bool) error {
	var names []string
	if err := dir.Names(func(name string) { names = append(names, name) }); err != nil {
		return err
	}
	for _, name := range names {
		if keep(name) {
			continue
		}
		if err := dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// removeResults removes all results of a job.
func (d *Dir) removeResults(id job.ID) error {
	all, err := d.root.Sub(Results)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer all.Close()
	return all.RemoveTree(id.String())
}

// Files that the directory of a home in a store lacks come from there.

// Bring calls do while nobody works on the files of a job. In it the methods below put
// files in their places.
func (d *Dir) Bring(do func() error) error {
	d.work.Lock()
	defer d.work.Unlock()
	return do()
}

// BringFile writes the job file of a job in a status, or with status 0 its payload.
func (d *Dir) BringFile(id job.ID, st job.Status, data []byte) error {
	in := d.status(st)
	err := in.Put(id.String(), data)
	if errors.Is(err, fs.ErrExist) { // of an attempt before, and perhaps torn
		err = in.Renew(id.String(), data)
	}
	return err
}

// BringResult writes a result of a job.
func (d *Dir) BringResult(id job.ID, name string, data []byte) error {
	temp, err := d.opts.Temp.Stage(name, data)
	if err != nil {
		return err
	}
	return d.PlaceResult(id, temp, name)
}

// PlaceResult gives a temporary file the name of a result of a job.
func (d *Dir) PlaceResult(id job.ID, temp, name string) error {
	return d.placeResults(id, []ledger.Placed{{Temp: temp, Name: name}}, false)
}

// PlacePayload gives a temporary file the name of the payload of a job.
func (d *Dir) PlacePayload(id job.ID, temp string) error {
	return d.opts.Temp.Rename(temp, d.pays(), id.String())
}
