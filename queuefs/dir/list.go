package dir

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"cutie/queuefs/durable"
	"cutie/queuefs/job"
)

// JobFiles returns the status of the wanted jobs by the directories of their job
// files. Other files are set aside. A job with two files keeps the later one, by
// the event number seq finds in a job file.
func (d *Dir) JobFiles(wanted func(job.ID) bool, seq func(text []byte) job.Seq) (map[job.ID]job.Status, error) {
	where := map[job.ID]job.Status{}
	for st := job.Pending; st <= job.Deleted; st++ {
		in := d.status(st)
		var strange []string
		var twice []job.ID
		err := in.Names(func(name string) {
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
			if strings.HasPrefix(name, durable.TempPrefix) {
				if e := in.Remove(name); e == nil || errors.Is(e, unix.EROFS) {
					continue
				}
			}
			err = errors.Join(err, d.SetAside(st, name, "not the name of a job"))
		}
		for _, id := range twice {
			older := st
			if d.seq(id, st, seq) > d.seq(id, where[id], seq) {
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

// seq returns the event number in a job file, 0 if it cannot be read.
func (d *Dir) seq(id job.ID, st job.Status, of func(text []byte) job.Seq) job.Seq {
	text, err := d.JobFile(id, st, nil)
	if err != nil {
		return 0
	}
	return of(text)
}

// PayloadFiles returns the jobs with a payload, and calls strange with the names
// of other files. It removes files that a crash left unfinished.
func (d *Dir) PayloadFiles(strange func(name string)) (map[job.ID]bool, error) {
	var unfinished []string
	ids, err := names(d.pays(), func(name string) {
		if strings.HasPrefix(name, durable.TempPrefix) {
			unfinished = append(unfinished, name)
		} else {
			strange(name)
		}
	})
	for _, name := range unfinished {
		if e := d.pays().Remove(name); e != nil && !errors.Is(e, unix.EROFS) {
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
