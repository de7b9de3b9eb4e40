package dir

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"cutie/queuefs/durable"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
)

// A Standing is a job by its ledger and by the directories.
type Standing struct {
	ID    job.ID
	Known index.Job  // by the ledger; status 0: it knows no such job
	Filed job.Status // of the directory with its job file; 0: there is none, or Known is behind
}

// Walk lists the job files of the pages of the index, of all if pages is nil, and visits the
// jobs that the ledger or a directory has: those of the ledger in order, then the others.
// Contents are not read, except where a job has two files: the one of the earlier event is set
// aside, as are files that are none of a job. Files of jobs that are behind the journal are
// passed over: it rules.
func (d *Dir) Walk(pages map[int]bool, visit func(Standing) error) error {
	wanted := func(id job.ID) bool {
		return (pages == nil || pages[int(id/index.PageJobs)]) && !d.behind(id)
	}
	where, err := d.jobFiles(wanted)
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		var known []Standing
		last := false
		d.ledger.Look(func(x *index.Index) {
			last = n+1 >= x.Pages()
			if pages == nil || pages[n] {
				x.EachOf(n, func(id job.ID, j index.Job) { known = append(known, Standing{ID: id, Known: j}) })
			}
		})
		for _, s := range known {
			s.Filed = where[s.ID]
			delete(where, s.ID)
			if err := visit(s); err != nil {
				return err
			}
		}
		if last {
			break
		}
	}
	for _, id := range sorted(where) {
		if err := visit(Standing{ID: id, Filed: where[id]}); err != nil {
			return err
		}
	}
	return nil
}

// behind reports whether the files of a job are behind the journal.
func (d *Dir) behind(id job.ID) (behind bool) {
	d.ledger.Look(func(x *index.Index) { behind = x.Behind(id) })
	return behind
}

// sorted returns the jobs of a map in order.
func sorted[V any](m map[job.ID]V) []job.ID {
	ids := make([]job.ID, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// jobFiles returns the status of the wanted jobs by the directories of their job files.
func (d *Dir) jobFiles(wanted func(job.ID) bool) (map[job.ID]job.Status, error) {
	where := map[job.ID]job.Status{}
	for st := job.Pending; st <= job.Deleted; st++ {
		var strange []string
		var twice []job.ID
		err := d.status(st).Names(func(name string) {
			id, err := job.ParseID(name)
			switch {
			case err != nil:
				strange = append(strange, name)
			case !wanted(id):
			case where[id] != 0:
				twice = append(twice, id)
			default:
				where[id] = st
			}
		})
		if err != nil {
			return nil, err
		}
		for _, name := range strange {
			if !d.sweep(d.status(st), name) {
				err = errors.Join(err, d.SetAside(st, name, "not the name of a job"))
			}
		}
		for _, id := range twice {
			older := st
			if d.seq(id, st) > d.seq(id, where[id]) {
				older, where[id] = where[id], st
			}
			err = errors.Join(err, d.SetAside(older, id.String(), "the job has a later file in "+where[id].String()))
		}
		if err != nil {
			return nil, err
		}
	}
	return where, nil
}

// sweep removes a file that a crash left unfinished. It returns false for any other.
func (d *Dir) sweep(in *durable.Dir, name string) bool {
	if !strings.HasPrefix(name, durable.TempPrefix) {
		return false
	}
	err := in.Remove(name)
	return err == nil || errors.Is(err, unix.EROFS)
}

// seq returns the event number in a job file, 0 if it cannot be read.
func (d *Dir) seq(id job.ID, st job.Status) job.Seq {
	j, _, _ := d.Filed(id, st)
	return j.Seq
}

// Filed reads a job file where it stands in the directory.
func (d *Dir) Filed(id job.ID, st job.Status) (j job.Job, text []byte, err error) {
	if text, err = d.JobFile(id, st, nil); err != nil {
		return j, nil, err
	}
	if j, err = job.Parse(text); err == nil && j.ID != id {
		err = fmt.Errorf("it speaks of %s", j.ID)
	}
	return j, text, err
}

// PayloadFiles returns the jobs with a payload, and calls strange with the names
// of other files. It removes files that a crash left unfinished.
func (d *Dir) PayloadFiles(strange func(name string)) (map[job.ID]bool, error) {
	var other []string
	ids, err := names(d.pays(), func(name string) { other = append(other, name) })
	for _, name := range other {
		if !d.sweep(d.pays(), name) {
			strange(name)
		}
	}
	return ids, err
}

// names returns the jobs with an entry in a directory.
func names(of *durable.Dir, strange func(name string)) (map[job.ID]bool, error) {
	ids := map[job.ID]bool{}
	err := of.Names(func(name string) {
		if id, err := job.ParseID(name); err == nil {
			ids[id] = true
		} else {
			strange(name)
		}
	})
	return ids, err
}
