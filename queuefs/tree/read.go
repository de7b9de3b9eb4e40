package tree

import (
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"cutie/queuefs/job"
)

// read runs do as the step name of reading, under [Options.Reads].
func (t *Tree) read(name string, do func() error) error {
	if t.opts.Reads == nil {
		return do()
	}
	return t.opts.Reads(name, do)
}

// JobFile appends the job file of a job in a status to buf.
func (t *Tree) JobFile(id job.ID, st job.Status, buf []byte) (text []byte, err error) {
	err = t.read("job file", func() (err error) {
		var name [13]byte
		text, err = t.status(st).ReadFile(string(id.Append(name[:0])), buf, t.opts.MaxJobFile)
		return err
	})
	return text, err
}

// ReadPayload appends the payload of a job, of at most max bytes, to buf. temp is
// the temporary file of a payload that may lack its name yet, or "".
func (t *Tree) ReadPayload(id job.ID, temp string, buf []byte, max int) (data []byte, err error) {
	err = t.read("payload", func() (err error) {
		if temp != "" {
			data, err = t.opts.Temp.ReadFile(temp, buf, max)
		}
		if temp == "" || errors.Is(err, fs.ErrNotExist) { // it has its name by now
			var name [13]byte
			data, err = t.pays().ReadFile(string(id.Append(name[:0])), buf, max)
		}
		return err
	})
	return data, err
}

// OpenPayload opens the payload of a job; temp as for [Tree.ReadPayload].
func (t *Tree) OpenPayload(id job.ID, temp string) (f *os.File, err error) {
	err = t.read("payload", func() (err error) {
		if temp != "" {
			f, err = t.opts.Temp.Open(temp)
		}
		if temp == "" || errors.Is(err, fs.ErrNotExist) {
			f, err = t.pays().Open(id.String())
		}
		return err
	})
	return f, err
}

// StatPayload looks for the payload of a job; temp as for [Tree.ReadPayload].
func (t *Tree) StatPayload(id job.ID, temp string) (st unix.Stat_t, err error) {
	err = t.read("payload", func() (err error) {
		if temp != "" {
			st, err = t.opts.Temp.Stat(temp)
		}
		if temp == "" || errors.Is(err, fs.ErrNotExist) {
			var name [13]byte
			st, err = t.pays().Stat(string(id.Append(name[:0])))
		}
		return err
	})
	return st, err
}

// SumPayload reads a payload with a name and returns its length and SHA-256
// digest.
func (t *Tree) SumPayload(id job.ID) (n int64, sum [32]byte, err error) {
	f, err := t.pays().Open(id.String())
	if err != nil {
		return 0, sum, err
	}
	return sumOf(f)
}

// sumOf reads f to its end and closes it.
func sumOf(f *os.File) (n int64, sum [32]byte, err error) {
	defer f.Close()
	h := sha256.New()
	n, err = io.Copy(h, f)
	h.Sum(sum[:0])
	return n, sum, err
}

// LinkPayload gives the payload of a job a second name among the temporary files;
// temp as for [Tree.ReadPayload]. linked is false without an error if there is no
// file yet, or if the file system has no such links: then the payload must be
// copied.
func (t *Tree) LinkPayload(id job.ID, temp string) (name string, linked bool, err error) {
	if temp != "" {
		name, err = t.opts.Temp.LinkTemp(temp, t.opts.Temp)
	}
	if name == "" && (err == nil || errors.Is(err, fs.ErrNotExist)) {
		name, err = t.pays().LinkTemp(id.String(), t.opts.Temp)
	}
	if errors.Is(err, fs.ErrNotExist) || linkless(err) {
		return "", false, nil
	}
	return name, err == nil, err
}

// linkless reports whether a file cannot have a second name here.
func linkless(err error) bool {
	for _, e := range []error{syscall.EPERM, syscall.EMLINK, syscall.EXDEV, syscall.EOPNOTSUPP} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
