package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"cutie/cmd/cutie/daemon"
	"cutie/cmd/cutie/listen"
	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
)

// An openHome is a home opened in this process, for the length of one command.
type openHome struct {
	svc  *queuefs.Service
	home *daemon.Local
}

// openHome opens the home, which answers as its daemon would. Leases that have
// ended go back first.
func (f *finder) openHome(ctx context.Context) (*target, error) {
	if f.Reads {
		t, err := f.lookAtHome(ctx)
		if t != nil || err != nil {
			return t, err
		}
	}
	svc, err := f.OpenService()
	if err != nil {
		return nil, err
	}
	if err := svc.Expire(ctx); err != nil {
		f.Warn("%v", err) // a full disk can be read
	}
	return f.serveHome(svc, false)
}

// lookAtHome opens the home for reading. The target is nil if it is to be opened for
// changes, since these are to be taken in first: after a crash, moves by hand, or the end
// of a lease. Who may not write there sees it without them.
func (f *finder) lookAtHome(ctx context.Context) (*target, error) {
	var problems []durable.Finding
	svc, err := queuefs.Open(f.Home, queuefs.Options{Look: true, Report: func(p durable.Finding) { problems = append(problems, p) }})
	if errors.As(err, new(*home.LockedError)) {
		return nil, err
	}
	if err != nil {
		return nil, nil // the opening for changes mends it, or has an error with its cure
	}
	if svc.Unsettled() {
		if unix.Access(f.Home, unix.W_OK) == nil {
			return nil, svc.Close()
		}
		f.Warn("%s cannot be written to: changes since it was closed are not shown", f.Home)
	}
	for _, p := range problems {
		f.Warn("%s", p)
	}
	withBase(svc)
	return f.serveHome(svc, true)
}

// serveHome makes a target of an open home.
func (f *finder) serveHome(svc *queuefs.Service, look bool) (*target, error) {
	home, err := daemon.NewLocal(svc, daemon.LocalOptions{AccessLog: daemon.AccessLog{Max: defaultLogMax, Keep: defaultLogKeep}, Look: look,
		Log: func(err error) {
			if !errors.Is(err, io.ErrClosedPipe) { // the reader stopped, and says why
				f.Warn("%v", err)
			}
		}})
	if err != nil {
		return nil, errors.Join(err, svc.Close())
	}
	if home.Unlogged != nil {
		f.Warn("access log: %v", home.Unlogged)
	}
	t := newTarget("http://localhost/", f.traced(home), func() error {
		svc.StopWithin(filesTime)
		return errors.Join(home.Close(), svc.Close())
	})
	t.Home, t.open = f.Home, &openHome{svc, home}
	return t, nil
}

// filesTime is how long a command writes files of jobs before it ends. The next one, or
// the daemon, goes on.
const filesTime = 10 * time.Second

// OpenService opens the home itself. Without a base URI of its own, references lead
// to where its daemon would listen.
func (f *finder) OpenService() (*queuefs.Service, error) {
	if err := asOwner(f.Home); err != nil {
		return nil, err
	}
	svc, err := queuefs.Open(f.Home, queuefs.Options{Report: func(p durable.Finding) { f.Warn("%s", p) }})
	if err == nil {
		withBase(svc)
	}
	return svc, err
}

func withBase(svc *queuefs.Service) {
	if svc.Info().BaseURI == "" {
		svc.SetBaseURI("http://" + defaultListen + "/")
	}
}

// defaultListen is the address of a daemon without other options.
const defaultListen = "127.0.0.1:8080"

// Access logs without other options.
const (
	defaultLogMax  = 100 << 20 // octets of one
	defaultLogKeep = 9         // old ones
)

// checkCommand is the command that mends a home.
func checkCommand(dir string, repair, rebuild, acceptLoss bool) string {
	command := "cutie check"
	if repair {
		command += " --repair"
	}
	if rebuild {
		command += " --rebuild"
	}
	if acceptLoss {
		command += " --accept-loss"
	}
	return command + " " + dir
}

// serveLockWait is how long a daemon waits for a home that another command has open.
const serveLockWait = 5 * time.Second

// openUnlocked calls open until the home is not locked by a command for a short time. It
// waits a few seconds, and not at all for a daemon: one that answers has the home, whatever
// the lock says, as on file systems without locks.
func openUnlocked(ctx context.Context, dir string, open func() (*queuefs.Service, error)) (*queuefs.Service, error) {
	if err := asOwner(dir); err != nil {
		return nil, err
	}
	for start := time.Now(); ; {
		if pid, ok := answers(ctx, dir); ok {
			return nil, &home.LockedError{Dir: dir, PID: pid}
		}
		svc, err := open()
		var locked *home.LockedError
		if !errors.As(err, &locked) || time.Since(start) > serveLockWait {
			return svc, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// answers reports whether a daemon of the home takes connections, and its process; 0 if
// that is not known.
func answers(ctx context.Context, home string) (pid int, ok bool) {
	socket, err := listen.OpenSocket(home)
	if err != nil {
		return 0, false
	}
	defer socket.Close()
	conn, err := socket.Dial(ctx)
	if err != nil {
		return 0, false
	}
	defer conn.Close()
	if of := listen.Peer(conn); of != nil {
		pid = int(of.Pid)
	}
	return pid, true
}

// asOwner makes files that root writes from now on belong to the owner of the directory:
// else the daemon of that user could not open them. It does nothing for other users, nor
// without the directory.
//
// The file system identity of all threads changes, and they keep the capabilities of root,
// so that files of root alone can be read as before. Programs started get the identity of
// root.
func asOwner(dir string) error {
	info, err := os.Stat(dir)
	if err != nil || os.Geteuid() != 0 {
		return nil // whoever opens it reports the error
	}
	of, ok := info.Sys().(*syscall.Stat_t)
	if !ok || of.Uid == 0 {
		return nil
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&head, &caps[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	for i := range caps {
		caps[i].Effective = caps[i].Permitted
	}
	for _, c := range [][3]uintptr{
		{unix.SYS_SETFSGID, uintptr(of.Gid)},
		{unix.SYS_SETFSUID, uintptr(of.Uid)}, // takes the capabilities for files away
		{unix.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&caps[0]))},
	} {
		_, _, errno := syscall.AllThreadsSyscall(c[0], c[1], c[2], 0)
		if errno == syscall.ENOTSUP { // a build with cgo: without the capabilities of root
			return errors.Join(syscall.Setegid(int(of.Gid)), syscall.Seteuid(int(of.Uid)))
		}
		if errno != 0 {
			return fmt.Errorf("write as the owner of %s: %w", dir, errno)
		}
	}
	return nil
}
