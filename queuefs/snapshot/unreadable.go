package snapshot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"

	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/indexfile"
)

// All of the index but the last numbers of removed queues is derived, so a file of it that
// cannot be read must not keep a home shut. Opening does not look for such files: once it
// has failed, it asks SetAsideUnreadable and begins again.

// SetAsideUnreadable reads every file of the index in log, and moves those that cannot be
// read to log/corrupt. It reports each one, and returns how many there are. Errors of the
// process, such as too many open files, say nothing of a file. Nobody else has the home
// open.
func SetAsideUnreadable(log *durable.Dir, report func(path, text string)) (n int, err error) {
	x := aside{log: log, report: report}
	err = x.look(log, home.IndexDir, home.LogDir+"/"+home.IndexDir)
	return x.n, err
}

type aside struct {
	log    *durable.Dir
	report func(path, text string)
	n      int
}

// look looks at an entry of a directory, which has a path below the home.
func (x *aside) look(in *durable.Dir, name, path string) error {
	st, err := in.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && isDir(path) {
		return x.lookIn(in, name, path)
	}
	switch {
	case err != nil:
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		err = errNotRegular
	default:
		err = readable(in, name)
	}
	return x.judge(in, name, path, err)
}

var errNotRegular = errors.New("not a regular file")

// isDir reports whether the index has a directory at a path below the home.
func isDir(path string) bool {
	rest := strings.TrimPrefix(path, home.LogDir+"/"+home.IndexDir)
	return rest == "" || rest == "/"+home.QueuesDir || strings.HasPrefix(rest, "/"+home.QueuesDir+"/") && strings.Count(rest, "/") == 2
}

func (x *aside) lookIn(in *durable.Dir, name, path string) error {
	var names []string
	dir, err := in.Sub(name)
	if err == nil {
		defer dir.Close()
		err = dir.Names(func(name string) { names = append(names, name) })
	}
	if err != nil {
		return x.judge(in, name, path, err)
	}
	for _, name := range names {
		if err := x.look(dir, name, path+"/"+name); err != nil {
			return err
		}
	}
	return nil
}

// judge sets an entry aside if its error is about it.
func (x *aside) judge(in *durable.Dir, name, path string, err error) error {
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if !about(err) {
		return err
	}
	why := durable.Bare(err)
	to, err := x.log.SetAside(in, name, strings.ReplaceAll(strings.TrimPrefix(path, home.LogDir+"/"), "/", "-"))
	if err != nil {
		return fmt.Errorf("%s cannot be read: %w; it is derived: move it away, and start again: %w", path, why, err)
	}
	x.n++
	text := fmt.Sprintf("cannot be read: %v; moved to %s/%s and made again", why, home.LogDir, to)
	if name == indexfile.SmallName {
		text += "; last numbers of removed queues are forgotten"
	}
	x.report(path, text)
	return nil
}

// about reports whether an error is about one file, and not about the process or the
// whole file system.
func about(err error) bool {
	for _, e := range []error{errNotRegular, unix.EIO, unix.EACCES, unix.EPERM, unix.EISDIR, unix.ENOTDIR, unix.ELOOP, unix.ENXIO, unix.EUCLEAN, unix.EBADMSG, unix.ENODATA, unix.EFBIG, unix.EOVERFLOW} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// readable reads a file to its end.
func readable(in *durable.Dir, name string) error {
	f, err := in.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(io.Discard, f)
	return err
}
