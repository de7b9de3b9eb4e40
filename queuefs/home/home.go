// Package home has the files of a Cutie home beside its jobs (Cutie 0.3, 6): the
// names in it, its tag and lock, the properties of the service and of each queue,
// and the list of queues. Operators may edit these files at any time; a [File]
// watches one of them. A change keeps comments, order and unknown elements.
package home

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cutie/queuefs/digest"
	"cutie/queuefs/durable"
	"cutie/queuefs/job"
	"cutie/queuefs/namaste"
)

// Names in a home. Names with cutie at the beginning are reserved for the program.
const (
	InfoName      = "cutie-info.txt"
	ListName      = "queues.txt"
	QueueInfoName = "queue-info.txt" // in the directory of a queue
	LockName      = "cutie-lock"
	ReserveName   = "cutie-reserve" // space for a full disk
	MakingName    = "cutie-making"  // while a home is made of a copy

	TempDir      = "cutie-tmp"
	QueuesDir    = "queues"
	LogDir       = "log"
	JournalDir   = "journal"      // in log
	TableName    = "table"        // in log: what the engine knows
	PackedDir    = "image"        // in log: rows of the table from an image, until the home is opened
	PacksDir     = "packs"        // in log: copies of waiting jobs
	PublishedDir = "resourcesync" // published documents, with a directory for each queue

	LostFound = "lost+found" // at the root of a volume; the file system has made it

	tagName     = "cutie"
	specVersion = "0.3"
	queuesOld   = "queue" // as one heading of the specification has it
)

// Version is the version of this implementation, the third part of a service
// scheme.
const Version = "0.1"

// Scheme is the service scheme: specification, its version, ours.
const Scheme = "Cutie/" + specVersion + "/" + Version

// ErrNoHome is the error for a directory without the tag of a home.
var ErrNoHome = errors.New("not a Cutie home")

// ErrMaking is the error for a home with [MakingName].
var ErrMaking = errors.New("the directory is not a whole home: it is being made one of a copy, and that was cut off")

// A Problem is damage, found and set aside, never deleted.
type Problem = durable.Finding

// QueueInfoPath returns the path of the property file of a queue.
func QueueInfoPath(id string) string { return QueuesDir + "/" + id + "/" + QueueInfoName }

// OpenQueues opens the directory of the queues, and makes it if there is none
// under either name.
func OpenQueues(home *durable.Dir) (*durable.Dir, error) {
	d, err := home.Sub(QueuesDir)
	if errors.Is(err, fs.ErrNotExist) {
		if d, err = home.Sub(queuesOld); errors.Is(err, fs.ErrNotExist) {
			d, err = home.MakeSub(QueuesDir)
		}
	}
	return d, err
}

// TagValue is the value of the tag of a home.
const TagValue = "Cutie/" + specVersion

// tag makes a directory a home.
var tag = namaste.Tag{Value: TagValue}

// Init makes an empty home in the directory dir, and makes dir, for its owner
// alone, if need be. The error is [fs.ErrExist] if it is a home already, and [ErrNoHome]
// if it was one and lost its tag.
func Init(dir string, info ServiceInfo) (err error) {
	// Jobs may be private. For other users, make the directory first, or change
	// its mode.
	if err := os.MkdirAll(filepath.Dir(filepath.Clean(dir)), 0o777); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	d, err := durable.OpenDir(dir, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if _, err := d.Stat(tag.FileName()); err == nil {
		return fmt.Errorf("%s is a Cutie home: %w", dir, fs.ErrExist)
	}
	if Untagged(dir) {
		return fmt.Errorf("%s: %w any more: all of one is there but its tag 0=cutie_%s", dir, ErrNoHome, specVersion)
	}
	if info.Created.IsZero() {
		info.Created = time.Now()
	}
	if info.Scheme == "" {
		info.Scheme = Scheme
	}
	for _, sub := range []string{LogDir, QueuesDir} {
		s, err := d.MakeSub(sub)
		if err != nil {
			return err
		}
		s.Close()
	}
	if err := d.Replace(InfoName, info.Text()); err != nil {
		return err
	}
	// With the tag the directory becomes a home.
	return d.Replace(tag.FileName(), []byte(tag.Content()))
}

// Untagged reports whether a directory has the properties of a service and a journal, as
// a home without its tag.
func Untagged(dir string) bool {
	for _, name := range []string{InfoName, filepath.Join(LogDir, JournalDir)} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// Unmade reports whether a directory is not there, is empty as the root of a new volume
// is, too, or has only the remains of a broken-off Init.
func Unmade(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	made := map[string]bool{} // by Init, in this order
	for _, e := range entries {
		switch name := e.Name(); {
		case name == LogDir, name == QueuesDir:
			within, err := os.ReadDir(filepath.Join(dir, name))
			if err != nil || slices.ContainsFunc(within, func(e fs.DirEntry) bool { return e.Name() != LostFound }) {
				return false, err
			}
			made[name] = true
		case name == LostFound && e.IsDir():
		case name == InfoName, strings.HasPrefix(name, durable.TempPrefix):
			made[InfoName] = true
		default:
			return false, nil
		}
	}
	return made[LogDir] || !made[QueuesDir] && !made[InfoName], nil
}

// CheckTag checks for a home of a version known to this program. An older version, a
// tag whose name and content differ, and a tag of another kind beside it are reported
// as problems. Without a tag the error is [ErrNoHome].
func CheckTag(d *durable.Dir, report func(Problem)) error {
	var names []string
	if err := d.Names(func(n string) { names = append(names, n) }); err != nil {
		return err
	}
	own := 0
	tags := namaste.Find(names)
	for _, name := range tags {
		data, err := d.ReadFile(name, nil, 1<<10)
		if err != nil {
			return err
		}
		v, is := versionOf(name, string(data))
		if !is {
			continue
		}
		own++
		if v.Major != 0 || v.Minor > 3 || v.Minor < 2 {
			return &VersionError{Dir: d.Path(), Major: v.Major, Minor: v.Minor}
		}
		right := namaste.Tag{Value: v.String()}
		if name != right.FileName() || !strings.EqualFold(strings.TrimRight(string(data), "\r\n"), right.Value) {
			report(Problem{Path: name, Text: fmt.Sprintf("wrong tag: it holds %.40q, and %s holds %q; opened as %s", data, right.FileName(), right.Value, v)})
		}
		if v.Minor == 2 {
			report(Problem{Path: name, Text: "home of version 0.2, opened as 0.3"})
		}
	}
	if own == 0 {
		return fmt.Errorf("%s: %w: no tag 0=cutie_%s", d.Path(), ErrNoHome, specVersion)
	}
	if len(tags) > 1 {
		report(Problem{Path: strings.Join(tags, " "), Text: "more than one type tag; opened as a Cutie home"})
	}
	return nil
}

// CheckMade returns [ErrMaking] for a home that is still being made of a copy.
func CheckMade(d *durable.Dir) error {
	_, err := d.Stat(MakingName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = ErrMaking
	}
	return fmt.Errorf("%s: %w", d.Path(), err)
}

// BeginMaking says on stable storage that dir is made a home, until EndMaking.
func BeginMaking(dir string) error {
	return making(dir, func(d *durable.Dir) error { return d.Replace(MakingName, []byte("cutie makes a home of this copy\n")) })
}

// EndMaking says on stable storage that the home is whole.
func EndMaking(dir string) error {
	return making(dir, func(d *durable.Dir) error { return errors.Join(d.Remove(MakingName), d.Sync()) })
}

func making(dir string, do func(*durable.Dir) error) error {
	d, err := durable.OpenDir(dir, nil)
	if err != nil {
		return err
	}
	return errors.Join(do(d), d.Close())
}

// versionOf returns the version of a type tag of Cutie by its content, or else by its
// name.
func versionOf(name, content string) (v namaste.Version, is bool) {
	if found, err := namaste.Parse(name, content); err == nil {
		if v, err = namaste.ParseVersion(found.Value); err == nil && strings.EqualFold(v.Name, tagName) {
			v.Name = "Cutie"
			return v, true
		}
	}
	v, err := namaste.ParseVersion(strings.TrimPrefix(name, "0="))
	v.Name = "Cutie"
	return v, err == nil && strings.HasPrefix(strings.ToLower(name), "0="+tagName+"_")
}

// Complete makes the tag and the properties of the service if they are missing, gives a
// tag under another name its own, and reports all.
func Complete(d *durable.Dir, now time.Time, report func(Problem)) error {
	if err := renameTag(d, report); err != nil {
		return err
	}
	if text, err := d.ReadFile(tag.FileName(), nil, 1<<10); err == nil && string(text) != tag.Content() {
		if err := d.Replace(tag.FileName(), []byte(tag.Content())); err != nil {
			return err
		}
		report(Problem{Path: tag.FileName(), Text: "wrong tag; written again"})
	}
	if err := CheckTag(d, report); errors.Is(err, ErrNoHome) {
		if err := d.Replace(tag.FileName(), []byte(tag.Content())); err != nil {
			return err
		}
		report(Problem{Path: tag.FileName(), Text: "missing; made"})
	} else if err != nil {
		return err
	}
	if _, err := d.Stat(InfoName); errors.Is(err, fs.ErrNotExist) {
		if err := d.Replace(InfoName, ServiceInfo{Scheme: Scheme, Created: now}.Text()); err != nil {
			return err
		}
		report(Problem{Path: InfoName, Text: "missing; made"})
	}
	return nil
}

// renameTag gives the tag its name, if it stands under another one.
func renameTag(d *durable.Dir, report func(Problem)) error {
	if _, err := d.Stat(tag.FileName()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var names []string
	if err := d.Names(func(n string) { names = append(names, n) }); err != nil {
		return err
	}
	for _, name := range namaste.Find(names) {
		text, err := d.ReadFile(name, nil, 1<<10)
		if err != nil {
			return err
		}
		if string(text) == tag.Content() {
			report(Problem{Path: name, Text: "wrong name; renamed to " + tag.FileName()})
			return d.Rename(name, d, tag.FileName())
		}
	}
	return nil
}

// A VersionError: the home is of a version of Cutie unknown to this program.
type VersionError struct {
	Dir          string
	Major, Minor int
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%s: Cutie version %d.%d is not one this program knows", e.Dir, e.Major, e.Minor)
}

// CopyNames copies the tag and cutie-info.txt of a home, as far as they are there.
func CopyNames(from, to *durable.Dir) error {
	for _, name := range []string{tag.FileName(), InfoName} {
		text, err := from.ReadFile(name, nil, maxInfo)
		if err == nil {
			err = to.Replace(name, text)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// A LockedError is the error for a home held by another process.
type LockedError struct {
	Dir string
	PID int // 0 if the holder did not say
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s: home in use by another process", e.Dir)
	}
	return fmt.Sprintf("%s: home in use by process %d", e.Dir, e.PID)
}

// A Held lock keeps other processes from opening a home. It ends with Close, or with the
// process.
//
// It is on two files: the directory itself, which nobody can remove or replace without
// removing the home, and cutie-lock, which names the process. Network file systems that
// cannot lock a directory leave the second one.
type Held struct{ dir, file *os.File }

// Close lets go of the home. A nil lock has nothing to close.
func (h *Held) Close() error {
	if h == nil {
		return nil
	}
	err := release(h.dir)
	if h.file != nil {
		err = errors.Join(err, release(h.file))
	}
	return err
}

// release unlocks and closes a file. Closing alone is not enough: a child that is being
// started has a copy of each descriptor until it runs its own program. A file system that
// does not unlock did not lock.
func release(f *os.File) error {
	_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
	return f.Close()
}

// LockToLook keeps other processes from opening a home, except those that look at it as
// well. It writes nothing.
func LockToLook(dir string) (*Held, error) { return hold(dir, unix.LOCK_SH, os.O_RDONLY) }

// Lock takes the lock of a home and writes our process number in cutie-lock. If another
// process has it the error is a [*LockedError].
func Lock(dir string) (*Held, error) {
	h, err := hold(dir, unix.LOCK_EX, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	h.file.Truncate(0)
	h.file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return h, nil
}

// hold locks the directory, then the file of the lock. Without O_CREATE it may have none.
func hold(dir string, how, flag int) (*Held, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	h := &Held{dir: d}
	if unix.Flock(int(d.Fd()), how|unix.LOCK_NB) == unix.EWOULDBLOCK {
		return nil, errors.Join(&LockedError{Dir: dir, PID: holder(dir)}, h.Close())
	}
	h.file, err = os.OpenFile(dir+"/"+LockName, flag, 0o600)
	switch {
	case err == nil:
		err = unix.Flock(int(h.file.Fd()), how|unix.LOCK_NB)
	case errors.Is(err, fs.ErrNotExist) && flag&os.O_CREATE == 0:
		err = nil
	}
	switch {
	case err == nil:
		return h, nil
	case err == unix.EWOULDBLOCK:
		err = &LockedError{Dir: dir, PID: written(h.file)}
	case h.file != nil:
		err = &fs.PathError{Op: "lock", Path: dir + "/" + LockName, Err: err}
	}
	return nil, errors.Join(err, h.Close())
}

// holder returns the process that has the home; 0 if nobody holds cutie-lock, so that its
// text is of somebody else.
func holder(dir string) int {
	f, err := os.Open(dir + "/" + LockName)
	if err != nil {
		return 0
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) != unix.EWOULDBLOCK {
		return 0
	}
	return written(f)
}

// written returns the process number in the file of the lock.
func written(f *os.File) int {
	var b [32]byte
	n, _ := f.ReadAt(b[:], 0)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	return pid
}

// removedPrefix begins the names of removed queues among temporary files.
const removedPrefix = "removed-"

// RemoveQueue removes the directory of a queue that is not listed. It is renamed
// first: the remains of a crash are no queue, and go at the next start.
func RemoveQueue(queues, temp *durable.Dir, id string) error {
	if err := MoveQueueAway(queues, temp, id); err != nil {
		return err
	}
	return RemoveMoved(temp, id)
}

// MoveQueueAway is the first step of RemoveQueue: the directory has another name then, on
// stable storage, whatever its size.
func MoveQueueAway(queues, temp *durable.Dir, id string) error {
	if err := RemoveMoved(temp, id); err != nil {
		return err
	}
	if err := queues.Rename(id, temp, removedPrefix+id); err != nil {
		return err
	}
	return queues.Sync()
}

// RemoveMoved is the second step: it removes the files.
func RemoveMoved(temp *durable.Dir, id string) error { return temp.RemoveTree(removedPrefix + id) }

// SweepRemoved removes the remains of removed queues.
func SweepRemoved(temp *durable.Dir, report func(path, text string)) error {
	var left []string
	err := temp.Names(func(name string) {
		if strings.HasPrefix(name, removedPrefix) {
			left = append(left, name)
		}
	})
	for _, name := range left {
		if e := temp.RemoveTree(name); e != nil { // tried again at the next opening
			report(TempDir+"/"+name, e.Error()+"; left behind of a queue that was removed")
		}
	}
	return err
}

// formerPrefix begins the names of directories among temporary files that were of a home of
// former days.
const formerPrefix = "former-"

// MoveAway gives a directory, if it is there, another name among temporary files. Its files
// go with SweepFormer: many take long.
func MoveAway(dir, temp *durable.Dir, name string) error {
	err := dir.Rename(name, temp, formerPrefix+rand.Text())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, syscall.EXDEV):
		return dir.RemoveTree(name)
	}
	return err
}

// movedAway returns the names of directories moved away.
func movedAway(temp *durable.Dir) (left []string, err error) {
	err = temp.Names(func(name string) {
		if strings.HasPrefix(name, formerPrefix) {
			left = append(left, name)
		}
	})
	return left, err
}

// MovedAway reports whether SweepFormer has something to do.
func MovedAway(temp *durable.Dir) (bool, error) {
	left, err := movedAway(temp)
	return len(left) > 0, err
}

// SweepFormer removes directories moved away, as long as stop returns nil.
func SweepFormer(temp *durable.Dir, stop func() error) error {
	left, err := movedAway(temp)
	for _, name := range left {
		if err == nil {
			err = temp.RemoveTreeUntil(name, stop)
		}
	}
	return err
}

// maxReports is how many problems are remembered.
const maxReports = 10_000

// Reports pass problems on: each once until its file changes, since asking for a
// damaged job again and again must not fill the log. They are safe for concurrent use.
type Reports struct {
	dir  string
	to   func(Problem) // nil: nobody
	some atomic.Bool   // there are remembered ones

	tell sync.Mutex // held while a problem is passed on

	mu   sync.Mutex
	seen map[string]map[string]stamp // by path and text
}

// NewReports returns the reports of a home.
func NewReports(dir string, to func(Problem)) *Reports {
	return &Reports{dir: dir, to: to, seen: map[string]map[string]stamp{}}
}

// Add passes a problem on, unless it was before and its file is as it was then.
func (r *Reports) Add(p Problem) {
	if r.to == nil {
		return
	}
	var now stamp
	if st, err := os.Lstat(r.dir + "/" + p.Path); err == nil {
		if sys, ok := st.Sys().(*syscall.Stat_t); ok {
			now = stamp{inode: sys.Ino, size: sys.Size, written: sys.Mtim.Nano(), moved: sys.Ctim.Nano()}
		}
	}
	r.mu.Lock()
	texts := r.seen[p.Path]
	was, seen := texts[p.Text]
	if texts == nil && len(r.seen) < maxReports {
		texts = map[string]stamp{}
		r.seen[p.Path] = texts
	}
	if texts != nil {
		texts[p.Text] = now
	}
	r.some.Store(true)
	r.mu.Unlock()
	if !seen || was != now {
		r.tell.Lock()
		defer r.tell.Unlock()
		r.to(p)
	}
}

// Any reports whether there are problems to forget with Mended.
func (r *Reports) Any() bool { return r.some.Load() }

// Mended forgets the problems of a file that was found sound: if it is lost again, that
// is told again.
func (r *Reports) Mended(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.seen, path)
	r.some.Store(len(r.seen) > 0)
}

// maxURI is how many octets a URI in a property may have.
const maxURI = 2000

// checkURI refuses all but the empty string and absolute http or https URIs.
// Property files are public, so secrets are refused too.
func checkURI(what, uri string) error {
	if uri == "" {
		return nil
	}
	u, err := url.Parse(uri)
	switch {
	case len(uri) > maxURI:
		return fmt.Errorf("%s: %w: more than %d octets", what, job.ErrTooBig, maxURI)
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || job.CleanLabel(uri) != uri:
		return fmt.Errorf("%w: %s %.80q is not an absolute http or https URI", job.ErrBadName, what, uri)
	case u.User != nil:
		return fmt.Errorf("%w: %s names a user, and properties are public", job.ErrBadName, what)
	case u.Fragment != "":
		return fmt.Errorf("%w: %s %.80q has a fragment", job.ErrBadName, what, uri)
	}
	return nil
}

// cleanTexts cleans the texts of a property file, and refuses long ones.
func cleanTexts(whose string, texts ...*string) error {
	for _, v := range texts {
		if len(*v) > 4*job.MaxLabel {
			return fmt.Errorf("%s property: %w", whose, job.ErrTooBig)
		}
		*v = job.CleanLabel(*v)
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
		return 0, fmt.Errorf("%w: %w", job.ErrBadName, err)
	}
	return s &^ digest.SetOf(digest.SHA256), nil
}

// NoDumps says that no set of resources has dumps.
const NoDumps = "none"

// ParseDumps reads the sets of resources with dumps: "pending", "replica", both, or
// [NoDumps]. The empty text stays.
func ParseDumps(names string) (string, error) {
	var sets []string
	for _, set := range strings.FieldsFunc(names, func(c rune) bool { return c == ' ' || c == ',' }) {
		if sets = append(sets, set); set != "pending" && set != "replica" && set != NoDumps {
			return "", fmt.Errorf("%w: dumps is %.40q, neither pending nor replica nor none", job.ErrBadName, names)
		}
	}
	slices.Sort(sets)
	if sets = slices.Compact(sets); len(sets) > 1 && sets[0] == NoDumps {
		return "", fmt.Errorf("%w: dumps is %.40q, and none excludes others", job.ErrBadName, names)
	}
	return strings.Join(sets, " "), nil
}
