package content

import (
	"cutie/queuefs/home"
	"fmt"
)

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
