package space

import (
	"sync/atomic"
	"time"

	"cutie/queuefs/durable"
)

// A headroom asks for the free space of a disk, for each request twice. On a disk
// far from full an answer holds for a moment: nobody fills the rest meanwhile.
type headroom struct{ last atomic.Pointer[answer] }

// An answer is the free space of a disk at one instant.
type answer struct {
	bytes, files int64
	at           time.Time
}

const (
	farBytes = 4 << 30 // beyond what is asked for
	farFiles = 100_000
	moment   = 20 * time.Millisecond
)

// has reports whether the disk of d has so much free space, also if this is
// unknown.
func (h *headroom) has(d *durable.Dir, bytes, files int64) bool {
	if was := h.last.Load(); was != nil && was.bytes >= bytes+farBytes && was.files >= files+farFiles && time.Since(was.at) < moment {
		return true
	}
	now := answer{at: time.Now()}
	var err error
	if now.bytes, now.files, err = d.Free(); err != nil {
		return true
	}
	h.last.Store(&now)
	return now.bytes >= bytes && now.files >= files
}
