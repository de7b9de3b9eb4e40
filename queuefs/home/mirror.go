package home

import (
	"cmp"
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs/anvl"
	"cutie/queuefs/durable"
	"cutie/queuefs/job"
)

// CopiesDir has the first copies of mirrors, a directory each, until they are
// whole.
const CopiesDir = "mirror-copies"

// A Mirror names the queue of another home with the events of a queue.
type Mirror struct {
	Source string    // URL of the Source
	List   string    // Capability List of the set with all files of the original
	Event  job.Seq   // last one of the original in the first copy
	At     time.Time // when it came
	Job    job.ID    // up to where the original may have given out numbers of jobs, then and at the takeover
	Ended  time.Time // of the takeover; zero: the queue is a mirror
	Last   job.Seq   // last event of the original, at the takeover
	Until  time.Time // when the original was known to have no later one
	Audit  Audit
	Bad    string // why nothing is known of the original; ""
}

// An Audit is the last comparison of a mirror with its original.
type Audit struct {
	Time   time.Time // zero: never
	Files  int64     // compared
	Faults int64     // missing, extra or different
}

// Base returns the base URI of the Source, without a slash at its end; "" if its lists
// stand somewhere else.
func (m *Mirror) Base() string {
	if base, _, ok := strings.Cut(m.List, "/.well-known/resourcesync/"); ok {
		return base
	}
	return ""
}

// Progress is how far a mirror is since the home was opened.
type Progress struct {
	Contact time.Time // when the original last answered
	Synced  time.Time // when the mirror last had all events known
	Known   job.Seq   // last event known of the original
	Trouble string    // why the mirror does not follow; "" if it does
}

// Live reports whether the queue follows its original. A nil Mirror does not.
func (m *Mirror) Live() bool { return m != nil && m.Ended.IsZero() }

// Elements of the row of a mirror.
const (
	mirrorSource = "source"
	mirrorList   = "capabilityList"
	mirrorJob    = "firstJob"
	mirrorEvent  = "firstEvent"
	mirrorAt     = "firstTime"
	mirrorEnded  = "takenOver"
	mirrorLast   = "lastEvent"
	mirrorUntil  = "lastContact"
	auditTime    = "audited"
	auditFiles   = "auditedFiles"
	auditFaults  = "auditFaults"
)

// Text returns the contents of the row.
func (m *Mirror) Text() []byte {
	var r anvl.Record
	number := func(name string, n uint64) { r.Add(name, strconv.FormatUint(n, 10)) }
	date := func(name string, t time.Time) {
		if !t.IsZero() {
			r.Add(name, job.FormatTime(t))
		}
	}
	r.Add(mirrorSource, m.Source)
	r.Add(mirrorList, m.List)
	number(mirrorJob, uint64(m.Job))
	number(mirrorEvent, uint64(m.Event))
	date(mirrorAt, m.At)
	if date(mirrorEnded, m.Ended); !m.Ended.IsZero() {
		number(mirrorLast, uint64(m.Last))
		date(mirrorUntil, m.Until)
	}
	if date(auditTime, m.Audit.Time); !m.Audit.Time.IsZero() {
		number(auditFiles, uint64(m.Audit.Files))
		number(auditFaults, uint64(m.Audit.Faults))
	}
	return anvl.AppendRecord(nil, r)
}

// ParseMirror reads the output of Text.
func ParseMirror(text []byte) (*Mirror, error) {
	r, err := anvl.ParseRecord(text)
	if err != nil {
		return nil, err
	}
	number := func(name string) uint64 {
		if v := r.Value(name); v != "" {
			n, e := strconv.ParseUint(v, 10, 63)
			err = cmp.Or(err, e)
			return n
		}
		return 0
	}
	date := func(name string) (t time.Time) {
		if v := r.Value(name); v != "" {
			var e error
			t, e = job.ParseTime(v)
			err = cmp.Or(err, e)
		}
		return t
	}
	m := &Mirror{Source: r.Value(mirrorSource), List: r.Value(mirrorList),
		Job: job.ID(number(mirrorJob)), Event: job.Seq(number(mirrorEvent)), At: date(mirrorAt),
		Ended: date(mirrorEnded), Last: job.Seq(number(mirrorLast)), Until: date(mirrorUntil),
		Audit: Audit{date(auditTime), int64(number(auditFiles)), int64(number(auditFaults))}}
	return m, err
}

// HadMirrors reports whether a queue of a home is a mirror, or once was one.
func HadMirrors(in *durable.Dir) bool {
	_, err := in.Stat(CopiesDir)
	return err == nil
}

// SettleCopy makes the copy of a queue, in a home, its directory. A call before may have done so.
func SettleCopy(in, queues *durable.Dir, queue string) error {
	copied, err := copyOf(in, queue)
	if err == nil {
		defer copied.Close()
		if err = copied.Rename(queue, queues, queue); err == nil {
			err = errors.Join(queues.Sync(), copied.Sync())
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	root, err := queues.Sub(queue)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range []string{"payload", job.Pending.String(), job.Consumed.String(), job.Deleted.String()} {
		sub, err := root.MakeSub(name)
		if err != nil {
			return err
		}
		sub.Close()
	}
	return nil
}

// CopyReady reports whether there is a copy to settle, or the directory of the queue.
func CopyReady(in, queues *durable.Dir, queue string) bool {
	copied, err := copyOf(in, queue)
	if err == nil {
		defer copied.Close()
		if hasInfo(copied, queue) {
			return true
		}
	}
	return hasInfo(queues, queue)
}

func hasInfo(dir *durable.Dir, queue string) bool {
	root, err := dir.Sub(queue)
	if err != nil {
		return false
	}
	defer root.Close()
	_, err = root.Stat(QueueInfoName)
	return err == nil
}

// copyOf opens the directory with the copy of a queue.
func copyOf(in *durable.Dir, queue string) (dir *durable.Dir, err error) {
	dir = in
	for _, name := range []string{CopiesDir, queue, QueuesDir} {
		sub, err := dir.Sub(name)
		if dir != in {
			dir.Close()
		}
		if err != nil {
			return nil, err
		}
		dir = sub
	}
	return dir, nil
}
