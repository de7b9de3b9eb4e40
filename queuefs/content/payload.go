package content

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"cutie/queuefs/durable"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/tree"
)

// Payload opens the payload of a job of any status.
func (r *Reader) Payload(id job.ID) (*tree.Payload, error) {
	for range tries {
		v, ok := r.Ledger.View(id)
		if !ok {
			return nil, r.Ledger.NoJob()
		}
		p, err := r.payloadOf(id, &v)
		if err == nil {
			return p, nil
		}
		if !moved(err) {
			return nil, err
		}
		brought, e := r.bringPayload(id, &v)
		if e != nil {
			return nil, failure("payload", id, e)
		}
		if w, ok := r.Ledger.View(id); ok && w == v && !brought {
			return nil, err
		}
	}
	return nil, fmt.Errorf("payload of %s does not hold still", id)
}

// bringPayload brings a payload that the directory lacks.
func (r *Reader) bringPayload(id job.ID, v *ledger.View) (bool, error) {
	if brought, err := r.bring(id); brought || err != nil || r.Far == nil || v.Size <= Inline {
		return brought, err
	}
	return r.Far.Payload(id, v.SHA256)
}

// payloadOf opens a payload: a small one in memory, a large one in its file.
func (r *Reader) payloadOf(id job.ID, v *ledger.View) (*tree.Payload, error) {
	size := v.Size
	if size > Inline {
		f, err := r.Tree.OpenPayload(id, v.Temp)
		if err != nil {
			return nil, failure("payload", id, err)
		}
		if st, e := f.Stat(); e != nil || st.Size() != size {
			f.Close()
			if e != nil {
				return nil, failure("payload", id, e)
			}
			return nil, fmt.Errorf("payload of %s has %d octets instead of %d", id, st.Size(), size)
		}
		return tree.PayloadIn(f, size), nil
	}
	var data []byte
	var err error
	if v.Journaled.Payload != 0 {
		data, err = r.Ledger.Payload(v)
	} else {
		data, err = r.Tree.ReadPayload(id, v.Temp, make([]byte, 0, size+512), Inline)
	}
	switch {
	case err != nil:
		return nil, failure("payload", id, err)
	case int64(len(data)) != size:
		return nil, fmt.Errorf("payload of %s has %d octets instead of %d", id, len(data), size)
	}
	return tree.PayloadOf(data), nil
}

// Find looks, without reading, for the payload of a job in its original length. One in
// the journal or a pack is not looked for.
func (r *Reader) Find(id job.ID) error {
	for range tries {
		v, ok := r.Ledger.View(id)
		if !ok {
			return r.Ledger.NoJob()
		}
		if v.Journaled.Payload != 0 || r.Packs.Find(id).Matches(&v.Job) {
			return nil
		}
		st, err := r.Tree.StatPayload(id, v.Temp)
		switch {
		case err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG:
			return fmt.Errorf("payload of %v is not a regular file", id)
		case err == nil && st.Size != v.Size:
			return fmt.Errorf("payload of %v has %d octets instead of %d", id, st.Size, v.Size)
		case err == nil:
			return nil
		case !errors.Is(err, fs.ErrNotExist):
			return failure("payload", id, err)
		}
		brought, e := r.bringPayload(id, &v)
		if e != nil {
			return failure("payload", id, e)
		}
		if w, ok := r.Ledger.View(id); ok && w == v && !brought {
			return fmt.Errorf("payload of %v: %w", id, err)
		}
	}
	return fmt.Errorf("payload of %v does not hold still", id)
}

// Verify reads the payload of a job and compares it with the digest in the index.
func (r *Reader) Verify(id job.ID) error {
	v, ok := r.Ledger.View(id)
	if !ok {
		return ledger.ErrNoJob
	}
	p, err := r.Payload(id)
	if err != nil {
		return err
	}
	defer p.Close()
	d := digests.Get().(*digester)
	defer digests.Put(d)
	d.Reset()
	// Through the page cache: the consumer reads it again at once.
	if _, err := io.CopyBuffer(d, struct{ io.Reader }{p}, d.buf[:]); err != nil {
		return failure("payload", id, err)
	}
	if [32]byte(d.Sum(d.sum[:0])) != v.SHA256 {
		return fmt.Errorf("payload of %v has not its SHA-256 digest", id)
	}
	return nil
}

// A digester hashes payloads, one at a time.
type digester struct {
	hash.Hash
	sum [sha256.Size]byte
	buf [16 << 10]byte
}

var digests = sync.Pool{New: func() any { return &digester{Hash: sha256.New()} }}

// Sound is why a job is not to be handed out, nil if it is. A payload in a file that is
// shorter than [VerifiedBelow], and with all every payload, is read and compared with the
// digest in the index. Of the others the length is looked at; one in the journal was written
// a moment ago, and one in a pack is read from there.
func (r *Reader) Sound(id job.ID, all bool) error {
	if v, ok := r.Ledger.View(id); ok && (all || v.Size < VerifiedBelow && v.Journaled.Payload == 0 && !r.Packs.Find(id).Matches(&v.Job)) {
		return r.Verify(id)
	}
	return r.Find(id)
}

// VerifiedBelow is the length of the payloads that are not compared with their digest when
// they are handed out, unless their queue wants it: to read and hash a shorter one costs
// little beside handing it out.
const VerifiedBelow = 1 << 20

// MaxResults is how many results a job may have.
const MaxResults = job.MaxResults

// ErrNoResult is the error for a job without a result of the name.
var ErrNoResult = errors.New("result not found")

// ErrResultDamaged is the error for a result without its file, its length or its
// digest.
var ErrResultDamaged = errors.New("the result is lost or damaged; a requeue of the job makes it anew")

// Result opens a result of a job, to be closed after use. The error is
// [ErrNoResult] if the job has none of the name, and [ErrResultDamaged] if the file is
// not the one of the worker; that is reported.
func (r *Reader) Result(id job.ID, name string) (job.Result, *tree.Payload, error) {
	if err := job.CheckResultName(name); err != nil {
		return job.Result{}, nil, err
	}
	var err error
	for range tries {
		j, e := r.Job(id)
		if e != nil {
			return job.Result{}, nil, e
		}
		res, ok := j.Result(name)
		if !ok {
			return job.Result{}, nil, fmt.Errorf("%v: %s: %w", id, name, ErrNoResult)
		}
		f, e := r.Tree.OpenResult(id, name, r.unplaced(id))
		if err = e; errors.Is(err, fs.ErrNotExist) {
			if r.Far != nil {
				if _, e := r.Far.Result(id, res); e != nil {
					return job.Result{}, nil, failure("result "+name, id, e)
				}
			}
			continue // taken back meanwhile, or just getting its name
		}
		if err != nil {
			break
		}
		if err = r.Verified.Check(f, res.Size, res.SHA256); err != nil {
			f.Close()
			break
		}
		return res, tree.PayloadIn(f, res.Size), nil
	}
	if durable.Lost(err) {
		r.Report(r.Tree.Path(tree.Results, id.String()+"/"+name), err.Error())
		err = errors.Join(ErrResultDamaged, err)
	}
	return job.Result{}, nil, failure("result "+name, id, err)
}

// CheckResult reads a result and compares it with the job file. It returns the octets
// of a good one.
func (r *Reader) CheckResult(id job.ID, want job.Result) (int64, error) {
	n, sum, err := r.Tree.SumResult(id, want.Name, r.unplaced(id))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, errors.New("result missing")
	case err != nil:
		return 0, err
	case n != want.Size || sum != want.SHA256:
		return 0, errors.New("result has not its size and SHA-256 digest")
	}
	return n, nil
}

// unplaced returns the results of a job that may lack their names yet.
func (r *Reader) unplaced(id job.ID) []tree.Placed {
	b, _ := r.Ledger.Results(id)
	return b.Placed()
}

// foundResults makes the results of a job without a job file from their files, without
// the damaged ones.
func (r *Reader) foundResults(id job.ID) (found []job.Result, err error) {
	placed := r.unplaced(id)
	note := func(e error) {
		if Transient(e) && err == nil {
			err = failure("results", id, e)
		}
	}
	note(r.Tree.ResultNames(id, func(name string) {
		if job.CheckResultName(name) != nil || len(found) == MaxResults {
			return
		}
		res := job.Result{Name: name}
		var e error
		if res.Size, res.SHA256, e = r.Tree.SumResult(id, name, placed); e == nil {
			found = append(found, res)
		}
		note(e)
	}))
	slices.SortFunc(found, func(a, b job.Result) int { return strings.Compare(a.Name, b.Name) })
	return found, err
}

// AddResults gives entries the results of their jobs, from the job files. A job with
// later events has the results of now, and one that is gone or cannot be read has none.
func (r *Reader) AddResults(entries []ledger.Entry) {
	for i := range entries {
		if e := &entries[i]; e.HasResults {
			if j, err := r.Job(e.Job); err == nil {
				e.Results = j.Results
			}
		}
	}
}
