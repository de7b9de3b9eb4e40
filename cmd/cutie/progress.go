package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
)

// A progress shows a bar on a terminal.
type progress struct {
	w     *os.File // nil unless a terminal
	what  string
	total int64 // octets; -1 if unknown
	from  time.Time
	done  int64
	bar   *progressbar.ProgressBar
}

// newProgress shows what is done with total octets, -1 if their number is unknown,
// once it has taken that long.
func newProgress(w *os.File, what string, total int64, after time.Duration) *progress {
	p := &progress{what: what, total: total, from: time.Now().Add(after)}
	if isTerminal(w) {
		p.w = w
	}
	if after == 0 {
		p.show()
	}
	return p
}

func (p *progress) show() {
	if p.w != nil && p.bar == nil {
		p.bar = progressbar.NewOptions64(p.total, progressbar.OptionSetWriter(p.w), progressbar.OptionShowBytes(true),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(),
			progressbar.OptionUseANSICodes(true), progressbar.OptionSetDescription(p.what))
	}
}

// Total changes the number of octets, when it becomes known.
func (p *progress) Total(total int64) {
	if total == p.total {
		return
	}
	unknown := p.total < 0
	p.total = total
	switch {
	case p.bar == nil:
	case unknown:
		p.Clear()
		p.bar = nil
		p.show()
	default:
		p.bar.ChangeMax64(total)
	}
}

// Write counts octets.
func (p *progress) Write(b []byte) (int, error) { return len(b), p.Add(int64(len(b))) }

// Add counts n octets.
func (p *progress) Add(n int64) error {
	p.done += n
	if !time.Now().Before(p.from) {
		p.show()
	}
	if p.bar == nil {
		return nil
	}
	return p.bar.Set64(p.done)
}

// Clear removes the bar, before a line is printed or for good.
func (p *progress) Clear() {
	if p.bar != nil {
		p.bar.Clear()
	}
}

// Count shows the octets read from r.
func (p *progress) Count(r io.ReadCloser) io.ReadCloser {
	if p.w == nil {
		return r
	}
	return counted{io.TeeReader(r, p), r}
}

// A counted stream is read through its Reader.
type counted struct {
	io.Reader
	io.Closer
}
