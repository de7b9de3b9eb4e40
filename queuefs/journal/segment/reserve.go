package segment

import (
	"errors"

	"cutie/queuefs/journal"
)

func (l *Log) prepareSoon() {
	if !l.files.mu.TryLock() {
		return
	}
	l.wg.Add(1)
	go func() {
		defer l.wg.Done()
		defer l.files.mu.Unlock()
		l.prepareNext(journal.Adds, 0)
	}()
}

// prepareNext makes the segment after the current one, for n bytes of records at
// least. A prepared one of less gives way. l.files.mu is held.
func (l *Log) prepareNext(use journal.Use, n int) error {
	l.mu.Lock()
	if l.err != nil || l.next != nil && holds(l.next.size, n) {
		err := l.err
		l.mu.Unlock()
		return err
	}
	small := l.next
	l.next = nil
	number := l.cur().number + 1
	l.mu.Unlock()
	if small != nil {
		if err := errors.Join(small.close(), l.files.dir.Remove(small.name)); err != nil {
			return err
		}
	}
	seg, err := l.files.make(number, use, n)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.files.short.Store(err != nil)
	if err == nil {
		l.next = seg
	}
	return err
}

// Reserve is [journal.Journal.Reserve]. Of many callers one makes the next segment;
// once another has gone on to it the others find space there.
func (l *Log) Reserve(use journal.Use, records, size int) error {
	l.files.mu.Lock()
	defer l.files.mu.Unlock()
	n := size + recHeader*records
	if l.fits(use, n) {
		return nil
	}
	return l.prepareNext(use, n)
}

// fits reports whether the current segment takes n bytes of records for a use.
func (l *Log) fits(use journal.Use, n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	start, size := l.end, l.cur().size
	if len(l.queue) > 0 {
		b := l.queue[len(l.queue)-1]
		start = b.start + padded(len(b.buf))
	}
	return l.err == nil && start+padded(batchHeader+n)+leaves(use, size) <= size
}

// Release is [journal.Journal.Release]. It lets go of whole segments.
func (l *Log) Release(before journal.LSN) error {
	l.files.mu.Lock()
	defer l.files.mu.Unlock()
	l.mu.Lock()
	k := 0
	for k+1 < len(l.live) && l.live[k+1].first <= before {
		k++
	}
	// Without a durable batch a journal counts as lost.
	for k > 0 && !l.live[k].proved {
		k--
	}
	gone := l.live[:k:k]
	l.live = append([]*segment(nil), l.live[k:]...)
	l.mu.Unlock()
	for _, s := range gone {
		s.close()
	}
	return l.files.drop(gone)
}

// Trim is [journal.Journal.Trim]. One spare file stays if the next segment is not
// there yet.
func (l *Log) Trim() error {
	l.files.mu.Lock()
	defer l.files.mu.Unlock()
	l.mu.Lock()
	keep := 0
	if l.next == nil {
		keep = 1
	}
	l.mu.Unlock()
	return l.files.trim(keep)
}
