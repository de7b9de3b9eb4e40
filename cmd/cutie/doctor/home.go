package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/reach"
	"cutie/queuefs"
	"cutie/queuefs/check"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
)

// Bounds of one look, so that it ends soon.
const (
	maxProblems = 20
	maxAlike    = 3 // problems told of one directory
	maxQueues   = 100_000
	aheadLeast  = time.Minute // of an event before the clock
)

// home looks at the home. Without one nothing else can be looked at, and it returns
// false.
func (e *examination) home(ctx context.Context) bool {
	info, err := os.Stat(e.Home)
	if err != nil || !info.IsDir() {
		if err == nil {
			err = &os.PathError{Op: "open", Path: e.Home, Err: syscall.ENOTDIR}
		}
		e.fault("home", "--home names another; cutie init "+e.Home+" makes one", "%v", err)
		return false
	}
	e.owner(info)
	e.files(info)
	e.shape()
	e.pid = os.Getpid()
	if e.daemon, err = e.Finder.Daemon(ctx); err != nil {
		e.fault("home", "run this as the user of the daemon", "the socket of the daemon: %v", err)
		return true
	}
	if e.daemon != nil {
		if text, err := os.ReadFile(filepath.Join(e.Home, home.LockName)); err == nil {
			if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
				e.pid = pid
			}
		}
		e.ok("home", "%s, served by process %d", e.Home, e.pid)
	} else {
		e.closed()
	}
	e.aside()
	return true
}

// owner looks at the rights to the directory.
func (e *examination) owner(info os.FileInfo) {
	if s, ok := info.Sys().(*syscall.Stat_t); ok && os.Geteuid() != 0 && int(s.Uid) != os.Geteuid() {
		e.warn("home", "run this as user "+strconv.Itoa(int(s.Uid))+", or chown -R the home", "%s belongs to user %d, not to you", e.Home, s.Uid)
	}
	if info.Mode().Perm()&0o077 != 0 {
		e.warn("home", "chmod 700 "+e.Home, "other users of this machine can look into %s", e.Home)
	}
}

// closed opens a home without a daemon, to look.
func (e *examination) closed() {
	n, told, in := 0, 0, map[string]int{}
	svc, err := queuefs.Open(e.Home, queuefs.Options{Look: true, Report: func(p queuefs.Problem) {
		n++
		dir := filepath.Dir(p.Path)
		if in[dir]++; in[dir] <= maxAlike && told < maxProblems {
			told++
			e.fault("home", e.cureOf(p), "%s", p)
		}
	}})
	if err != nil {
		err = reach.HomeHint(e.Home, err)
		text, hint := fault.Words(err)
		var locked *queuefs.LockedError
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
	if e.BaseURI == "" {
		e.BaseURI = svc.Info().BaseURI
	}
	e.dates(svc)
	e.heads(svc)
	if n > told {
		e.fault("home", "cutie check "+e.Home+" names them", "%d problems more", n-told)
	}
	if n == 0 {
		e.ok("home", "%s can be opened, and no daemon runs; cutie check reads all its files", e.Home)
	}
}

// cureOf names the cure of a problem met while opening.
func (e *examination) cureOf(p queuefs.Problem) string {
	if p.Level == durable.Unread {
		return "look at the rights to the file, then at the disk and its log; the file may be whole"
	}
	if p.Path == home.LogDir+"/"+home.JournalDir {
		return fault.HintOf(reach.HomeHint(e.Home, queuefs.ErrJournalLost))
	}
	if id, ok := strings.CutPrefix(p.Path, home.QueuesDir+"/"); ok && strings.HasPrefix(p.Text, "directory lost") {
		return "put the directory back, or cutie rmqueue --lost " + id
	}
	o, _ := check.Cure(&check.Report{Problems: []queuefs.Problem{p}}, nil)
	return reach.CheckCommand(e.Home, o.Repair, o.Rebuild, o.AcceptLoss)
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
	if last.Sub(e.Now) > aheadLeast {
		e.fault("clock", "set the clock right before the daemon starts; if it is right now, it was ahead, and events go on from that date until the clock has caught up",
			"the last event of %s is of %s, and by the clock it is %s", of, last.UTC().Format(time.DateTime), e.Now.UTC().Format(time.DateTime))
	}
}

// aside looks for files set aside because they made no sense.
func (e *examination) aside() {
	dirs := []string{e.Home}
	if f, err := os.Open(filepath.Join(e.Home, home.QueuesDir)); err == nil {
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
