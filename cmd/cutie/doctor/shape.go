package doctor

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"cutie/cmd/cutie/listen"
	"cutie/cmd/cutie/reach"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/tree"
)

// maxNames is the most names of a look at directories of jobs.
const maxNames = 1_000_000

// shape looks for things of another kind where the home has files, a socket, directories, or
// files of jobs.
func (e *examination) shape() {
	name := filepath.Join(e.Home, listen.SocketName)
	if info, err := os.Lstat(name); err == nil && info.Mode().Type() != fs.ModeSocket {
		e.fault("home", "move it away: the daemon makes the socket", "%s is no socket", name)
	}
	for _, file := range []string{home.ListName, home.InfoName} {
		name := filepath.Join(e.Home, file)
		if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
			e.fault("home", "move it away, and bring the file back from a copy; without one, "+reach.CheckCommand(e.Home, false, true, false), "%s is no file", name)
		}
	}
	queues, _ := filepath.Glob(filepath.Join(globbed(e.Home), home.QueuesDir, "*", home.QueueInfoName))
	left, end := maxNames, time.Now().Add(headTime)
	for _, q := range queues[:min(len(queues), maxQueues)] {
		for _, sub := range []string{job.Pending.String(), job.Consumed.String(), job.Deleted.String(), tree.Payloads} {
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
		e.warn("home", reach.CheckCommand(e.Home, true, false, false)+" sets them aside", "%d entries of %s are no files of jobs, first %.80q", foreign, dir, first)
	}
	return seen
}
