package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/home"
)

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
		names, _ := filepath.Glob(filepath.Join(globbed(e.Home), dir, "*"))
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
		e.fault("home", fmt.Sprintf("chown -R %d:%d %s, and run commands on it as that user", owner.Uid, owner.Gid, e.Home),
			"%d files do not belong to user %d, as the home does, first %s", len(foreign), owner.Uid, foreign[0])
	}
	if len(locked) > 0 {
		e.fault("home", "chmod -R u+rwX "+e.Home, "the owner may not read and write %d files, first %s", len(locked), locked[0])
	}
	for _, name := range e.Readable {
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
		for _, id := range q.IDs(queuefs.ListOptions{Status: queuefs.Pending, Limit: left}) {
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
			if err != nil && !errors.Is(err, queuefs.ErrNoJob) {
				bad = append(bad, fmt.Sprintf("%s/%s: %v", q.ID(), id, err))
			}
		}
	}
	if len(bad) > 0 {
		e.fault("home", "bring the payloads back from a copy; jobs without one are put on hold, cutie rm and cutie cull remove them; cutie check "+e.Home+" reads all",
			"%d jobs have no good payload, first %s", len(bad), bad[0])
	}
}
