package queuefs

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"cutie/queuefs/content"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/image"
	"cutie/queuefs/index"
	"cutie/queuefs/indexfile"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
)

// makeImage begins an image of a home in a store, right after a checkpoint, and goes on
// with it in the background. What is to be of the time of the checkpoint is copied here;
// jobs and published documents may be newer, as after a crash. upkeep is held.
func (s *Service) makeImage(c indexfile.Checkpoint, queues []*Queue) {
	images := s.stored.Images
	b := images.Begin(c.Past, c.From(), s.opts.Now())
	if b == nil {
		return
	}
	err := s.imageHome(b, queues)
	if err != nil {
		images.Fail(b, err)
		return
	}
	fill := func(ctx context.Context) error {
		for _, q := range queues {
			if err := q.imagePages(ctx, b); err != nil {
				return err
			}
		}
		return s.imagePublished(ctx, b)
	}
	images.Go(b, fill, func() error { return s.stored.Sweep(s.live) }, func(err error) {
		if errors.Is(err, ErrFenced) {
			s.shared.Gate.Fail(err)
		}
	})
}

// live calls yield with the digests of all payloads and results.
func (s *Service) live(yield func(sum [32]byte)) error {
	for _, q := range s.Queues() {
		for n, pages := 0, 1; n < pages; n++ {
			var results []job.ID
			q.look(func(x *index.Index) {
				pages = x.Pages()
				x.EachOf(n, func(id job.ID, j index.Job) {
					yield(j.SHA256)
					if j.Results {
						results = append(results, id)
					}
				})
			})
			for _, id := range results {
				j, err := q.content.Job(id)
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

// imageHome adds the files of the home beside jobs and most of what is published: they are
// small, or pages of the index that have changed.
func (s *Service) imageHome(b *image.Builder, queues []*Queue) error {
	s.properties.Lock()
	defer s.properties.Unlock()
	d := imageDir{b: b}
	d.files(s.dirs.home, "", func(name string) bool { return name == home.InfoName || name == home.ListName })
	d.sub(s.dirs.home, "", home.CallbacksDir, nil)
	for _, q := range queues {
		d.files(q.tree.Root(), home.QueuesDir+"/"+q.ID()+"/", func(name string) bool { return name == home.QueueInfoName })
	}
	d.files(s.index.Dir, home.LogDir+"/"+home.IndexDir+"/", func(name string) bool { return name != indexfile.DoubtName })
	for _, q := range queues {
		if d.err != nil || !s.index.HasDir(q.ID()) {
			continue
		}
		dir, err := s.index.Queue(q.ID())
		if err != nil {
			return err
		}
		d.files(dir, home.LogDir+"/"+home.IndexDir+"/"+home.QueuesDir+"/"+q.ID()+"/", func(name string) bool {
			_, page := indexfile.ParsePageName(name)
			return page || name == indexfile.QueueName || name == indexfile.TombstonesName
		})
		dir.Close()
	}
	// The cursor of published documents comes before them: what is newer is cut to it.
	d.sub(s.dirs.home, "", home.PublishedDir, func(name string) bool { return true })
	return d.err
}

// An imageDir adds files of directories to an image. After an error it does nothing more.
type imageDir struct {
	b   *image.Builder
	err error
}

// sub adds the files of a directory in dir, if it is there.
func (i *imageDir) sub(dir *durable.Dir, path, name string, wanted func(name string) bool) {
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

// files adds the files in dir that are wanted; nil means all. Temporary files are not.
func (i *imageDir) files(dir *durable.Dir, path string, wanted func(name string) bool) {
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

// add adds a file; other entries, and one that is gone, are passed over.
func (i *imageDir) add(dir *durable.Dir, path, name string) error {
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

// imagePublished adds what is published, lists before the documents they name: what these
// have more than the lists is cut when they are opened, and what they lack would be damage.
func (s *Service) imagePublished(ctx context.Context, b *image.Builder) error {
	root, err := s.dirs.home.Sub(home.PublishedDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	return imageTree(ctx, b, root, home.PublishedDir+"/", true)
}

// imageTree adds the directories in dir, and all in them. The files of the topmost one are
// in the image already.
func imageTree(ctx context.Context, b *image.Builder, dir *durable.Dir, path string, top bool) error {
	d := imageDir{b: b}
	if !top {
		leaf := func(name string) bool {
			for _, end := range []string{".entries", ".gz", ".zip", ".open"} {
				if strings.HasSuffix(name, end) {
					return true
				}
			}
			return false
		}
		d.files(dir, path, func(name string) bool { return !leaf(name) })
		d.files(dir, path, leaf)
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
			err = imageTree(ctx, b, sub, path+name+"/", false)
			sub.Close()
		}
	}
	return err
}

// imagePages adds the jobs of a queue.
func (q *Queue) imagePages(ctx context.Context, b *image.Builder) error {
	for n, pages := 0, 1; n < pages; n++ {
		var jobs []image.Job
		var version job.Seq
		q.look(func(x *index.Index) {
			pages = x.Pages()
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
		if err := b.AddPage(q.ID(), n, uint64(version), jobs, imagedJobs{q}); err != nil {
			return err
		}
		if err := b.Upload(ctx, false); err != nil {
			return err
		}
	}
	return nil
}

// imagedJobs reads the jobs of a queue for an image. Files that are lost are left out, as
// they are in the directory.
type imagedJobs struct{ *Queue }

func (q imagedJobs) JobFile(id uint64) ([]byte, error) {
	text, _, err := q.content.Text(job.ID(id))
	return text, imaged(err)
}

func (q imagedJobs) Payload(id uint64) ([]byte, error) {
	p, err := q.content.Payload(job.ID(id))
	if err != nil {
		return nil, imaged(err)
	}
	defer p.Close()
	return io.ReadAll(p)
}

// imaged passes over what is lost, and returns the error of what may be there.
func imaged(err error) error {
	if errors.Is(err, ledger.ErrNoJob) || err != nil && !content.Transient(err) {
		return nil
	}
	return err
}

// Image makes an image of a home in a store now, and waits for it.
func (s *Service) Image(ctx context.Context) error {
	if s.stored == nil {
		return errors.New("the home is in no object store")
	}
	return s.stored.Images.Now(ctx, func() error { return s.Checkpoint(ctx) })
}
