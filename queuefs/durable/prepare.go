package durable

import "errors"

// errNoRoom says that the next segment is not prepared yet.
var errNoRoom = errors.New("no prepared journal segment")

// prepareAfter is the divisor of a segment's size from which on the next one is
// made: early, for to make one may take as long as to fill half of one.
const prepareAfter = 8

func (l *Log) prepareSoon() {
	if !l.prepare.TryLock() {
		return
	}
	l.wg.Add(1)
	go func() {
		defer l.wg.Done()
		defer l.prepare.Unlock()
		l.prepareNext()
	}()
}

// prepareNext makes the segment after the current one; l.prepare is held.
func (l *Log) prepareNext() error {
	l.mu.Lock()
	if l.next != nil || l.err != nil {
		err := l.err
		l.mu.Unlock()
		return err
	}
	number := l.cur.number + 1
	spare := ""
	if k := len(l.spares); k > 0 {
		spare, l.spares = l.spares[k-1], l.spares[:k-1]
	}
	l.mu.Unlock()
	seg, err := l.dir.createSegment(number, l.segSize, spare)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unready = err != nil; l.unready {
		return err
	}
	l.next = seg
	return nil
}

// NeedsRoom tells whether err is Append's request to call Room.
func NeedsRoom(err error) bool { return err == errNoRoom }

// Room prepares the next segment. It blocks until that is on stable storage. Of
// many callers one prepares it, and once another has gone on to it the rest find
// room there.
func (l *Log) Room() error {
	l.prepare.Lock()
	defer l.prepare.Unlock()
	if l.roomy() {
		return nil
	}
	return l.prepareNext()
}

// roomy tells whether the current segment takes whatever is appended next.
func (l *Log) roomy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	start := l.end
	if len(l.queue) > 0 {
		b := l.queue[len(l.queue)-1]
		start = b.start + padded(len(b.buf))
	}
	return l.err == nil && start+padded(batchHeader+recHeader+l.MaxAppend()) <= l.cur.size
}
