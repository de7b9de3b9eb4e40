package home

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs/anvl"
	"cutie/queuefs/durable"
	"cutie/queuefs/job"
)

// CallbacksDir has a sealed file for each queue with a callback: its URL in a line. The
// path of such a URL is often all that a receiver asks for, so these files are for their
// owner alone and never published. queue-info.txt has scheme and host.
const CallbacksDir = "callback-urls"

const maxCallback = 64 << 10

// PublicURL returns scheme and host of a URL.
func PublicURL(full string) string {
	u, err := url.Parse(full)
	if err != nil || full == "" {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
}

// Callbacks are the URLs of callbacks. They are safe for concurrent use, by one caller
// for each queue if it changes them.
//
// A new URL is in the file before queue-info.txt has its scheme and host, so a crash
// between the two leaves a line more, and both URLs can be found.
type Callbacks struct {
	Home *durable.Dir
}

// Of returns the whole URL for the callback in queue-info.txt, which may be whole
// itself. The error wraps [durable.ErrDamaged] without a line in the file, and for a damaged
// file; Keep writes another one.
func (c *Callbacks) Of(queue, public string) (string, error) {
	if public == "" || public != PublicURL(public) {
		return public, nil
	}
	urls, err := c.read(queue)
	if err != nil {
		return "", err
	}
	if i := last(urls, public); i >= 0 {
		return urls[i], nil
	}
	return "", lost(fmt.Errorf("%s/%s: %w: no URL of %s", CallbacksDir, queue, durable.ErrDamaged, public))
}

func lost(err error) error { return fmt.Errorf("%w; set the callback of the queue again", err) }

// last returns the place of the last URL with this beginning, -1 if there is none.
func last(urls []string, public string) int {
	for i, u := range slices.Backward(urls) {
		if PublicURL(u) == public {
			return i
		}
	}
	return -1
}

// Keep puts a URL on stable storage and returns the callback for queue-info.txt. The
// scheme and host that is there already means the URL known for it.
func (c *Callbacks) Keep(queue, full string) (public string, err error) {
	if public = PublicURL(full); full == "" {
		return "", nil
	}
	urls, err := c.read(queue)
	if err != nil && !errors.Is(err, durable.ErrDamaged) {
		return "", err
	}
	if i := last(urls, public); i >= 0 && (urls[i] == full || full == public) {
		return public, nil
	}
	return public, c.write(queue, append(urls, full))
}

// Settle removes the URLs of a queue except the one in use.
func (c *Callbacks) Settle(queue, public string) error {
	urls, err := c.read(queue)
	if errors.Is(err, durable.ErrDamaged) {
		return c.write(queue, nil)
	}
	if err != nil {
		return err
	}
	var used []string
	if i := last(urls, public); i >= 0 {
		used = urls[i : i+1]
	}
	if len(used) == len(urls) {
		return nil
	}
	return c.write(queue, used)
}

// read returns the URLs in the file of a queue. There need not be one.
func (c *Callbacks) read(queue string) (urls []string, err error) {
	dir, err := c.Home.Sub(CallbacksDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	text, err := sealed(dir, queue).Read()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		err = fmt.Errorf("%s/%s: %w", CallbacksDir, queue, durable.Bare(err))
		if errors.Is(err, durable.ErrDamaged) {
			err = lost(err)
		}
		return nil, err
	}
	return strings.Fields(string(text)), nil
}

func sealed(dir *durable.Dir, queue string) durable.Sealed {
	return durable.Sealed{Dir: dir, Name: queue, Kind: "callback of queue " + queue, Max: maxCallback}
}

// write gives the file of a queue other URLs; without any it goes.
func (c *Callbacks) write(queue string, urls []string) error {
	dir, err := c.Home.MakeSub(CallbacksDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	if len(urls) > 0 {
		return sealed(dir, queue).Write([]byte(strings.Join(urls, "\n") + "\n"))
	}
	if err := dir.Remove(queue); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return dir.Sync()
}

// Sweep removes what a crash has left unfinished.
func (c *Callbacks) Sweep() error {
	dir, err := c.Home.Sub(CallbacksDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sweep(nil)
}

// MirrorsDir has a sealed file for each queue that is a mirror, or was one until a
// takeover.
const MirrorsDir = "mirrors"

// CopiesDir has the first copies of mirrors, a directory each, until they are
// whole.
const CopiesDir = "mirror-copies"

const maxMirror = 64 << 10

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

// Elements of the file of a mirror.
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

func (m *Mirror) text() []byte {
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

func parseMirror(text []byte) (*Mirror, error) {
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
	m := &Mirror{Source: r.Value(mirrorSource), List: r.Value(mirrorList), Job: job.ID(number(mirrorJob)), Event: job.Seq(number(mirrorEvent)),
		At: date(mirrorAt), Ended: date(mirrorEnded), Last: job.Seq(number(mirrorLast)), Until: date(mirrorUntil),
		Audit: Audit{date(auditTime), int64(number(auditFiles)), int64(number(auditFaults))}}
	return m, err
}

// Mirrors are the files about mirrors. They are safe for concurrent use, by one caller
// for each queue if it changes them.
type Mirrors struct {
	Home *durable.Dir
}

func (m *Mirrors) sealed(dir *durable.Dir, queue string) durable.Sealed {
	return durable.Sealed{Dir: dir, Name: queue, Kind: "mirror " + queue, Max: maxMirror}
}

// All reads all files. A damaged one keeps its queue a mirror, which is safe: Bad says
// why. Call it when the home is opened; with sweep it removes unfinished files.
func (m *Mirrors) All(sweep bool) (map[string]*Mirror, error) {
	dir, err := m.Home.Sub(MirrorsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if sweep {
		if err := dir.Sweep(nil); err != nil {
			return nil, err
		}
	}
	all := map[string]*Mirror{}
	var first error
	err = dir.Names(func(name string) {
		if id, err := job.CleanQueueID(name); err != nil || id != name {
			return
		}
		text, err := m.sealed(dir, name).Read()
		var mirror *Mirror
		if err == nil {
			mirror, err = parseMirror(text)
		}
		switch {
		case err == nil:
		case errors.Is(err, durable.ErrDamaged):
			mirror = &Mirror{Bad: durable.Bare(err).Error()}
		default:
			first = cmp.Or(first, fmt.Errorf("%s/%s: %w", MirrorsDir, name, durable.Bare(err)))
		}
		all[name] = mirror
	})
	return all, cmp.Or(err, first)
}

// Write puts the file of a queue on stable storage.
func (m *Mirrors) Write(queue string, mirror *Mirror) error {
	dir, err := m.Home.MakeSub(MirrorsDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	return m.sealed(dir, queue).Write(mirror.text())
}

// Remove removes the file of a queue. There need not be one.
func (m *Mirrors) Remove(queue string) error {
	dir, err := m.Home.Sub(MirrorsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Remove(queue); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return dir.Sync()
}

// Settle makes the copy of a queue its directory. A call before may have done so.
func (m *Mirrors) Settle(queues *durable.Dir, queue string) error {
	copied, err := m.copied(queue)
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

// Ready reports whether there is a copy to settle, or the directory of the queue.
func (m *Mirrors) Ready(queues *durable.Dir, queue string) bool {
	copied, err := m.copied(queue)
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

// copied opens the directory with the copy of a queue.
func (m *Mirrors) copied(queue string) (dir *durable.Dir, err error) {
	dir = m.Home
	for _, name := range []string{CopiesDir, queue, QueuesDir} {
		sub, err := dir.Sub(name)
		if dir != m.Home {
			dir.Close()
		}
		if err != nil {
			return nil, err
		}
		dir = sub
	}
	return dir, nil
}
