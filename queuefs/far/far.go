// Package far brings files of jobs from the image of a home in an object store, a page of
// the index at once, or an object of its own, into the directory of their queue.
package far

import (
	"crypto/sha256"
	"errors"
	"sync"

	"cutie/queuefs/content"
	"cutie/queuefs/dir"
	"cutie/queuefs/image"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/stored"
)

// Files has the files of jobs of a queue that are in the store alone. A file comes into the
// directory only if the index knows its job as the file says, and no change of the job
// waits to be written: so a file of before never stands for a newer one. Its methods are
// safe for concurrent use.
type Files struct {
	Ledger *ledger.Ledger
	Dir    *dir.Dir
	Store  *stored.Home
	Report func(path, text string) // called with damage in the store

	mu     sync.Mutex
	coming map[int]*arrival // pages on their way
}

type arrival struct {
	done chan struct{}
	err  error
}

// Page is [content.Far.Page]. Callers for the same page wait for the first one.
func (f *Files) Page(id job.ID) (bool, error) {
	n := int(id / index.PageJobs)
	absent := f.Store.Absent
	if !absent.Has(f.Ledger.ID(), n) {
		return false, nil
	}
	f.mu.Lock()
	a := f.coming[n]
	if a != nil {
		f.mu.Unlock()
		<-a.done
		return a.err == nil, a.err
	}
	a = &arrival{done: make(chan struct{})}
	if f.coming == nil {
		f.coming = map[int]*arrival{}
	}
	f.coming[n] = a
	f.mu.Unlock()
	if a.err = f.bring(n); a.err == nil {
		absent.Brought(f.Ledger.ID(), n)
	}
	f.mu.Lock()
	delete(f.coming, n)
	f.mu.Unlock()
	close(a.done)
	return a.err == nil, a.err
}

// bring writes the files of a page.
func (f *Files) bring(n int) error {
	jobFile := func(id job.ID, text []byte) error {
		if name, contents, ok := image.ParseResult(text); ok {
			return f.bringResult(id, name, contents)
		}
		v, ok := f.Ledger.View(id)
		if !ok || v.Journaled.File != 0 || sha256.Sum256(text) != v.FileSHA256 {
			return nil
		}
		return f.Dir.BringFile(id, v.Status, text)
	}
	payload := func(id job.ID, data []byte) error {
		v, ok := f.Ledger.View(id)
		if !ok || v.Journaled.Payload != 0 || v.Temp != "" || sha256.Sum256(data) != v.SHA256 {
			return nil
		}
		return f.Dir.BringFile(id, 0, data)
	}
	return f.failure(f.Store.Images.Page(f.Ledger.ID(), n, func(piece []byte, jobs bool) error {
		write := payload
		if jobs {
			write = jobFile
		}
		return f.Dir.Bring(func() (err error) {
			bad := image.Entries(piece, func(id uint64, data []byte) {
				if err == nil {
					err = write(job.ID(id), data)
				}
			})
			return errors.Join(bad, err)
		})
	}))
}

// bringResult writes a small result of an image, unless its job has another one by now, or
// none: the job may have changed since the image.
func (f *Files) bringResult(id job.ID, name string, contents []byte) error {
	if has, err := f.has(id, name, sha256.Sum256(contents)); !has || err != nil {
		return err
	}
	return f.Dir.BringResult(id, name, contents)
}

// has reports whether a job has a result with this digest now.
func (f *Files) has(id job.ID, name string, sum [32]byte) (has bool, err error) {
	for range looks {
		v, ok := f.Ledger.View(id)
		if !ok || !v.Results {
			return false, nil
		}
		var text []byte
		if v.Journaled.File != 0 {
			text, _, err = f.Ledger.Parts(&v, false)
		} else {
			text, err = f.Dir.JobFile(id, v.Status, nil)
		}
		if err != nil {
			continue
		}
		j, err := job.Parse(text)
		if err != nil {
			return false, nil // no file of ours
		}
		r, ok := j.Result(name)
		return ok && r.SHA256 == sum, nil
	}
	return false, err
}

// looks is how often a job is looked for while it changes.
const looks = 10

// failure says that an error of the store may pass, unless something there is damaged;
// this is reported.
func (f *Files) failure(err error) error {
	damage := new(image.DamageError)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &damage):
		f.Report("store: "+damage.Name, damage.Text)
		return err
	}
	return content.Away(err)
}

// Payload is [content.Far.Payload].
func (f *Files) Payload(id job.ID, sum [32]byte) (bool, error) {
	return f.file(sum, func(temp string) (bool, error) {
		v, ok := f.Ledger.View(id)
		if !ok || v.SHA256 != sum || v.Temp != "" {
			return false, nil
		}
		return true, f.Dir.PlacePayload(id, temp)
	})
}

// Result is [content.Far.Result].
func (f *Files) Result(id job.ID, r job.Result) (bool, error) {
	if r.Size <= content.SmallResult {
		if brought, err := f.Page(id); brought || err != nil {
			return brought, err
		}
	}
	return f.file(r.SHA256, func(temp string) (bool, error) {
		if b, _ := f.Ledger.Results(id); b.Waits(r.Name) {
			return false, nil
		}
		if has, err := f.has(id, r.Name, r.SHA256); !has || err != nil {
			return false, err
		}
		return true, f.Dir.PlaceResult(id, temp, r.Name)
	})
}

// file brings an object of its own; place gives it its name if it is still wanted.
func (f *Files) file(sum [32]byte, place func(temp string) (bool, error)) (placed bool, err error) {
	st := f.Store
	temp, err := st.Find(sum)
	if err != nil {
		return false, f.failure(err)
	}
	err = f.Dir.Bring(func() error {
		placed, err = place(temp)
		return err
	})
	if !placed {
		st.Drop(temp)
	}
	return placed, err
}
