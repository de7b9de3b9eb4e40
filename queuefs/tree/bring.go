package tree

import (
	"errors"
	"io/fs"

	"cutie/queuefs/job"
)

// Bring calls do while nobody works on the files of a job. In it the methods below put
// files in their places that come from elsewhere.
func (t *Tree) Bring(do func() error) error {
	t.work.Lock()
	defer t.work.Unlock()
	return do()
}

// BringJobFile writes the job file of a job in a status.
func (t *Tree) BringJobFile(id job.ID, st job.Status, text []byte) error {
	return t.bring(id, st, text)
}

// BringPayload writes the payload of a job.
func (t *Tree) BringPayload(id job.ID, data []byte) error { return t.bring(id, 0, data) }

func (t *Tree) bring(id job.ID, st job.Status, data []byte) error {
	d := t.status(st)
	err := d.Put(id.String(), data)
	if errors.Is(err, fs.ErrExist) { // of an attempt before, and perhaps torn
		err = d.Renew(id.String(), data)
	}
	return err
}

// BringResult writes a result of a job.
func (t *Tree) BringResult(id job.ID, name string, data []byte) error {
	temp, err := t.opts.Temp.Stage(name, data)
	if err != nil {
		return err
	}
	return t.WriteResults(id, ResultWork{Place: []Placed{{Temp: temp, Name: name}}})
}

// BringTemp gives a temporary file the name of the payload of a job.
func (t *Tree) BringTemp(id job.ID, temp string) error {
	return t.opts.Temp.Rename(temp, t.pays(), id.String())
}
