package queuefs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cutie/queuefs"
)

// A file of the index that cannot be read keeps no home shut: it is set aside, reported,
// and made again. A directory in the place of a file stands for every error of a reading.
func TestAnUnreadableFileOfTheIndexIsMadeAgain(t *testing.T) {
	for _, stopped := range []bool{true, false} {
		dir := filepath.Join(fastDir(t), "home")
		s, q := openHome(t, dir, queuefs.Options{})
		for range 1100 {
			submit(t, q, queuefs.Meta{}, "x")
		}
		_, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "small", CullingSize: -1, CullingAge: -1})
		must(t, err)
		small, err := s.Queue("small")
		must(t, err)
		submit(t, small, queuefs.Meta{}, "y")
		_, err = q.Next(ctx, "w")
		must(t, err)
		cullQueue(t, s, "jobs")
		must(t, s.Checkpoint(ctx))
		submit(t, q, queuefs.Meta{}, "z")
		if stopped {
			closeHome(t, s)
		} else {
			copied := copyHome(t, dir)
			closeHome(t, s)
			dir = copied
		}
		index := filepath.Join(dir, "log/index")
		var files []string
		must(t, filepath.WalkDir(index, func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				files = append(files, strings.TrimPrefix(path, index+"/"))
			}
			return err
		}))
		if len(files) < 5 {
			t.Fatalf("the index has the files %q", files)
		}
		for _, file := range files {
			t.Run(file, func(t *testing.T) {
				dir := copyHome(t, dir)
				path := filepath.Join(dir, "log/index", file)
				must(t, os.Remove(path))
				must(t, os.MkdirAll(filepath.Join(path, "there"), 0o777))
				var reports []string
				s, err := queuefs.Open(dir, queuefs.Options{Segment: segmentSize, Report: func(p queuefs.Problem) { reports = append(reports, p.String()) }})
				must(t, err)
				pack := strings.HasPrefix(filepath.Base(file), "c0") // whose jobs are read from their files
				if got := strings.Join(reports, "\n"); !pack && !strings.Contains(got, "log/index/"+file+": cannot be read: not a regular file; moved to log/corrupt/") {
					t.Errorf("reports: %q", got)
				}
				for _, want := range []struct {
					id   string
					jobs int64
					next queuefs.JobID
				}{{"jobs", 1100, 1102}, {"small", 1, 2}} {
					q, err := s.Queue(want.id)
					must(t, err)
					if n := q.State().Pending; n != want.jobs {
						t.Errorf("%s has %d jobs", want.id, n)
					}
					if j, err := q.Next(ctx, "w"); err != nil || j.ID == 0 {
						t.Errorf("%s: the job at the head: %v, %v", want.id, j.ID, err)
					}
					if j := submit(t, q, queuefs.Meta{}, "new"); j.ID < want.next {
						t.Errorf("%s: the next job is %v", want.id, j.ID)
					}
				}
				closeHome(t, s)
				s, err = queuefs.Open(dir, queuefs.Options{Segment: segmentSize, Report: func(p queuefs.Problem) { t.Errorf("once more: %s", p) }})
				must(t, err)
				closeHome(t, s)
			})
		}
	}
}
