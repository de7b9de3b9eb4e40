package content

import (
	"cutie/queuefs/home"
	"fmt"
)

// A LostError is an [ErrUnread] of a queue whose directory is missing or empty.
type LostError struct {
	Queue string // cleaned identifier
	Back  bool   // the directory is there again, since the home was opened
}

func (e *LostError) Error() string {
	return fmt.Sprintf("queue %s is not served: %s", e.Queue, e.Text())
}

// Text says what happened and what to do.
func (e *LostError) Text() string {
	if e.Back {
		return "its directory was lost and is there again: start the daemon again to serve it"
	}
	return fmt.Sprintf("its directory %s/%s is lost: put it back and start the daemon again, or remove the queue for good with cutie rmqueue --lost %s", home.QueuesDir, e.Queue, e.Queue)
}
func (e *LostError) Is(target error) bool { return target == ErrUnread }

// A ShutError is an [ErrUnread] of a queue that is shut.
type ShutError struct {
	Queue string // cleaned identifier
	Err   error  // of the reading
}

func (e *ShutError) Error() string {
	return fmt.Sprintf("queue %s is shut: %s cannot be read now: %v; look at the disk, the queue opens by itself once the file can be read", e.Queue, home.QueueInfoName, e.Err)
}
func (e *ShutError) Unwrap() error        { return e.Err }
func (e *ShutError) Is(target error) bool { return target == ErrUnread }
