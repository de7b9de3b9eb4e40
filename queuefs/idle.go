package queuefs

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"time"
)

// An idleTime meter tells how much of the time of the machine's processors
// nobody wants. It knows Linux; elsewhere there is none.
type idleTime struct {
	idle, total int64 // at the last look, in the system's ticks
}

// look returns how many processors were idle on average since the last look.
func (t *idleTime) look() float64 {
	f, err := os.Open("/proc/stat")
	if err != nil {
		return 0
	}
	defer f.Close()
	var b [256]byte
	n, err := f.Read(b[:])
	if err != nil {
		return 0
	}
	idle, total, ok := parseStat(b[:n])
	if !ok {
		return 0
	}
	share := 0.0
	if t.total > 0 && total > t.total {
		share = float64(idle-t.idle) / float64(total-t.total)
	}
	t.idle, t.total = idle, total
	return max(0, share) * float64(runtime.NumCPU())
}

// parseStat reads the first line of /proc/stat (proc_stat(5)): the times of
// all processors, of which the fourth is idle, the fifth waiting for a disk.
func parseStat(b []byte) (idle, total int64, ok bool) {
	line, _, whole := bytes.Cut(b, []byte("\n"))
	fields := bytes.Fields(line)
	if !whole || len(fields) < 6 || string(fields[0]) != "cpu" {
		return 0, 0, false
	}
	for i, f := range fields[1:min(len(fields), 9)] { // those of guests are in user already
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0, 0, false
		}
		if total += n; i == 3 || i == 4 {
			idle += n
		}
	}
	return idle, total, true
}

// A leisure is for how long at a time files may be written in a burst. It
// grows as long as processors are idle and goes at once when they are not, so
// that a burst which wants all of them is not slowed down.
type leisure time.Duration

const (
	leastLeisure = leisure(10 * time.Millisecond)
	mostLeisure  = leisure(150 * time.Millisecond) // of the time between calls of Maintain
)

// What is plenty of idle processors, and too few to take any of.
const (
	plenty = 0.4
	scarce = 0.15
)

// next takes in how many processors were idle.
func (l *leisure) next(idle float64) time.Duration {
	switch {
	case idle > plenty:
		*l = min(max(2**l, leastLeisure), mostLeisure)
	case idle < scarce:
		if *l /= 2; *l < leastLeisure {
			*l = 0
		}
	}
	return time.Duration(*l)
}
