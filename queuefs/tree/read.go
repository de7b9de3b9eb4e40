package tree

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"cutie/queuefs/durable"
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

// A Payload is the content of a job, to be closed after use. It stays
// readable even when the job is culled meanwhile.
type Payload struct {
	io.ReadSeeker
	size int64
	file *os.File
}

// PayloadOf returns a payload in memory.
func PayloadOf(data []byte) *Payload {
	return &Payload{ReadSeeker: bytes.NewReader(data), size: int64(len(data))}
}

// PayloadIn returns a payload of size octets in a file.
func PayloadIn(f *os.File, size int64) *Payload {
	return &Payload{ReadSeeker: f, size: size, file: f}
}

// Size returns the octets of the payload.
func (p *Payload) Size() int64 { return p.size }

// Close lets go of the payload.
func (p *Payload) Close() error {
	if p.file != nil {
		return p.file.Close()
	}
	return nil
}

// WriteTo writes the rest of the payload to w for a consumer, the last reader
// of it. For one of many readers use Read or SendTo.
func (p *Payload) WriteTo(w io.Writer) (int64, error) {
	if p.file != nil {
		return durable.CopyOnce(w, p.file)
	}
	return p.ReadSeeker.(*bytes.Reader).WriteTo(w)
}

// SendTo is WriteTo for one of many readers of the payload: it goes from the
// page cache to the connection without passing through the program.
func (p *Payload) SendTo(w io.Writer) (int64, error) {
	if p.file != nil {
		return io.Copy(w, p.file)
	}
	return p.WriteTo(w)
}
