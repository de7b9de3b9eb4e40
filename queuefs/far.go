package queuefs

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"

	"cutie/queuefs/content"
	"cutie/queuefs/image"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/tree"
)

// far has the files of jobs of a queue that are in the store alone. A file comes into the
// directory only if the index knows its job as the file says, and no change of the job
// waits to be written: so a file of before never stands for a newer one.
type far struct {
	q *Queue

	mu     sync.Mutex
	coming map[int]*arrival // pages on their way
}

type arrival struct {
	done chan struct{}
	err  error
}

// Page is [content.Far.Page]. Callers for the same page wait for the first one.
func (f *far) Page(id job.ID) (bool, error) {
	n := int(id / index.PageJobs)
	absent := f.q.svc.stored.Absent
	if !absent.Has(f.q.ID(), n) {
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
		absent.Brought(f.q.ID(), n)
	}
	f.mu.Lock()
	delete(f.coming, n)
	f.mu.Unlock()
	close(a.done)
	return a.err == nil, a.err
}

// bring writes the files of a page.
func (f *far) bring(n int) error {
	jobFile := func(id job.ID, text []byte) error {
		v, ok := f.q.ledger.View(id)
		if !ok || v.Journaled.File != 0 || sha256.Sum256(text) != v.FileSHA256 {
			return nil
		}
		return f.q.tree.BringJobFile(id, v.Status, text)
	}
	payload := func(id job.ID, data []byte) error {
		v, ok := f.q.ledger.View(id)
		if !ok || v.Journaled.Payload != 0 || v.Temp != "" || sha256.Sum256(data) != v.SHA256 {
			return nil
		}
		return f.q.tree.BringPayload(id, data)
	}
	return f.failure(f.q.svc.stored.Images.Page(f.q.ID(), n, func(piece []byte, jobs bool) error {
		write := payload
		if jobs {
			write = jobFile
		}
		return f.q.tree.Bring(func() (err error) {
			bad := image.Entries(piece, func(id uint64, data []byte) {
				if err == nil {
					err = write(job.ID(id), data)
				}
			})
			return errors.Join(bad, err)
		})
	}))
}

// failure says that an error of the store may pass, unless something there is damaged;
// this is reported.
func (f *far) failure(err error) error {
	damage := new(image.DamageError)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &damage):
		f.q.svc.report("store: "+damage.Name, damage.Text)
		return err
	}
	return content.Away(err)
}

// Payload is [content.Far.Payload].
func (f *far) Payload(id job.ID, sum [32]byte) (bool, error) {
	return f.file(id, sum, func(temp string) (bool, error) {
		v, ok := f.q.ledger.View(id)
		if !ok || v.SHA256 != sum || v.Temp != "" {
			return false, nil
		}
		return true, f.q.tree.BringTemp(id, temp)
	})
}

// Result is [content.Far.Result].
func (f *far) Result(id job.ID, r job.Result) (bool, error) {
	return f.file(id, r.SHA256, func(temp string) (bool, error) {
		v, ok := f.q.ledger.View(id)
		if _, waits := f.q.ledger.Results(id); !ok || !v.Results || waits {
			return false, nil
		}
		return true, f.q.tree.WriteResults(id, tree.ResultWork{Place: []tree.Placed{{Temp: temp, Name: r.Name}}})
	})
}

// file brings an object of its own; place gives it its name if it is still wanted.
func (f *far) file(id job.ID, sum [32]byte, place func(temp string) (bool, error)) (placed bool, err error) {
	st := f.q.svc.stored
	temp, err := st.Find(sum)
	if err != nil {
		return false, f.failure(err)
	}
	err = f.q.tree.Bring(func() error {
		placed, err = place(temp)
		return err
	})
	if !placed {
		st.Drop(temp)
	}
	return placed, err
}

// bringers is how many pages are brought at once.
const bringers = 4

// Bring brings the files of jobs into the directory that a home in a store has made again,
// until all are there, ctx ends, or the store cannot be read. Jobs are served meanwhile. It
// returns why the last image was not made, too. Without a store it does nothing.
func (s *Service) Bring(ctx context.Context) error {
	if s.stored == nil {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(bringers)
	for queue, n := range s.stored.Absent.All() {
		if ctx.Err() != nil || s.usable() != nil {
			break
		}
		q := s.open(queue)
		if q == nil {
			s.stored.Absent.Brought(queue, n) // it was removed
			continue
		}
		g.Go(func() error {
			_, err := q.content.Far.Page(job.ID(n) * index.PageJobs)
			return err
		})
	}
	return errors.Join(g.Wait(), s.stored.Images.Err())
}
