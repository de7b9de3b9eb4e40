package daemon

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"

	"cutie/queuefs"
)

func TestLimitOfMemoryLeavesRoomForGarbage(t *testing.T) {
	const mib = 1 << 20
	for _, tt := range []struct{ index, live, want int64 }{
		{0, 0, 190},
		{0, 100, 190},
		{128, 0, 62}, // a million jobs and nobody who waits: less than 250 MB in all
		{128, 40, 62},
		{1 << 20, 0, 62},
		{0, 240, 360}, // 10,000 who wait
		{128, 240, 360},
	} {
		if got := limitFor(tt.index*mib, tt.live*mib); got != tt.want*mib {
			t.Errorf("index of %d MiB, %d live: got %d octets, want %d MiB", tt.index, tt.live, got, tt.want)
		}
	}
}

func TestMemoryGoesBackInCalm(t *testing.T) {
	dir := t.TempDir()
	if err := queuefs.Init(dir, queuefs.ServiceInfo{Name: "x"}); err != nil {
		t.Fatal(err)
	}
	svc, err := queuefs.Open(dir, queuefs.Options{Segment: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer svc.Close()
	b := newBudget()
	follow, garbage := b.follow(svc), make([]byte, 300<<20)
	for i := range garbage {
		garbage[i] = 1
	}
	before := b.holds()
	runtime.KeepAlive(garbage)
	garbage = nil
	for range calm + 1 {
		if err := follow(); err != nil {
			t.Fatal(err)
		}
	}
	if now := b.holds(); now+250<<20 > before {
		t.Errorf("%d octets held, and %d before", now, before)
	}
}

func TestLimitOfMemoryFollowsWhatIsInUse(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	dir := t.TempDir()
	if err := queuefs.Init(dir, queuefs.ServiceInfo{Name: "x"}); err != nil {
		t.Fatal(err)
	}
	svc, err := queuefs.Open(dir, queuefs.Options{Segment: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer svc.Close()
	follow := newBudget().follow(svc)
	limit := func() int64 {
		runtime.GC()
		if err := follow(); err != nil {
			t.Fatal(err)
		}
		return debug.SetMemoryLimit(-1)
	}
	if got := limit(); got > 190<<20 || got == math.MaxInt64 {
		t.Errorf("got %d octets, want 190 MiB or less", got)
	}
	inUse := make([]byte, 300<<20) // never touched, so it takes no memory
	if got := limit(); got < 450<<20 {
		t.Errorf("with 300 MiB in use: got %d octets, want half as many again at least", got)
	}
	runtime.KeepAlive(inUse)
	inUse = nil
	if got := limit(); got > 190<<20 {
		t.Errorf("afterwards: got %d octets, want 190 MiB or less", got)
	}
}

func TestLimitOfMemoryWhileAHomeIsOpened(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	b := newBudget()
	inUse := make([]byte, 300<<20) // never touched, so it takes no memory
	runtime.GC()
	b.opening()
	if got := debug.SetMemoryLimit(-1); got < 450<<20 || got == math.MaxInt64 {
		t.Errorf("with 300 MiB in use: got %d octets, want half as many again at least", got)
	}
	runtime.KeepAlive(inUse)
}
