package access

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"gopkg.in/natefinch/lumberjack.v2"
)

// A Log is a file of entries. Each is written before Add returns, so it survives a kill of
// the process; while the file cannot be written they are gathered for Flush. A file of the
// maximal size gets the time into its name, as in web-access-2026-11-28T18-59-21.000.txt, and
// a new one begins. It is safe for concurrent use.
type Log struct {
	mu     sync.Mutex // of all below
	file   *lumberjack.Logger
	buf    []byte // entries that are not written yet
	second int64  // of stamp
	stamp  []byte
	failed bool // the last write: only Flush tries again
	lost   int
	closed bool
}

const maxGather = 512 << 10 // bytes, while the file cannot be written; the smallest file has more

// OpenLog opens a log, or makes it with mode 0600. A file has max bytes, in whole mebibytes; max 0
// lets it grow. keep is the number of old files, at least 1.
func OpenLog(name string, max int64, keep int) (*Log, error) {
	l := &Log{file: newFile(name, max, keep)}
	return l, l.write()
}

func newFile(name string, max int64, keep int) *lumberjack.Logger {
	f := &lumberjack.Logger{Filename: name, MaxSize: int((max + 1<<20 - 1) >> 20), MaxBackups: keep}
	if max == 0 {
		f.MaxSize = math.MaxInt32
	}
	return f
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
	if !l.failed {
		l.write()
	}
}

// Flush writes the gathered entries. While the file cannot be written, up to half a mebibyte
// waits for the next Flush; the error has the number of lines lost beyond that.
func (l *Log) Flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.buf) == 0 && l.lost == 0 {
		return nil
	}
	err := l.write()
	if err == nil && l.lost > 0 {
		err = fmt.Errorf("access log: %d lines were lost while it could not be written", l.lost)
		l.lost = 0
	}
	return err
}

// write opens the file, if it is not, and writes the gathered entries.
func (l *Log) write() error {
	n, err := l.file.Write(l.buf)
	l.buf = append(l.buf[:0], l.buf[n:]...)
	if l.failed = err != nil; l.failed {
		return errors.Join(fmt.Errorf("access log: %w", err), l.file.Close())
	}
	return nil
}

// Limit changes the size of a file and the number of old ones.
func (l *Log) Limit(max int64, keep int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	to := newFile(l.file.Filename, max, keep)
	if to.MaxSize == l.file.MaxSize && to.MaxBackups == l.file.MaxBackups {
		return
	}
	// The library reads its limits without a lock.
	l.failed = l.file.Close() != nil
	l.file = to
}

// Reopen writes the gathered entries and opens the file by its name again, after
// somebody else has moved it.
func (l *Log) Reopen() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	return errors.Join(l.write(), l.file.Close(), l.write())
}

// Close writes the gathered entries and closes the file.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	return errors.Join(l.write(), l.file.Close())
}
