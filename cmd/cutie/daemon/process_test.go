package daemon

import (
	"bytes"
	"errors"
	"math"
	"net"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"cutie/queuefs"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
)

// A daemon with failed storage is silent, so that it is started again.
func TestFailedStorageGivesNoSignOfLife(t *testing.T) {
	name := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	t.Setenv("NOTIFY_SOCKET", name)
	s := &supervisor{log: zerolog.Nop(), watchdog: time.Minute, status: "serving http://h/"} // as ready leaves it
	hear := func() string {
		buf := make([]byte, 1000)
		manager.SetReadDeadline(time.Now().Add(10 * time.Second))
		n, err := manager.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		return string(buf[:n])
	}
	expect := func(want string) {
		t.Helper()
		if got := hear(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	s.beat(nil, nil, "http://h/")
	expect("WATCHDOG=1")
	broken := errors.New("disk gone")
	s.beat(broken, broken, "http://h/")
	expect("STATUS=not ready: disk gone")
	s.beat(broken, broken, "http://h/")
	s.beat(nil, nil, "http://h/")
	expect("STATUS=serving http://h/")
	expect("WATCHDOG=1")
}

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
	svc := openHome(t, queuefs.Options{Segment: 1 << 20})
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
	svc := openHome(t, queuefs.Options{Segment: 1 << 20})
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

// A stop that has many files to write says so, and one that has not is silent.
func TestALongStopSaysWhatItDoes(t *testing.T) {
	dir := t.TempDir()
	if err := home.Init(dir, home.ServiceInfo{Name: "x"}); err != nil {
		t.Fatal(err)
	}
	for _, jobs := range []int{0, 10_001} {
		svc, err := queuefs.Open(dir, queuefs.Options{Segment: 20 << 20})
		if err != nil {
			t.Fatal(err)
		}
		if len(svc.Queues()) == 0 {
			if _, err := svc.CreateQueue(t.Context(), home.QueueInfo{ID: "jobs", Name: "jobs", CullingSize: -1, CullingAge: -1}); err != nil {
				t.Fatal(err)
			}
		}
		sub := svc.Queues()[0].Begin()
		for range jobs {
			if _, err := sub.Add(job.Meta{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := sub.Commit(t.Context()); err != nil && jobs > 0 {
			t.Fatal(err)
		}
		var said bytes.Buffer
		if err := closeHome(svc, zerolog.New(&said)); err != nil {
			t.Fatal(err)
		}
		if got, want := strings.Contains(said.String(), `"jobs":10001,`), jobs > 0; got != want || !want && said.Len() > 0 {
			t.Errorf("%d jobs: said %q", jobs, said.String())
		}
	}
}
