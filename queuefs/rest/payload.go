package rest

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"cutie/queuefs"
)

// A lateReader is a payload of known size; the first read opens it.
type lateReader struct {
	q    *queuefs.Queue
	id   queuefs.JobID
	size int64
	at   int64
	in   *queuefs.Payload
	err  error
}

func (l *lateReader) open() error {
	if l.in != nil || l.err != nil {
		return l.err
	}
	l.in, l.err = l.q.Payload(l.id)
	return l.err
}

func (l *lateReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += l.at
	case io.SeekEnd:
		offset += l.size
	}
	if offset < 0 {
		return 0, errors.New("seek before the payload")
	}
	l.at = offset
	return offset, nil
}

// position opens the payload and brings it to l.at.
func (l *lateReader) position() error {
	if err := l.open(); err != nil {
		return err
	}
	_, l.err = l.in.Seek(l.at, io.SeekStart)
	return l.err
}

func (l *lateReader) Read(p []byte) (int, error) {
	if err := l.position(); err != nil {
		return 0, err
	}
	n, err := l.in.Read(p)
	l.at += int64(n)
	if err != nil && err != io.EOF {
		l.err = err
	} else if err == io.EOF && l.at < l.size {
		l.err = fmt.Errorf("payload of %s ends at octet %d of %d", l.id, l.at, l.size)
	}
	return n, err
}

func (l *lateReader) Close() {
	if l.in != nil {
		l.in.Close()
	}
}

// A payloadWriter sends a whole payload from file to connection without
// copying; net/http does so for files only.
type payloadWriter struct {
	http.ResponseWriter
	in *lateReader
}

func (w *payloadWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *payloadWriter) ReadFrom(src io.Reader) (int64, error) {
	if limited, ok := src.(*io.LimitedReader); ok && limited.R == w.in && w.in.at == 0 && limited.N == w.in.size {
		if err := w.in.position(); err != nil {
			return 0, err
		}
		n, err := w.in.in.SendTo(w.ResponseWriter)
		limited.N -= n
		return n, err
	}
	return io.Copy(struct{ io.Writer }{w.ResponseWriter}, src) // else it would call itself
}
