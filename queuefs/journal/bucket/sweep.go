package bucket

import (
	"context"
	"errors"
	"slices"
	"sync"

	"cutie/queuefs/objects"
)

// A sweep deletes released batches, oldest first, one after the other: a batch that is
// gone says that all before it are.
type sweep struct {
	wg sync.WaitGroup

	mu      sync.Mutex
	to      uint64 // number of the batch to stop at
	running bool
	stop    func()
}

// perList is how many names are asked for at a time.
const perList = 1000

// upTo deletes the batches before a number, in the background. After an error the next
// call goes on.
func (s *sweep) upTo(l *Log, number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to = number
	if s.running {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.running, s.stop = true, cancel
	s.wg.Go(func() {
		defer cancel()
		for done := uint64(0); ; {
			s.mu.Lock()
			to := s.to
			if to == done {
				s.running = false
				s.mu.Unlock()
				return
			}
			s.mu.Unlock()
			if done = to; l.deleteBefore(ctx, to) != nil {
				continue // the next release finds what is left
			}
		}
	})
}

// close ends the deleting: what is left is for the next owner.
func (s *sweep) close() {
	s.mu.Lock()
	if s.stop != nil {
		s.stop()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// deleteBefore deletes the batches before number to, except those that stay for good.
func (l *Log) deleteBefore(ctx context.Context, to uint64) error {
	for after := uint64(0); after < to; {
		numbers, err := l.chain.list(ctx, after, perList)
		if err != nil {
			return err
		}
		i, _ := slices.BinarySearch(numbers, to)
		if numbers = numbers[:i]; len(numbers) == 0 {
			return nil
		}
		after = numbers[len(numbers)-1]
		if numbers, err = l.deletable(ctx, numbers); err != nil {
			return err
		}
		for _, n := range numbers {
			err := l.chain.again(ctx, func(ctx context.Context) (bool, error) {
				return false, l.chain.store.Delete(ctx, nameOf(n))
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// deletable leaves claims out of ascending numbers. The last batch of each owner tells
// the number of its claim.
func (l *Log) deletable(ctx context.Context, numbers []uint64) (rest []uint64, err error) {
	claimed := l.me.claim
	for _, n := range slices.Backward(numbers) {
		if n < claimed {
			h, err := l.chain.header(ctx, n)
			switch {
			case errors.Is(err, objects.ErrNotExist):
				continue // deleted by a former owner
			case err != nil:
				return nil, err
			}
			claimed = h.claim
		}
		if n != claimed {
			rest = append(rest, n)
		}
	}
	slices.Reverse(rest)
	return rest, nil
}
