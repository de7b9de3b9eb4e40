// Package imaging puts a home into an image: the files of the home and of its index, the
// jobs of each queue, and the published documents.
package imaging

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"cutie/queuefs/content"
	"cutie/queuefs/dir"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/image"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/snapshot"
	"cutie/queuefs/table"
)

// A Queue is a queue for an image.
type Queue struct {
	Root   *durable.Dir
	Ledger *ledger.Ledger
	Reader *content.Reader
	Pages  int // of the index, for Jobs
}

// Live calls yield with the digests of all payloads and results of queues.
func Live(queues []Queue, yield func(sum [32]byte)) error {
	for _, q := range queues {
		for n, pages := 0, 1; n < pages; n++ {
			var results []job.ID
			q.Ledger.Look(func(x *index.Index) {
				pages = x.Pages()
				x.EachOf(n, func(id job.ID, j index.Job) {
					yield(j.SHA256)
					if j.Results {
						results = append(results, id)
					}
				})
			})
			for _, id := range results {
				j, err := q.Reader.Job(id)
				if err != nil && !errors.Is(err, ledger.ErrNoJob) {
					return err
				}
				for _, r := range j.Results {
					yield(r.SHA256)
				}
			}
		}
	}
	return nil
}

// Home adds the files of the home beside jobs and most published documents: small ones, and
// the rows of the table, with the checkpoint at; nil is that of the table. Nobody may change
// them meanwhile.
func Home(b *image.Builder, dir *durable.Dir, ix *snapshot.Store, at *table.Checkpoint, queues []Queue) error {
	d := adder{b: b}
	d.files(dir, "", func(name string) bool { return name == home.InfoName || name == home.ListName })
	for _, q := range queues {
		d.files(q.Root, home.QueuesDir+"/"+q.Ledger.ID()+"/", func(name string) bool { return name == home.QueueInfoName })
	}
	if d.err == nil {
		d.err = ix.Pack(at, func(path string, size int64, from io.Reader) error {
			return b.AddFile(path, size, b.Made().UnixNano(), from)
		})
	}
	// The cursor of published documents comes before them: newer entries are cut to it.
	d.sub(dir, "", home.PublishedDir, func(name string) bool { return true })
	return d.err
}

// An adder adds files of directories to an image. After an error it does nothing more.
type adder struct {
	b   *image.Builder
	err error
}

// sub adds the files of a directory in dir, if it is there.
func (i *adder) sub(dir *durable.Dir, path, name string, wanted func(name string) bool) {
	if i.err != nil {
		return
	}
	d, err := dir.Sub(name)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if i.err = err; err == nil {
		i.files(d, path+name+"/", wanted)
		d.Close()
	}
}

// files adds the wanted files in dir; nil means all. Temporary files are not.
func (i *adder) files(dir *durable.Dir, path string, wanted func(name string) bool) {
	if i.err != nil {
		return
	}
	var names []string
	i.err = dir.Names(func(name string) {
		if !strings.HasPrefix(name, durable.TempPrefix) && (wanted == nil || wanted(name)) {
			names = append(names, name)
		}
	})
	slices.Sort(names)
	for _, name := range names {
		if i.err == nil {
			i.err = i.add(dir, path, name)
		}
	}
}

// add adds a file; other entries, and a file gone meanwhile, are passed over.
func (i *adder) add(dir *durable.Dir, path, name string) error {
	st, err := dir.Stat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	if err != nil || i.b.Same(path+name, st.Size, st.Mtim.Nano()) {
		return err
	}
	f, err := dir.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	now, err := f.Stat()
	if err != nil {
		return err
	}
	return i.b.AddFile(path+name, now.Size(), now.ModTime().UnixNano(), f)
}

// Published adds the published documents, lists before the documents they name: these may
// have more than their lists, which is cut when they are opened, but never less.
func Published(ctx context.Context, b *image.Builder, dir *durable.Dir) error {
	root, err := dir.Sub(home.PublishedDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	return published(ctx, b, root, home.PublishedDir+"/", true)
}

// published adds the directories in dir, and all in them. The files of the topmost one are
// in the image already.
func published(ctx context.Context, b *image.Builder, dir *durable.Dir, path string, top bool) error {
	d := adder{b: b}
	if !top {
		ends := func(of ...string) func(name string) bool {
			return func(name string) bool {
				return slices.ContainsFunc(of, func(end string) bool { return strings.HasSuffix(name, end) })
			}
		}
		leaf, grows := ends(".entries", ".gz", ".zip", ".open"), ends(".open", ".entries")
		d.files(dir, path, func(name string) bool { return !leaf(name) })
		// A growing package gets another name when it is complete, and a closed list another
		// file: one of both is found.
		d.files(dir, path, grows)
		d.files(dir, path, func(name string) bool { return leaf(name) && !grows(name) })
	}
	if d.err != nil {
		return d.err
	}
	if err := b.Upload(ctx, false); err != nil {
		return err
	}
	var subs []string
	err := dir.Names(func(name string) {
		if !strings.HasPrefix(name, durable.TempPrefix) {
			subs = append(subs, name)
		}
	})
	slices.Sort(subs)
	for _, name := range subs {
		if err != nil {
			break
		}
		var st unix.Stat_t
		if st, err = dir.Stat(name); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
			if errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
			continue
		}
		var sub *durable.Dir
		if sub, err = dir.Sub(name); errors.Is(err, fs.ErrNotExist) {
			err = nil
			continue
		}
		if err == nil {
			err = published(ctx, b, sub, path+name+"/", false)
			sub.Close()
		}
	}
	return err
}

// Jobs adds the jobs of a queue. Those of pages made since are in the journal after the image.
func Jobs(ctx context.Context, b *image.Builder, q Queue) error {
	for n := range q.Pages {
		var jobs []image.Job
		var version job.Seq
		q.Ledger.Look(func(x *index.Index) {
			if n >= x.Pages() {
				return
			}
			version = x.Page(n).Version
			x.EachOf(n, func(id job.ID, j index.Job) {
				one := image.Job{ID: uint64(id), Size: j.Size}
				if j.Size > content.Inline {
					one.Size = -1
				}
				jobs = append(jobs, one)
			})
		})
		if len(jobs) == 0 {
			continue
		}
		if err := b.AddPage(q.Ledger.ID(), n, uint64(version), jobs, source{q.Reader}); err != nil {
			return err
		}
		if err := b.Upload(ctx, false); err != nil {
			return err
		}
	}
	return nil
}

// A source reads the jobs of a queue for an image. Lost files are left out, as in
// the directory.
type source struct{ *content.Reader }

func (q source) JobFile(id uint64) (entries [][]byte, err error) {
	text, v, err := q.Text(job.ID(id))
	if text == nil || err != nil {
		return nil, imaged(err)
	}
	entries = [][]byte{text}
	if !v.Results {
		return entries, nil
	}
	j, err := job.Parse(text)
	if err != nil {
		return entries, nil // no file of ours: its results are not known
	}
	for _, r := range j.Results {
		if r.Size > content.SmallResult {
			continue
		}
		contents, err := q.smallResult(j.ID, r.Name)
		if err = imaged(err); err != nil {
			return nil, err
		}
		if contents != nil {
			entries = append(entries, image.ResultEntry(r.Name, contents))
		}
	}
	return entries, nil
}

func (q source) smallResult(id job.ID, name string) ([]byte, error) {
	_, f, err := q.Result(id, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

func (q source) Payload(id uint64) ([]byte, error) {
	p, err := q.Reader.Payload(job.ID(id))
	if err != nil {
		return nil, imaged(err)
	}
	defer p.Close()
	return io.ReadAll(p)
}

// imaged passes over a lost file, and returns the error of one to be read later.
func imaged(err error) error {
	if errors.Is(err, ledger.ErrNoJob) || err != nil && !content.Transient(err) {
		return nil
	}
	return err
}

// Large payloads and large results are apart from the image, in objects of their own.

// atOnce is how many of them are moved at once.
const atOnce = 8

// Put calls put with the large payloads and the large results of a queue, several at a time. Lost
// and damaged ones are reported, and left out.
func Put(ctx context.Context, q Queue, put func(ctx context.Context, sum [sha256.Size]byte, f io.ReadSeeker, size int64) error) error {
	whole := func(ctx context.Context, path string, sum [sha256.Size]byte, f io.ReadSeekCloser, size int64) error {
		defer f.Close()
		d := sha256.New()
		if _, err := io.Copy(d, f); err != nil {
			return err
		}
		if [sha256.Size]byte(d.Sum(nil)) != sum {
			q.Reader.Report(path, "does not have its digest, and stays behind")
			return nil
		}
		return put(ctx, sum, f, size)
	}
	return q.apart(ctx, func(ctx context.Context, id job.ID, j index.Job) error {
		if j.Size <= content.Inline {
			return nil
		}
		p, err := q.Reader.Payload(id)
		if err != nil {
			return q.lost(err)
		}
		return whole(ctx, q.Reader.Dir.Path(dir.Payloads, id.String()), j.SHA256, p, p.Size())
	}, func(ctx context.Context, id job.ID, r job.Result) error {
		if r.Size <= content.SmallResult {
			return nil
		}
		_, f, err := q.Reader.Result(id, r.Name)
		if err != nil {
			return q.lost(err)
		}
		return whole(ctx, q.Reader.Dir.Path(dir.Results, id.String()+"/"+r.Name), r.SHA256, f, r.Size)
	})
}

// Bring brings the large payloads and the results of a queue into the directory. Lost and
// damaged ones are reported, and left out.
func Bring(ctx context.Context, q Queue) error {
	return q.apart(ctx, func(_ context.Context, id job.ID, j index.Job) error {
		if j.Size <= content.Inline {
			return nil
		}
		return q.lost(q.Reader.Find(id))
	}, func(_ context.Context, id job.ID, r job.Result) error {
		_, f, err := q.Reader.Result(id, r.Name)
		if err == nil {
			err = f.Close()
		}
		return q.lost(err)
	})
}

// apart calls payload with jobs with a large payload or with results, and result with each
// result.
func (q *Queue) apart(ctx context.Context, payload func(ctx context.Context, id job.ID, j index.Job) error, result func(ctx context.Context, id job.ID, r job.Result) error) error {
	type one struct {
		id job.ID
		index.Job
	}
	for n, pages := 0, 1; n < pages; n++ {
		var jobs []one
		q.Ledger.Look(func(x *index.Index) {
			pages = x.Pages()
			x.EachOf(n, func(id job.ID, j index.Job) {
				if j.Size > content.Inline || j.Results {
					jobs = append(jobs, one{id, j})
				}
			})
		})
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(atOnce)
		for _, j := range jobs {
			g.Go(func() error {
				if err := payload(ctx, j.id, j.Job); err != nil || !j.Results {
					return err
				}
				of, err := q.Reader.Job(j.id)
				if err != nil {
					return imaged(err)
				}
				for _, r := range of.Results {
					if err := result(ctx, j.id, r); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			return fmt.Errorf("queue %s: %w", q.Ledger.ID(), err)
		}
	}
	return ctx.Err()
}

// lost reports a lost file, unless it was reported, and returns other errors.
func (q *Queue) lost(err error) error {
	switch {
	case err == nil, errors.Is(err, ledger.ErrNoJob), errors.Is(err, content.ErrResultDamaged), errors.As(err, new(*image.DamageError)):
		return nil
	case content.Transient(err):
		return err
	}
	q.Reader.Report("queue "+q.Ledger.ID(), err.Error())
	return nil
}
