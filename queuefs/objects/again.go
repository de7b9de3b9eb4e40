package objects

import (
	"context"
	"errors"
	"time"
)

// A pause between two attempts grows from the first of these to the last.
var pauses = [...]time.Duration{0, 10 * time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second}

// oneTry is how long one request may take.
const oneTry = 20 * time.Second

// ErrAway: the store did not do a request in all the time that it was repeated. It does not
// answer, or refuses.
var ErrAway = errors.New("the store cannot be used")

// An awayError is an [ErrAway] in the words of the last attempt.
type awayError struct{ error }

func (e awayError) Unwrap() error        { return e.error }
func (e awayError) Is(target error) bool { return target == ErrAway }

// Again repeats a request until it succeeds, or is done with an error of final meaning,
// or the patience is over: then the error is an [ErrAway].
func Again(ctx context.Context, patience time.Duration, try func(ctx context.Context) (done bool, err error)) error {
	end := time.Now().Add(patience)
	for n := 0; ; n++ {
		one, cancel := context.WithTimeout(ctx, oneTry)
		done, err := try(one)
		cancel()
		if done || err == nil {
			return err
		}
		pause := pauses[min(n, len(pauses)-1)]
		if time.Now().Add(pause).After(end) {
			return awayError{err}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}
