package bucket

import (
	"context"
	"errors"
	"time"

	"cutie/queuefs/objects"
)

// A Trouble is about writes of the owner refused by the store.
type Trouble struct {
	Since time.Time // of the first one
	Err   error     // of the last one
}

// Trouble returns the present trouble; nil if the last write succeeded.
func (l *Log) Trouble() *Trouble { return l.trouble.Load() }

// troubled notes a failed write.
func (l *Log) troubled(err error) {
	t := Trouble{time.Now(), err}
	if was := l.trouble.Load(); was != nil {
		t.Since = was.Since
	}
	l.trouble.Store(&t)
}

// ErrBack: the journal failed because the store could not be used, and now it can be.
var ErrBack = errors.New("the store answers again")

// back returns [ErrBack] for the failure of a log, if the store was the reason and does all
// again.
func (l *Log) back(failure error) error {
	if errors.Is(failure, objects.ErrAway) && objects.Probe(context.Background(), l.chain.store) == nil {
		return ErrBack
	}
	return failure
}
