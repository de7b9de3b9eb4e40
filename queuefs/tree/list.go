package tree

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
func (t *Tree) JobFiles(wanted func(job.ID) bool, seq func(text []byte) job.Seq) (map[job.ID]job.Status, error) {
	where := map[job.ID]job.Status{}
	for st := job.Pending; st <= job.Deleted; st++ {
		d := t.status(st)
		var strange []string
		var twice []job.ID
		err := d.Names(func(name string) {
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
				if e := d.Remove(name); e == nil || errors.Is(e, unix.EROFS) {
					continue
				}
			}
			err = errors.Join(err, t.SetAside(st, name, "not the name of a job"))
		}
		for _, id := range twice {
			older := st
			if t.seq(id, st, seq) > t.seq(id, where[id], seq) {
				older, where[id] = where[id], st
			}
			err = errors.Join(err, t.SetAside(older, id.String(), "the job has a later file in "+where[id].String()))
		}
		if err != nil {
			return nil, err
		}
	}
	return where, nil
}

// seq returns the event number in a job file, 0 if it cannot be read.
func (t *Tree) seq(id job.ID, st job.Status, of func(text []byte) job.Seq) job.Seq {
	text, err := t.JobFile(id, st, nil)
	if err != nil {
		return 0
	}
	return of(text)
}

// PayloadFiles returns the jobs with a payload, and calls strange with the names
// of other files. It removes files that a crash left unfinished.
func (t *Tree) PayloadFiles(strange func(name string)) (map[job.ID]bool, error) {
	var unfinished []string
	ids, err := names(t.pays(), func(name string) {
		if strings.HasPrefix(name, durable.TempPrefix) {
			unfinished = append(unfinished, name)
		} else {
			strange(name)
		}
	})
	for _, name := range unfinished {
		if e := t.pays().Remove(name); e != nil && !errors.Is(e, unix.EROFS) {
			strange(name)
		}
	}
	return ids, err
}

// names returns the jobs with an entry in d.
func names(d *durable.Dir, strange func(name string)) (map[job.ID]bool, error) {
	ids := map[job.ID]bool{}
	err := d.Names(func(name string) {
		if id, err := job.ParseID(name); err == nil {
			ids[id] = true
		} else {
			strange(name)
		}
	})
	return ids, err
}

// SetAside moves a file in the directory of a status to corrupt/ and reports it. In
// a directory opened for reading it only reports it.
func (t *Tree) SetAside(st job.Status, name, why string) error {
	to, err := t.root.SetAside(t.status(st), name, st.String()+"-"+name)
	if errors.Is(err, unix.EROFS) {
		t.opts.Report(t.Path(st.String(), name), why)
		return nil
	}
	if err != nil {
		return err
	}
	t.opts.Report(t.Path(st.String(), name), why+"; moved to "+to)
	return nil
}

// SetPayloadAside moves a file among the payloads to corrupt/ and returns its name
// there.
func (t *Tree) SetPayloadAside(name string) (to string, err error) {
	return t.root.SetAside(t.pays(), name, Payloads+"-"+name)
}
