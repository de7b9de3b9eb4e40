// Package check compares a home with its journal and its index, and mends it. Nobody
// else has the home open meanwhile.
//
// A look changes nothing. Repair mends differences, and sets aside all that it cannot
// understand. Rebuild makes the index again from the directories: for a home without its
// journal or index, or a copy that becomes one.
package check

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/compare"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
)

// Options are the changes allowed to [Home].
type Options struct {
	Repair     bool             // mend damage where possible
	Rebuild    bool             // make the index again from the directories, and missing parts of the home
	AcceptLoss bool             // as in [queuefs.Options], with Repair or Rebuild
	Making     bool             // as in [queuefs.Options]
	Now        func() time.Time // nil means time.Now
	Segment    int64            // as in [queuefs.Options]
	Reads      durable.Fault    // as in [queuefs.Options]
	// Last are the last events of queues that went on elsewhere, by identifier: with
	// Rebuild their events here have higher numbers and later times.
	Last map[string]Last
	// Job returns why the unknown elements of a job file make no sense to another
	// room; nil: nobody looks at them.
	Job func(*queuefs.Job) error
}

// A Last is the number and the time of the last event of a queue.
type Last struct {
	Seq  queuefs.Seq
	Time time.Time
}

// A Report is the result of a check.
type Report = compare.Report

// Home compares the whole of the home in dir, which nobody else may have open: each
// job has one job file, in the directory of its status, equal to the index, and a
// payload and results with their digests, and queue-info.txt makes sense. Without
// Repair and Rebuild it changes nothing. With one of them it does the same as opening
// a home: it replays the journal and takes in moves by hand. On a full disk it leaves
// out the jobs behind the journal.
func Home(dir string, o Options) (r Report, err error) {
	look := !o.Repair && !o.Rebuild
	_, err = os.Lstat(filepath.Join(dir, home.ListName))
	made := errors.Is(err, fs.ErrNotExist) // the opening makes a list
	r.Repaired = o.Repair
	found := func(p home.Problem) {
		lost := strings.HasPrefix(p.Path, home.QueuesDir+"/") && strings.Count(p.Path, "/") == 1 // the directory of a queue
		stays := lost || !o.Rebuild && (p.Path == home.ListName && !made || strings.HasPrefix(p.Path, "0="))
		if look || stays {
			r.Problems = append(r.Problems, p)
			return
		}
		p.Level = durable.Mended
		r.Mended = append(r.Mended, p)
	}
	if o.Rebuild {
		if err := rebuild(dir, o, found); err != nil {
			return r, err
		}
	}
	s, err := queuefs.Open(dir, queuefs.Options{Look: look, ReadAll: true, Rebuild: o.Rebuild, AcceptLoss: o.AcceptLoss, Making: o.Making, Reads: o.Reads, Report: found, Now: o.Now, Segment: o.Segment})
	if err != nil {
		return r, err
	}
	defer func() {
		if e := s.Close(); e != nil && (o.Repair || o.Rebuild || !errors.Is(e, queuefs.ErrNoSpace)) {
			err = errors.Join(err, e)
		}
	}()
	if err := s.Compare(&r, compare.Options{Repair: o.Repair, Restore: o.Rebuild, Sense: o.Job}); err != nil {
		return r, err
	}
	// What was reported on the way and is still wrong was not mended.
	r.Mended = slices.DeleteFunc(r.Mended, func(p home.Problem) bool {
		return slices.ContainsFunc(r.Problems, func(still home.Problem) bool { return still.Path == p.Path })
	})
	return r, nil
}
