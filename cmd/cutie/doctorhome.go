package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"cutie/cmd/cutie/listen"
	"cutie/queuefs"
	"cutie/queuefs/check"
	"cutie/queuefs/dir"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
)

// Bounds of one look, so that it ends soon.
const (
	maxProblems = 20
	maxAlike    = 3 // problems told of one directory
	maxQueues   = 100_000
	aheadLeast  = time.Minute // of an event before the clock
)

// lookAtHome looks at the home. Without one nothing else can be looked at, and it returns
// false.
func (e *examination) lookAtHome(ctx context.Context) bool {
	info, err := os.Stat(*e.home)
	if err != nil || !info.IsDir() {
		if err == nil {
			err = &os.PathError{Op: "open", Path: *e.home, Err: syscall.ENOTDIR}
		}
		e.fault("home", "--home names another; cutie init "+*e.home+" makes one", "%v", err)
		return false
	}
	e.owner(info)
	e.files(info)
	e.shape()
	e.pid = os.Getpid()
	if e.daemon, err = e.finder.Daemon(ctx); err != nil {
		e.fault("home", "run this as the user of the daemon", "the socket of the daemon: %v", err)
		return true
	}
	if e.daemon != nil {
		if text, err := os.ReadFile(filepath.Join(*e.home, home.LockName)); err == nil {
			if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
				e.pid = pid
			}
		}
		e.ok("home", "%s, served by process %d", *e.home, e.pid)
	} else {
		e.closed()
	}
	e.aside()
	return true
}

// owner looks at the rights to the directory.
func (e *examination) owner(info os.FileInfo) {
	if s, ok := info.Sys().(*syscall.Stat_t); ok && os.Geteuid() != 0 && int(s.Uid) != os.Geteuid() {
		e.warn("home", "run this as user "+strconv.Itoa(int(s.Uid))+", or chown -R the home", "%s belongs to user %d, not to you", *e.home, s.Uid)
	}
	if info.Mode().Perm()&0o077 != 0 {
		e.warn("home", "chmod 700 "+*e.home, "other users of this machine can look into %s", *e.home)
	}
}

// closed opens a home without a daemon, to look.
func (e *examination) closed() {
	n, told, in := 0, 0, map[string]int{}
	svc, err := queuefs.Open(*e.home, queuefs.Options{Look: true, Report: func(p durable.Finding) {
		n++
		dir := filepath.Dir(p.Path)
		if in[dir]++; in[dir] <= maxAlike && told < maxProblems {
			told++
			e.fault("home", e.cureOf(p), "%s", p)
		}
	}})
	if err != nil {
		err = explainHome(err, *e.home)
		text, hint := wordsOf(err)
		var locked *home.LockedError
		if errors.As(err, &locked) {
			hint = "wait until that process has opened the home, or stop it"
		}
		if hint == "" && errors.Is(err, fs.ErrPermission) {
			hint = "run this as the user of the daemon; if you do, give the files of the home to that user"
		}
		if hint == "" && errors.Is(err, syscall.EISDIR) {
			hint = "move the directory away"
		}
		e.fault("home", hint, "%s", text)
		return
	}
	defer svc.Close()
	if e.Listen.BaseURI == "" {
		e.Listen.BaseURI = svc.Info().BaseURI
	}
	e.dates(svc)
	e.heads(svc)
	if n > told {
		e.fault("home", "cutie check "+*e.home+" names them", "%d problems more", n-told)
	}
	if n == 0 {
		e.ok("home", "%s can be opened, and no daemon runs; cutie check reads all its files", *e.home)
	}
}

// cureOf names the cure of a problem met while opening.
func (e *examination) cureOf(p durable.Finding) string {
	if p.Level == durable.Unread {
		return "look at the rights to the file, then at the disk and its log; the file may be whole"
	}
	if p.Path == home.LogDir+"/"+home.JournalDir {
		return hintOf(explainHome(queuefs.ErrJournalLost, *e.home))
	}
	if id, ok := strings.CutPrefix(p.Path, home.QueuesDir+"/"); ok && strings.HasPrefix(p.Text, "directory lost") {
		return "put the directory back, or cutie rmqueue --lost " + id
	}
	o, _ := check.Cure(&queuefs.CheckReport{Problems: []durable.Finding{p}}, nil)
	return checkCommand(*e.home, o.Repair, o.Rebuild, o.AcceptLoss)
}

// dates compares the last events with the clock. Later events are dated after them,
// wherever the clock stands.
func (e *examination) dates(svc *queuefs.Service) {
	var last time.Time
	var of string
	for _, q := range svc.Queues() {
		if s := q.State(); s.LastEvent.After(last) {
			last, of = s.LastEvent, s.Info.ID
		}
	}
	if last.Sub(e.now) > aheadLeast {
		e.fault("clock", "set the clock right before the daemon starts; if it is right now, it was ahead, and events go on from that date until the clock has caught up",
			"the last event of %s is of %s, and by the clock it is %s", of, last.UTC().Format(time.DateTime), e.now.UTC().Format(time.DateTime))
	}
}

// aside looks for files set aside because they made no sense.
func (e *examination) aside() {
	dirs := []string{*e.home}
	if f, err := os.Open(filepath.Join(*e.home, home.QueuesDir)); err == nil {
		names, _ := f.Readdirnames(maxQueues)
		f.Close()
		for _, name := range names {
			dirs = append(dirs, filepath.Join(f.Name(), name))
		}
	}
	files, in := 0, ""
	for _, dir := range dirs {
		if all, err := os.ReadDir(filepath.Join(dir, durable.Corrupt)); err == nil && len(all) > 0 {
			files += len(all)
			in = filepath.Join(dir, durable.Corrupt)
		}
	}
	if files > 0 {
		e.warn("home", "see what became of them, bring the files back from a copy, then delete these", "%d files that made no sense were set aside, the last in %s", files, in)
	}
}

// Bounds of a look at the next jobs of consumers.
const (
	maxHeads = 10_000
	headTime = 2 * time.Second
)

// upper are the parts of a home with few files, to look at each; of the directories
// with job files and payloads only the directory itself is looked at.
var upper = []string{"", home.LogDir, home.LogDir + "/" + home.JournalDir, home.QueuesDir, home.QueuesDir + "/*"}

// files looks for files without rights for the owner of the home. A command run by
// another user, such as root, leaves them.
func (e *examination) files(info os.FileInfo) {
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return
	}
	var foreign, locked []string
	seen := map[string]bool{}
	for _, dir := range upper {
		names, _ := filepath.Glob(filepath.Join(globbed(*e.home), dir, "*"))
		for _, name := range names[:min(len(names), maxQueues)] {
			st, err := os.Lstat(name)
			if err != nil || seen[name] {
				continue
			}
			seen[name] = true
			need := fs.FileMode(0o600)
			if st.IsDir() {
				need = 0o700
			}
			if s, ok := st.Sys().(*syscall.Stat_t); ok && s.Uid != owner.Uid {
				foreign = append(foreign, fmt.Sprintf("%s of user %d", name, s.Uid))
			} else if (st.IsDir() || st.Mode().IsRegular()) && st.Mode().Perm()&need != need {
				locked = append(locked, name)
			}
		}
	}
	if len(foreign) > 0 {
		e.fault("home", fmt.Sprintf("chown -R %d:%d %s, and run commands on it as that user", owner.Uid, owner.Gid, *e.home),
			"%d files do not belong to user %d, as the home does, first %s", len(foreign), owner.Uid, foreign[0])
	}
	if len(locked) > 0 {
		e.fault("home", "chmod -R u+rwX "+*e.home, "the owner may not read and write %d files, first %s", len(locked), locked[0])
	}
	for _, name := range []string{e.config, e.Access.Users, e.tlsCert, e.tlsKey} {
		e.readable(name, owner)
	}
}

// readable looks if the owner of the home may read a file of its settings, by owner,
// first group and mode: root sees no trouble with a file of its own.
func (e *examination) readable(name string, owner *syscall.Stat_t) {
	st, err := os.Stat(name)
	if err != nil {
		return // told with the settings
	}
	s, ok := st.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == 0 {
		return
	}
	may := fs.FileMode(0o004)
	switch {
	case s.Uid == owner.Uid:
		may = 0o400
	case s.Gid == owner.Gid:
		may = 0o040
	}
	if st.Mode().Perm()&may == 0 {
		e.fault("settings", fmt.Sprintf("chown %d %s", owner.Uid, name), "user %d, who owns the home, may not read %s", owner.Uid, name)
	}
}

// globbed escapes a name for [filepath.Glob].
func globbed(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}

// heads opens the files of the next jobs of consumers, as many as there is time for.
// Opening reports damaged job files; payloads are compared by their length.
func (e *examination) heads(svc *queuefs.Service) {
	var bad []string
	end := time.Now().Add(headTime)
	left := maxHeads
	for _, q := range svc.Queues() {
		for _, id := range q.IDs(index.Filter{Status: job.Pending, Limit: left}) {
			if left--; left < 0 || time.Now().After(end) {
				break
			}
			if _, err := q.Job(id); err != nil {
				continue // told
			}
			p, err := q.Payload(id)
			if err == nil {
				err = p.Close()
			}
			if err != nil && !errors.Is(err, ledger.ErrNoJob) {
				bad = append(bad, fmt.Sprintf("%s/%s: %v", q.ID(), id, err))
			}
		}
	}
	if len(bad) > 0 {
		e.fault("home", "bring the payloads back from a copy; jobs without one are put on hold, cutie rm and cutie cull remove them; cutie check "+*e.home+" reads all",
			"%d jobs have no good payload, first %s", len(bad), bad[0])
	}
}

// maxNames is the most names of a look at directories of jobs.
const maxNames = 1_000_000

// shape looks for things of another kind where the home has files, a socket, directories, or
// files of jobs.
func (e *examination) shape() {
	name := filepath.Join(*e.home, listen.SocketName)
	if info, err := os.Lstat(name); err == nil && info.Mode().Type() != fs.ModeSocket {
		e.fault("home", "move it away: the daemon makes the socket", "%s is no socket", name)
	}
	for _, file := range []string{home.ListName, home.InfoName} {
		name := filepath.Join(*e.home, file)
		if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
			e.fault("home", "move it away, and bring the file back from a copy; without one, "+checkCommand(*e.home, false, true, false), "%s is no file", name)
		}
	}
	queues, _ := filepath.Glob(filepath.Join(globbed(*e.home), home.QueuesDir, "*", home.QueueInfoName))
	left, end := maxNames, time.Now().Add(headTime)
	for _, q := range queues[:min(len(queues), maxQueues)] {
		for _, sub := range []string{job.Pending.String(), job.Consumed.String(), job.Deleted.String(), dir.Payloads} {
			dir := filepath.Join(filepath.Dir(q), sub)
			info, err := os.Lstat(dir)
			switch {
			case err != nil:
			case !info.IsDir():
				e.fault("home", "put the directory itself there: the home is in one file system, and follows no link", "%s is no directory", dir)
			case left > 0 && time.Now().Before(end):
				left -= e.foreignNames(dir, left)
			}
		}
	}
}

// foreignNames looks at up to max names of files of jobs, and returns how many it saw.
func (e *examination) foreignNames(dir string, max int) (seen int) {
	f, err := os.Open(dir)
	if err != nil {
		return 0 // told with the files
	}
	defer f.Close()
	foreign, first := 0, ""
	for seen < max && err != io.EOF {
		var all []os.DirEntry
		if all, err = f.ReadDir(4096); err != nil && err != io.EOF {
			return seen // told when the home is opened
		}
		for _, file := range all {
			if _, bad := job.ParseID(file.Name()); bad != nil || !file.Type().IsRegular() {
				if foreign++; foreign == 1 {
					first = file.Name()
				}
			}
		}
		seen += len(all)
	}
	if foreign > 0 {
		e.warn("home", checkCommand(*e.home, true, false, false)+" sets them aside", "%d entries of %s are no files of jobs, first %.80q", foreign, dir, first)
	}
	return seen
}
