package dir

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"cutie/queuefs/durable"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
)

// read runs do as the step name of reading, under [Options.Reads].
func (d *Dir) read(name string, do func() error) error {
	if d.opts.Reads == nil {
		return do()
	}
	return d.opts.Reads(name, do)
}

// JobFile appends the job file of a job in a status to buf.
func (d *Dir) JobFile(id job.ID, st job.Status, buf []byte) (text []byte, err error) {
	err = d.read("job file", func() (err error) {
		var name [13]byte
		text, err = d.status(st).ReadFile(string(id.Append(name[:0])), buf, d.opts.MaxJobFile)
		return err
	})
	return text, err
}

// ReadPayload appends the payload of a job, of at most max bytes, to buf. temp is
// the temporary file of a payload that may lack its name yet, or "".
func (d *Dir) ReadPayload(id job.ID, temp string, buf []byte, max int) (data []byte, err error) {
	err = d.read("payload", func() (err error) {
		if temp != "" {
			data, err = d.opts.Temp.ReadFile(temp, buf, max)
		}
		if temp == "" || errors.Is(err, fs.ErrNotExist) { // it has its name by now
			var name [13]byte
			data, err = d.pays().ReadFile(string(id.Append(name[:0])), buf, max)
		}
		return err
	})
	return data, err
}

// OpenPayload opens the payload of a job; temp as for [Dir.ReadPayload].
func (d *Dir) OpenPayload(id job.ID, temp string) (f *os.File, err error) {
	err = d.read("payload", func() (err error) {
		if temp != "" {
			f, err = d.opts.Temp.Open(temp)
		}
		if temp == "" || errors.Is(err, fs.ErrNotExist) {
			f, err = d.pays().Open(id.String())
		}
		return err
	})
	return f, err
}

// StatPayload looks for the payload of a job; temp as for [Dir.ReadPayload].
func (d *Dir) StatPayload(id job.ID, temp string) (st unix.Stat_t, err error) {
	err = d.read("payload", func() (err error) {
		if temp != "" {
			st, err = d.opts.Temp.Stat(temp)
		}
		if temp == "" || errors.Is(err, fs.ErrNotExist) {
			var name [13]byte
			st, err = d.pays().Stat(string(id.Append(name[:0])))
		}
		return err
	})
	return st, err
}

// SumPayload reads a payload with a name and returns its length and SHA-256
// digest.
func (d *Dir) SumPayload(id job.ID) (n int64, sum [32]byte, err error) {
	f, err := d.pays().Open(id.String())
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
// temp as for [Dir.ReadPayload]. linked is false without an error if there is no
// file yet, or if the file system has no such links: then the payload must be
// copied.
func (d *Dir) LinkPayload(id job.ID, temp string) (name string, linked bool, err error) {
	if temp != "" {
		name, err = d.opts.Temp.LinkTemp(temp, d.opts.Temp)
	}
	if name == "" && (err == nil || errors.Is(err, fs.ErrNotExist)) {
		name, err = d.pays().LinkTemp(id.String(), d.opts.Temp)
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

// resultsOf opens the directory with the results of a job.
func (d *Dir) resultsOf(id job.ID) (*durable.Dir, error) {
	all, err := d.root.Sub(Results)
	if err != nil {
		return nil, err
	}
	defer all.Close()
	return all.Sub(id.String())
}

// ResultPath returns the path of a result below the home.
func (d *Dir) ResultPath(id job.ID, name string) string {
	return d.Path(Results, id.String()+"/"+name)
}

// HasResults reports whether the job may have a directory of results.
func (d *Dir) HasResults(id job.ID) bool {
	all, err := d.root.Sub(Results)
	if err == nil {
		defer all.Close()
		_, err = all.Stat(id.String())
	}
	return !errors.Is(err, fs.ErrNotExist)
}

// ResultDirs returns the jobs with results, and calls strange with the names of
// other entries.
func (d *Dir) ResultDirs(strange func(name string)) (map[job.ID]bool, error) {
	all, err := d.root.Sub(Results)
	if errors.Is(err, fs.ErrNotExist) {
		return map[job.ID]bool{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer all.Close()
	return names(all, strange)
}

// ResultNames calls visit with the names of the results of a job. The error wraps
// [fs.ErrNotExist] if there are none.
func (d *Dir) ResultNames(id job.ID, visit func(name string)) error {
	in, err := d.resultsOf(id)
	if err != nil {
		return err
	}
	defer in.Close()
	return in.Names(visit)
}

// OpenResult opens a result, which may lack its name yet.
func (d *Dir) OpenResult(id job.ID, name string) (*os.File, error) {
	for _, p := range d.unplaced(id) {
		if p.Name == name {
			if f, err := d.opts.Temp.Open(p.Temp); !errors.Is(err, fs.ErrNotExist) {
				return f, err
			}
		}
	}
	in, err := d.resultsOf(id)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return in.Open(name)
}

// unplaced returns the results of a job that may lack their names yet.
func (d *Dir) unplaced(id job.ID) []ledger.Placed {
	b, _ := d.ledger.Results(id)
	return b.Placed()
}

// SumResult reads a result and returns its length and SHA-256 digest.
func (d *Dir) SumResult(id job.ID, name string) (n int64, sum [32]byte, err error) {
	f, err := d.OpenResult(id, name)
	if err != nil {
		return 0, sum, err
	}
	return sumOf(f)
}

// SetResultAside moves a result to corrupt/ and returns its name there, "" if it
// is not there.
func (d *Dir) SetResultAside(id job.ID, name string) (to string, err error) {
	in, err := d.resultsOf(id)
	if err == nil {
		to, err = d.root.SetAside(in, name, Results+"-"+id.String()+"-"+name)
		in.Close()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return to, err
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
