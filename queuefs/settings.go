package queuefs

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs/anvl"
	"cutie/queuefs/digest"
	"cutie/queuefs/durable"
	"cutie/queuefs/job"
)

// Limits of the properties of a queue.
const (
	maxAttempts = 1_000_000
	maxURI      = 2000
)

// SetQueue changes the properties of a queue (Cutie 0.3, 6.4): edit gets them from
// queue-info.txt and changes them. They hold, and are on stable storage, when
// SetQueue returns. Comments, order and unknown elements stay in the file. A
// damaged file was reported before; it is moved to corrupt/, and edit gets the
// properties in force. ID, Identifier and Created cannot change. A changed file is
// an [Update] of no job. Errors are ErrNoQueue, ErrBadName, ErrQueueExists if
// another queue has the name, the error of edit, and those of storage. After an
// error the old properties hold, but the file may have changed: the next Reload
// takes it in.
func (s *Service) SetQueue(ctx context.Context, name string, edit func(*QueueInfo) error) (QueueInfo, error) {
	if err := ctx.Err(); err != nil {
		return QueueInfo{}, err
	}
	if err := s.begin(); err != nil {
		return QueueInfo{}, err
	}
	defer s.end()
	s.set.Lock()
	defer s.set.Unlock()
	q, err := s.Queue(name)
	if err != nil {
		return QueueInfo{}, err
	}
	now, bad, err := q.base()
	if err != nil {
		return QueueInfo{}, fmt.Errorf("%s/%s: %w; mend the file first", q.id, queueInfo, err)
	}
	if now.info.Identifier != q.Info().Identifier {
		return QueueInfo{}, fmt.Errorf("%s/%s: %w: other hands have changed the identifier; put it back first", q.id, queueInfo, ErrBadName)
	}
	info := now.info
	if err := edit(&info); err != nil {
		return QueueInfo{}, err
	}
	if info.ID != now.info.ID || info.Identifier != now.info.Identifier {
		return QueueInfo{}, fmt.Errorf("%w: the identifier of queue %s cannot change; create a queue of the new name and move the jobs there", ErrBadName, q.id)
	}
	if !info.Created.Equal(now.info.Created) {
		return QueueInfo{}, fmt.Errorf("%w: when queue %s was created cannot change", ErrBadName, q.id)
	}
	if err := info.check(); err != nil {
		return QueueInfo{}, err
	}
	if s.named(info.Name, q) {
		return QueueInfo{}, fmt.Errorf("name %.80q: %w", info.Name, ErrQueueExists)
	}
	doc, err := anvl.ParseDocument(now.file)
	if err != nil {
		return QueueInfo{}, err
	}
	if text := rewrite(doc, info.elements()); bad || string(text) != string(now.file) {
		if bad {
			if _, err := q.tree.Root().SetAside(q.tree.Root(), queueInfo, queueInfo); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return QueueInfo{}, storageError(err)
			}
		}
		if err := q.tree.Root().Replace(queueInfo, text); err != nil {
			return QueueInfo{}, storageError(err)
		}
		if now, err = q.readSettings(); err != nil {
			return QueueInfo{}, storageError(err)
		}
	}
	if err := q.adopt(now); err != nil {
		return QueueInfo{}, err
	}
	return now.info, nil
}

// base returns the settings to begin a change with: those of the file, or, if it
// is damaged and was reported, those in force; then bad is true.
func (q *Queue) base() (now settings, bad bool, err error) {
	now, err = q.readSettings()
	if err == nil || transient(err) || q.inForce().bad == "" {
		return now, false, err
	}
	return q.inForce(), true, nil
}

// inForce returns the settings in force.
func (q *Queue) inForce() settings {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.set.settings
}

// named reports whether a queue other than q has the name.
func (s *Service) named(name string, q *Queue) bool {
	for _, other := range s.Queues() {
		if name != "" && other != q && other.Info().Name == name {
			return true
		}
	}
	return false
}

// rewrite gives the elements of a property file their values. An empty value is
// not added.
func rewrite(doc *anvl.Document, elements anvl.Record) []byte {
	for _, e := range elements {
		if old, there := doc.Lookup(e.Name); (there || e.Value != "") && old != e.Value {
			doc.Set(e.Name, e.Value)
		}
	}
	return doc.Bytes()
}

// settings are the properties in queue-info.txt, and the published facts of the
// file.
type settings struct {
	info  QueueInfo
	file  []byte
	facts Facts
	stamp stamp
	bad   string // why the file says otherwise; "" if it does not
	dated bool   // the file has the time of creation
	made  bool   // nothing was known, the properties are made up
}

// queueSettings are the settings of a queue in force.
type queueSettings struct {
	settings
	seen      stamp     // of the file at the last look
	announced [32]byte  // SHA-256 of the file in the last event of it; zero: unknown
	next      *settings // take force when their event is committed
}

// changed reports whether the file must be read again; see [watched].
func (s *queueSettings) changed(now stamp) bool {
	w := watched{read: s.stamp, seen: s.seen}
	changed := w.changed(now)
	s.seen = w.seen
	return changed
}

// readSettings reads queue-info.txt. If it has no time of creation, the known one
// stays.
func (q *Queue) readSettings() (n settings, err error) {
	var changed time.Time
	if n.stamp, changed, err = stampOf(q.tree.Root(), queueInfo); err != nil {
		return n, err
	}
	if n.file, err = q.tree.Root().ReadFile(queueInfo, nil, 1<<20); err != nil {
		return n, err
	}
	return n, n.parse(q, changed)
}

// parse reads the file of the settings, last written at an instant.
func (n *settings) parse(q *Queue, changed time.Time) (err error) {
	if n.info, err = parseQueueInfo(q.id, n.file); err == nil {
		err = n.info.check()
	}
	if err != nil {
		return err
	}
	if n.dated = !n.info.Created.IsZero(); !n.dated {
		n.info.Created = changed
		if old := q.Info(); !old.Created.IsZero() {
			n.info.Created = old.Created
		}
	}
	n.facts = Facts{Length: int64(len(n.file)), SHA256: sha256.Sum256(n.file), Type: job.FileType, Modified: changed}
	return nil
}

// use puts the settings in force, and serves consumers at the end of a pause.
func (q *Queue) use(n settings) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.set.settings = n
	q.serve()
}

// A stamp changes whenever a file does, unless somebody turns back the clock.
type stamp struct {
	inode          uint64
	size           int64
	written, moved int64 // ns
}

// watched is a file for other hands to change at any time.
type watched struct{ read, seen stamp }

// changed reports whether to read the file again: it differs from the last
// reading, and has held still since the last look. An editor may empty it first.
func (w *watched) changed(now stamp) bool {
	still := now == w.seen
	w.seen = now
	return still && now != w.read
}

// stampOf returns the stamp of a file, and when it was last written.
func stampOf(d *durable.Dir, name string) (stamp, time.Time, error) {
	st, err := d.Stat(name)
	if err != nil {
		return stamp{}, time.Time{}, err
	}
	return stamp{inode: st.Ino, size: st.Size, written: st.Mtim.Nano(), moved: st.Ctim.Nano()},
		time.Unix(st.Mtim.Unix()).UTC().Truncate(time.Microsecond), nil
}

// elements are all properties in the form and order of queue-info.txt; an empty
// value is a property not set.
func (info *QueueInfo) elements() anvl.Record {
	number := func(n, unset int64) string {
		if n == unset {
			return ""
		}
		return strconv.FormatInt(n, 10)
	}
	paused, closed, ack := "", "", ""
	if !info.Paused.IsZero() {
		paused = FormatTime(info.Paused)
	}
	if info.Closed {
		closed = "true"
	}
	if info.Acknowledge != AckNone {
		ack = info.Acknowledge.String()
	}
	return anvl.Record{
		{Name: "name", Value: info.Name},
		{Name: "identifier", Value: info.Identifier},
		{Name: "description", Value: info.Description},
		{Name: "cullingSizeThreshold", Value: number(info.CullingSize, -1)},
		{Name: "cullingAgeThreshold", Value: number(info.CullingAge, -1)},
		{Name: "verifyOnRead", Value: strconv.FormatBool(info.VerifyOnRead)},
		{Name: "verifyOnWrite", Value: strconv.FormatBool(info.VerifyOnWrite)},
		{Name: "paused", Value: paused},
		{Name: "closed", Value: closed},
		{Name: "acknowledge", Value: ack},
		{Name: "lease", Value: number(int64(info.Lease/time.Second), 0)},
		{Name: "maxAttempts", Value: number(int64(info.MaxAttempts), 0)},
		{Name: "callback", Value: info.Callback},
		{Name: "digests", Value: FormatDigests(info.Digests)},
		{Name: "created", Value: FormatTime(info.Created)},
	}
}

func (info *QueueInfo) file() []byte { return rewrite(new(anvl.Document), info.elements()) }

// check refuses values too large or out of range, and cleans texts.
func (info *QueueInfo) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrBadName}, args...)...)
	}
	switch {
	case info.CullingSize < -1 || info.CullingAge < -1:
		return bad("negative culling threshold")
	case info.CullingAge > maxHours:
		return bad("culling age of %d hours is more than %d", info.CullingAge, int64(maxHours))
	case info.Acknowledge > AckTimeout:
		return bad("%v", info.Acknowledge)
	case info.Lease < 0 || info.Lease > MaxLease || info.Lease%time.Second != 0:
		return bad("lease %v is not whole seconds from 0 to %d", info.Lease, MaxLease/time.Second)
	case info.MaxAttempts < 0 || info.MaxAttempts > maxAttempts:
		return bad("maximum of attempts %d is not from 0 to %d", info.MaxAttempts, maxAttempts)
	}
	info.Digests &^= digest.SetOf(digest.SHA256)
	info.Paused = info.Paused.Truncate(time.Microsecond).UTC()
	if y := info.Paused.Year(); y < 0 || y > 9999 {
		return bad("paused in the year %d", y)
	}
	if err := checkURI("callback", info.Callback); err != nil {
		return err
	}
	for _, v := range []*string{&info.Identifier, &info.Name, &info.Description} {
		if len(*v) > 4*job.MaxLabel {
			return fmt.Errorf("queue property: %w", ErrTooBig)
		}
		*v = job.CleanLabel(*v)
	}
	return nil
}

// maxHours is the largest age in hours to fit a duration.
const maxHours = int64(1<<63-1) / int64(time.Hour)

// checkURI refuses all but the empty string and absolute http or https URIs.
// Property files are public, so secrets are refused too.
func checkURI(what, uri string) error {
	if uri == "" {
		return nil
	}
	u, err := url.Parse(uri)
	switch {
	case len(uri) > maxURI:
		return fmt.Errorf("%s: %w: more than %d octets", what, ErrTooBig, maxURI)
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || job.CleanLabel(uri) != uri:
		return fmt.Errorf("%w: %s %.80q is not an absolute http or https URI", ErrBadName, what, uri)
	case u.User != nil:
		return fmt.Errorf("%w: %s names a user, and properties are public", ErrBadName, what)
	case u.Fragment != "":
		return fmt.Errorf("%w: %s %.80q has a fragment", ErrBadName, what, uri)
	}
	return nil
}

// FormatDigests returns the property digests of a queue, such as "SHA-256 MD5";
// it is "" for no digests but SHA-256.
func FormatDigests(s digest.Set) string {
	sha := digest.SetOf(digest.SHA256)
	if s &^= sha; s == 0 {
		return ""
	}
	return sha.String() + " " + s.String()
}

// ParseDigests reads names of digests, such as "SHA-256 MD5". The result leaves
// out SHA-256, which is always computed.
func ParseDigests(names string) (digest.Set, error) {
	s, err := digest.ParseSet(names)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrBadName, err)
	}
	return s &^ digest.SetOf(digest.SHA256), nil
}

func parseQueueInfo(id string, data []byte) (QueueInfo, error) {
	info := QueueInfo{ID: id, CullingSize: -1, CullingAge: -1}
	r, err := anvl.ParseRecord(data)
	if err != nil {
		return info, err
	}
	// An emptied or truncated file must not pass for one with all defaults.
	if info.Identifier = r.Value("identifier"); info.Identifier == "" {
		return info, errors.New("no identifier")
	}
	info.Name, info.Description, info.Callback = r.Value("name"), r.Value("description"), r.Value("callback")
	var errs []error
	number := func(name string, to *int64) {
		if v := r.Value(name); v != "" {
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil || n < 0 {
				errs = append(errs, fmt.Errorf("%s: %.40q is not a number", name, v))
				return
			}
			*to = n
		}
	}
	var lease, attempts int64
	number("cullingSizeThreshold", &info.CullingSize)
	number("cullingAgeThreshold", &info.CullingAge)
	number("lease", &lease)
	number("maxAttempts", &attempts)
	info.Lease = time.Duration(min(lease, int64(MaxLease/time.Second)+1)) * time.Second
	info.MaxAttempts = int(min(attempts, maxAttempts+1))
	truth := func(name string, to *bool) {
		if v := r.Value(name); v != "" {
			b, err := strconv.ParseBool(strings.ToLower(v))
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %.40q is neither true nor false", name, v))
			}
			*to = b
		}
	}
	truth("verifyOnRead", &info.VerifyOnRead)
	truth("verifyOnWrite", &info.VerifyOnWrite)
	truth("closed", &info.Closed)
	date := func(name string, to *time.Time) {
		if v := r.Value(name); v != "" {
			t, err := job.ParseTime(v)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			}
			*to = t
		}
	}
	date("paused", &info.Paused)
	date("created", &info.Created)
	if v := r.Value("acknowledge"); v != "" {
		if info.Acknowledge, err = ParseAcknowledge(v); err != nil {
			errs = append(errs, err)
		}
	}
	if info.Digests, err = ParseDigests(r.Value("digests")); err != nil {
		errs = append(errs, err)
	}
	return info, errors.Join(errs...)
}
