package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"cutie/cmd/cutie/access"
	"cutie/cmd/cutie/listen"
	"cutie/queuefs/durable"
	"cutie/queuefs/state"
)

// doctorVerb names faults of a home and of the machine around it.
func doctorVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "look for faults of a home, its machine and its daemon, and name their cures",
		Args:  between(0, 0),
		Long: `
Looks at the settings, the home, its disk, the clock, the limits of the process, the
certificate, where references lead, and at what a running daemon says of itself: its
storage, what it publishes and pushes, its mirrors and their audits. Each fault comes
with its cure. It changes nothing, takes seconds, and may run beside the daemon; cutie
check reads and verifies all files of a home without one.

The settings are those of cutie serve: give it the same --config file, environment and
options. The exit code is 1 if there is a fault; warnings alone leave it 0.`,
		Example: "cutie doctor\ncutie doctor -t json",
	}
	s := newSettings(cmd.Flags(), &c.Home)
	return c.Verb(cmd, optHome|optForm, func(ctx context.Context) error {
		var findings []durable.Finding
		s.Log = zerolog.Nop()
		err := s.fill(typed(c), os.Getenv)
		asked := s.Limits.Conns
		if err == nil {
			err = s.check()
		}
		if err != nil {
			text, hint := wordsOf(err) // settings left out have their defaults
			findings = append(findings, durable.Finding{Path: "settings", Text: text, Cure: cmp.Or(hint, "mend it: cutie config default says what each setting takes")})
		}
		users := s.Access.Users
		if _, wide, err := access.Load(users); err == nil && wide {
			findings = append(findings, durable.Finding{Level: durable.Warning, Path: "settings", Text: "other users of this machine may read or write " + users, Cure: "chmod 600 " + users})
		}
		e := examination{findings: findings, settings: s, conns: asked, finder: &c.finder, now: time.Now()}
		e.examine(ctx)
		if err := c.Findings(e.findings, "", nil); err != nil {
			return err
		}
		count := map[durable.Level]int{}
		for _, f := range e.findings {
			count[f.Level]++
		}
		if count[durable.Faulty] > 0 {
			return fmt.Errorf("faults: %d, warnings: %d", count[durable.Faulty], count[durable.Warning])
		}
		return nil
	})
}

// An examination looks at a home and around it with the settings of its daemon: disk, clock,
// limits, certificate, the way its references lead, and the figures of the daemon. It changes
// nothing, and takes seconds whatever the size of the home. Each fault comes with its cure.
// The paths of findings are settings, home, disk, clock, limits, certificate, references,
// daemon, publishing, push, mirrors and store.
type examination struct {
	*settings
	conns    int // asked for
	finder   *finder
	now      time.Time
	findings []durable.Finding
	daemon   *target // nil if none runs
	pid      int     // of the daemon, or of this process
}

// examine looks at everything, first at faults with others as a consequence.
func (e *examination) examine(ctx context.Context) {
	if !e.lookAtHome(ctx) {
		return
	}
	if e.daemon != nil {
		defer e.daemon.Close()
	}
	e.disk()
	e.clock()
	e.limits()
	e.references(ctx)
	e.certificate()
	e.sources(ctx)
	e.alive(ctx)
	e.shared(ctx)
}

func (e *examination) add(l durable.Level, about, cure, format string, a ...any) {
	e.findings = append(e.findings, durable.Finding{Level: l, Path: about, Text: fmt.Sprintf(format, a...), Cure: cure})
}

func (e *examination) ok(about, format string, a ...any) {
	e.add(durable.Fine, about, "", format, a...)
}

func (e *examination) warn(about, cure, format string, a ...any) {
	e.add(durable.Warning, about, cure, format, a...)
}

func (e *examination) fault(about, cure, format string, a ...any) {
	e.add(durable.Faulty, about, cure, format, a...)
}

// Free space: with less, submissions are refused soon; with less, think of it.
const (
	leastFree = 256 << 20
	fewFree   = 2 << 30
)

// makeSpace is the cure for a full disk.
const makeSpace = "delete what is not needed; cutie cull QUEUE --age HOURS takes jobs that are done away, --keep-size 2% keeps fewer documents: cutie help limits"

// A sync of slowSync makes every acknowledgement slow.
const slowSync = 30 * time.Millisecond

// systems are file systems with a word of warning.
var systems = map[int64]string{
	unix.TMPFS_MAGIC:           "a file system in memory, which is empty after a restart",
	unix.OVERLAYFS_SUPER_MAGIC: "the layer of a container, which goes with it: mount a volume",
	unix.NFS_SUPER_MAGIC:       "a network file system: a sync and a lock may mean less than on a disk",
	unix.SMB_SUPER_MAGIC:       "a network file system: a sync and a lock may mean less than on a disk",
	unix.FUSE_SUPER_MAGIC:      "a file system of a program: a sync and a lock may mean less than on a disk",
	unix.V9FS_MAGIC:            "a file system of another machine: a sync and a lock may mean less than on a disk",
}

// disk looks at the file system of the home.
func (e *examination) disk() {
	before := len(e.findings)
	var fs unix.Statfs_t
	if err := unix.Statfs(*e.home, &fs); err != nil {
		e.fault("disk", "look at the disk and its log", "%s: %v", *e.home, err)
		return
	}
	free := int64(fs.Bavail) * fs.Bsize
	switch {
	case fs.Flags&unix.ST_RDONLY != 0:
		e.fault("disk", "mount it for writing; if the kernel did this, look at its log first", "the file system of %s is mounted for reading", *e.home)
	case free < leastFree:
		e.fault("disk", makeSpace, "%s free: submissions are refused with 507 soon", state.FormatSize(free))
	case free < fewFree || free < int64(fs.Blocks)*fs.Bsize/50:
		e.warn("disk", makeSpace, "%s free", state.FormatSize(free))
	}
	if fs.Files > 0 && fs.Ffree < max(fs.Files/100, 10_000) {
		e.warn("disk", "delete small files, or use a file system with more inodes; each job has two files", "%d inodes free", fs.Ffree)
	}
	if about := systems[int64(fs.Type)]; about != "" {
		e.warn("disk", "put the home on a local disk", "%s is on %s", *e.home, about)
	}
	took, err := syncTime(*e.home)
	switch {
	case fs.Flags&unix.ST_RDONLY != 0:
	case errors.Is(err, unix.ENOSPC) && free < leastFree: // told above
	case err != nil:
		e.fault("disk", "run this as the user of the daemon; if you do, look at the disk and its log", "a file in %s cannot be written: %v", *e.home, err)
	case took > slowSync:
		e.warn("disk", "use a faster disk; many clients at once share a sync, one alone waits for each", "a sync takes %v", took.Round(time.Millisecond))
	}
	if len(e.findings) == before {
		e.ok("disk", "%s free, a sync takes %v", state.FormatSize(free), took.Round(10*time.Microsecond))
	}
}

// syncTime writes to a file without a name, and returns the median time of a sync.
func syncTime(dir string) (time.Duration, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return 0, err
	}
	f := os.NewFile(uintptr(fd), dir)
	defer f.Close()
	var times []time.Duration
	block := make([]byte, 4096)
	for range 9 {
		start := time.Now()
		if _, err := f.Write(block); err != nil {
			return 0, err
		}
		if err := unix.Fdatasync(fd); err != nil {
			return 0, err
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

// clock looks at the clock of the machine. Events are dated later than all before, so a
// clock that is ahead leaves wrong dates for good.
func (e *examination) clock() {
	const cure = "run a time service, such as chrony or systemd-timesyncd"
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	switch {
	case e.now.Year() < 2025:
		e.fault("clock", cure, "it is %s by the clock", e.now.Format(time.DateOnly))
	case err != nil:
	case state == unix.TIME_ERROR || t.Status&unix.STA_UNSYNC != 0:
		e.warn("clock", cure, "no time service keeps the clock right")
	default:
		e.ok("clock", "kept by a time service")
	}
}

// limits looks at the limits of the daemon, or of this process if none runs.
func (e *examination) limits() {
	before := len(e.findings)
	limit := e.rlimits()
	files := limit["Max open files"]
	const unit = "raise it: LimitNOFILE= in a unit, ulimit -n in a shell"
	if most := listen.Connections(e.conns, files); most < e.conns {
		e.warn("limits", unit, "%d open files are enough for %d of %d connections", files, most, e.conns)
	}
	if size := limit["Max file size"]; size != unlimited && size < 1<<40 {
		e.warn("limits", "raise it: LimitFSIZE= in a unit, ulimit -f in a shell", "files may have %d octets, no more", size)
	}
	if memory, group := e.memory(); memory > 0 && memory < e.Limits.Buffers+256<<20 {
		e.warn("limits", "raise it, or lower --max-buffers", "the memory of %s is limited to %s, of which requests may take %s",
			group, state.FormatSize(memory), state.FormatSize(e.Limits.Buffers))
	}
	if len(e.findings) == before {
		e.ok("limits", "%s open files", words(files))
	}
}

const unlimited = 1<<64 - 1

func words(limit uint64) string {
	if limit == unlimited {
		return "any number of"
	}
	return strconv.FormatUint(limit, 10)
}

// rlimits reads the soft limits of the process.
func (e *examination) rlimits() map[string]uint64 {
	limits := map[string]uint64{"Max open files": unlimited, "Max file size": unlimited}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", e.pid))
	if err != nil {
		return limits
	}
	for line := range strings.Lines(string(text)) {
		for name := range limits {
			if rest, ok := strings.CutPrefix(line, name); ok {
				if n, err := strconv.ParseUint(strings.Fields(rest + " -")[0], 10, 64); err == nil {
					limits[name] = n
				}
			}
		}
	}
	return limits
}

// memory returns the least memory limit of the control groups around the process; 0
// means none.
func (e *examination) memory() (least int64, group string) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", e.pid))
	if err != nil {
		return 0, ""
	}
	for line := range strings.Lines(string(text)) {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		for ; ok; path = filepath.Dir(path) {
			text, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", path, "memory.max"))
			if n, bad := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && bad == nil && (least == 0 || n < least) {
				least, group = n, path
			}
			if path == "/" || path == "." {
				break
			}
		}
	}
	return least, group
}
