package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
)

// A progress shows a bar on a terminal once work has taken a second.
type progress struct {
	w     *os.File // nil unless a terminal
	total int64    // octets; -1 if unknown
	start time.Time
	done  int64
	bar   *progressbar.ProgressBar
}

func newProgress(w *os.File, total int64) *progress {
	if !terminal(w) {
		w = nil
	}
	return &progress{w: w, total: total, start: time.Now()}
}

// Write counts octets.
func (p *progress) Write(b []byte) (int, error) {
	p.done += int64(len(b))
	if p.w == nil || p.bar == nil && time.Since(p.start) < time.Second {
		return len(b), nil
	}
	if p.bar == nil {
		p.bar = progressbar.NewOptions64(p.total, progressbar.OptionSetWriter(p.w), progressbar.OptionShowBytes(true),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(),
			progressbar.OptionUseANSICodes(true), progressbar.OptionSetDescription("submitting"))
	}
	return len(b), p.bar.Set64(p.done)
}

// clear removes the bar, before a line is printed or for good.
func (p *progress) clear() {
	if p.bar != nil {
		p.bar.Clear()
	}
}

// A counted stream is read through its Reader.
type counted struct {
	io.Reader
	io.Closer
}

// count shows the octets read from r.
func (p *progress) count(r io.ReadCloser) io.ReadCloser {
	if p.w == nil {
		return r
	}
	return counted{io.TeeReader(r, p), r}
}
