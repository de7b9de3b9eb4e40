package reach

import (
	"context"
	"errors"
	"time"

	"cutie/cmd/cutie/listen"
	"cutie/queuefs"
)

// serveLockWait is how long a daemon waits for a home that another command has open.
const serveLockWait = 5 * time.Second

// OpenUnlocked calls open until the home is not locked by a command for a short time. It
// waits a few seconds, and not at all for a daemon: one that answers has the home, whatever
// the lock says, as on file systems without locks.
func OpenUnlocked(ctx context.Context, home string, open func() (*queuefs.Service, error)) (*queuefs.Service, error) {
	if err := AsOwner(home); err != nil {
		return nil, err
	}
	for start := time.Now(); ; {
		if pid, ok := answers(ctx, home); ok {
			return nil, &queuefs.LockedError{Dir: home, PID: pid}
		}
		svc, err := open()
		var locked *queuefs.LockedError
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
	return listen.Peer(conn), true
}
