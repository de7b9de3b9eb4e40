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
// waits a few seconds, and not at all for a daemon.
func OpenUnlocked(ctx context.Context, home string, open func() (*queuefs.Service, error)) (*queuefs.Service, error) {
	for start := time.Now(); ; {
		svc, err := open()
		var locked *queuefs.LockedError
		if !errors.As(err, &locked) || time.Since(start) > serveLockWait {
			return svc, err
		}
		if answers(ctx, home) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// answers reports whether a daemon of the home takes connections.
func answers(ctx context.Context, home string) bool {
	socket, err := listen.OpenSocket(home)
	if err != nil {
		return false
	}
	defer socket.Close()
	conn, err := socket.Dial(ctx)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
