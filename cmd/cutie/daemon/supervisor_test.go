package daemon

import (
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
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
