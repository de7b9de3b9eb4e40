package access

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"sync"
)

// A Log is a file of entries. Each is written before Add returns, so it survives a kill of
// the process; while the file cannot be written they are gathered for Flush. A file of the
// maximal size becomes NAME.1, that one NAME.2, and so on. It is safe for concurrent use.
type Log struct {
	name string

	mu     sync.Mutex
	max    int64
	keep   int
	file   *os.File // nil after a failure and after Close
	size   int64
	buf    []byte
	second int64 // of stamp
	stamp  []byte
	lost   int
	closed bool
}

const maxGather = 1 << 20 // octets, while the file cannot be written

// OpenLog opens a log, or makes it with mode 0600. A file has max octets or a little
// more; max 0 lets it grow. keep is the number of old files.
func OpenLog(name string, max int64, keep int) (*Log, error) {
	l := &Log{name: name, max: max, keep: keep}
	return l, l.open()
}

func (l *Log) open() error {
	f, err := os.OpenFile(l.name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.file, l.size = f, info.Size()
	return nil
}

// Add adds an entry. An error of the file is returned by the next Flush.
func (l *Log) Add(e *Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.buf) > maxGather || l.closed {
		l.lost++
		return
	}
	if s := e.Time.Unix(); s != l.second || l.stamp == nil {
		l.second, l.stamp = s, appendTime(l.stamp[:0], e.Time)
	}
	l.buf = e.append(l.buf, l.stamp)
	// Only Flush tries a failed file again.
	if l.file != nil && l.lost == 0 {
		if l.flush() != nil {
			l.closeFile()
		}
	}
}

// Flush writes the gathered entries. While the file cannot be written, up to a
// mebibyte waits for the next Flush; the error has the number of lines lost beyond
// that.
func (l *Log) Flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.buf) == 0 && l.lost == 0 {
		return nil
	}
	return l.flush()
}

func (l *Log) flush() (err error) {
	if l.file == nil {
		if err := l.open(); err != nil {
			return l.missed(err)
		}
	}
	if l.max > 0 && l.size > 0 && l.size+int64(len(l.buf)) > l.max {
		if err := l.rotate(); err != nil {
			return l.missed(err)
		}
	}
	n, err := l.file.Write(l.buf)
	l.size += int64(n)
	l.buf = append(l.buf[:0], l.buf[n:]...)
	if err == nil && l.lost > 0 {
		n := l.lost
		l.lost = 0
		return fmt.Errorf("access log: %d lines were lost while it could not be written", n)
	}
	return l.missed(err)
}

func (l *Log) missed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("access log: %w", err)
}

// rotate begins a new file.
func (l *Log) rotate() error {
	err := l.closeFile()
	for i := l.keep; i > 0 && err == nil; i-- {
		from := l.name
		if i > 1 {
			from += "." + strconv.Itoa(i-1)
		}
		err = os.Rename(from, l.name+"."+strconv.Itoa(i))
		if errors.Is(err, fs.ErrNotExist) { // moved by other hands
			err = nil
		}
	}
	if l.keep == 0 && err == nil {
		err = os.Remove(l.name)
	}
	if err != nil {
		return err
	}
	return l.open()
}

func (l *Log) closeFile() error {
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

// Limit changes the size of a file and the number of old ones.
func (l *Log) Limit(max int64, keep int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.max, l.keep = max, keep
}

// Reopen writes the gathered entries and opens the file by its name again, after
// somebody else has moved it.
func (l *Log) Reopen() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	var err error
	if len(l.buf) > 0 {
		err = l.flush()
	}
	return errors.Join(err, l.closeFile(), l.open())
}

// Close writes the gathered entries and closes the file.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	var err error
	if len(l.buf) > 0 {
		err = l.flush()
	}
	l.closed = true
	return errors.Join(err, l.closeFile())
}
