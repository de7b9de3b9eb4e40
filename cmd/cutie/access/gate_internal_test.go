package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/bcrypt"

	"cutie/queuefs/web"
)

// crowded is a gate with the user ann, whose password is x, and as many guesses from other
// addresses as may wait, with no end of them.
func crowded(t *testing.T) (ask func(password, from string) (status int, retry string)) {
	file := filepath.Join(t.TempDir(), "users.txt")
	hash, err := bcrypt.GenerateFromPassword([]byte("x"), bcrypt.MinCost)
	must(t, err)
	must(t, os.WriteFile(file, []byte("user ann read "+string(hash)+"\n"), 0o600))
	now := time.Now()
	g, err := New(Options{Users: file, Now: func() time.Time { return now }})
	must(t, err)
	ask = func(password, from string) (status int, retry string) {
		t.Helper()
		r := httptest.NewRequest("GET", "/state", nil)
		r.SetBasicAuth("ann", password)
		header := http.Header{}
		_, err := g.Admit(header, r, web.Anywhere(web.Read), "", netip.MustParseAddr(from))
		if err == nil {
			return http.StatusOK, ""
		}
		var e *web.Error
		if !errors.As(err, &e) {
			t.Fatal(err)
		}
		return e.Status, header.Get("Retry-After")
	}
	ask("x", "192.0.2.1")
	now = now.Add(2 * rememberFor) // the password is to be compared again
	ctx, cancel := context.WithCancel(t.Context())
	for range hashesAtOnce {
		must(t, g.hashes.wait(ctx, netip.Addr{}))
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	for i := range hashesQueued {
		wg.Go(func() { g.hashes.wait(ctx, addressNo(i)) })
	}
	synctest.Wait()
	return ask
}

func TestLoginsThatWaitAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := crowded(t)
		for range 2 * loginBurst { // none of them counts as wrong
			if got, retry := ask("x", "192.0.2.2"); got != http.StatusServiceUnavailable || retry == "" {
				t.Errorf("got %d, Retry-After %q, want 503", got, retry)
			}
		}
	})
}

// Whoever was right at an address gets in there again, whatever others do.
func TestGuessesOfManyAddressesKeepNoKnownUserOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := crowded(t)
		for password, want := range map[string]int{"x": http.StatusOK, "wrong": http.StatusUnauthorized} {
			if got, _ := ask(password, "192.0.2.1"); got != want {
				t.Errorf("password %s: got %d, want %d", password, got, want)
			}
		}
	})
}

func TestEditLeavesTheFileToItsOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only the superuser can give files away")
	}
	file := filepath.Join(t.TempDir(), "users.txt")
	must(t, os.WriteFile(file, nil, 0o600))
	must(t, os.Chown(file, 12345, 54321))
	must(t, Edit(file, func(u *Users) error { return u.Add(User{Name: "ann"}) }))
	info, err := os.Stat(file)
	must(t, err)
	if s := info.Sys().(*syscall.Stat_t); s.Uid != 12345 || s.Gid != 54321 || info.Size() == 0 {
		t.Errorf("got the file of %d:%d with %d octets, want 12345:54321 and ann in it", s.Uid, s.Gid, info.Size())
	}
}

// testQueue is a fairQueue with one place, which is taken.
type testQueue struct {
	*fairQueue
	t    *testing.T
	seen sync.Mutex
	gone []string // on, or refused with a minus, in this order
}

func newTestQueue(t *testing.T, most int) *testQueue {
	l := &testQueue{fairQueue: newFairQueue(1, most), t: t}
	must(t, l.wait(t.Context(), netip.Addr{}))
	return l
}

func addressNo(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}) }

// join lets one wait.
func (l *testQueue) join(ctx context.Context, name string, client int) {
	go func() {
		err := l.wait(ctx, addressNo(client))
		l.seen.Lock()
		defer l.seen.Unlock()
		switch err {
		case nil:
			l.gone = append(l.gone, name)
		case errCrowded:
			l.gone = append(l.gone, "-"+name)
		default:
			l.gone = append(l.gone, "!"+name)
		}
	}()
	synctest.Wait()
}

// want compares who went on since.
func (l *testQueue) want(names ...string) {
	l.t.Helper()
	synctest.Wait()
	if got, want := fmt.Sprint(l.gone), fmt.Sprint(names); got != want {
		l.t.Errorf("got %s, want %s", got, want)
	}
	l.gone = nil
}

func TestAddressesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestQueue(t, 10)
		for i := range 5 {
			l.join(t.Context(), fmt.Sprint("a", i), 1)
		}
		l.join(t.Context(), "b0", 2)
		l.join(t.Context(), "c0", 3)
		l.want()
		for _, name := range []string{"a0", "b0", "c0", "a1", "a2"} {
			l.leave()
			l.want(name)
		}
		l.join(t.Context(), "d0", 4)
		l.leave()
		l.want("a3")
		l.leave()
		l.want("d0")
		l.leave()
		l.want("a4")
		l.leave() // nobody waits
		l.join(t.Context(), "e0", 5)
		l.want("e0")
	})
}

func TestAddressWithManyMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestQueue(t, 4)
		for i := range 5 {
			l.join(t.Context(), fmt.Sprint("a", i), 1)
		}
		l.want("-a4")
		l.join(t.Context(), "b0", 2)
		l.want("-a3")
		l.join(t.Context(), "b1", 2)
		l.want("-a2")
		l.join(t.Context(), "b2", 2) // it has as many as the other
		l.want("-b2")
		l.join(t.Context(), "c0", 3)
		l.join(t.Context(), "d0", 4)
		l.gone = nil
		l.join(t.Context(), "e0", 5) // each has one
		l.want("-e0")
		if len(l.waiting) != 4 {
			t.Errorf("got %d that wait, want 4", len(l.waiting))
		}
		for range 5 {
			l.leave()
		}
		synctest.Wait()
		if l.free != 1 || len(l.waiting) != 0 {
			t.Errorf("got %d free, %d waiting", l.free, len(l.waiting))
		}
	})
}

func TestWhoGoesAwayLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestQueue(t, 4)
		ctx, cancel := context.WithCancel(t.Context())
		l.join(ctx, "a0", 1)
		l.join(t.Context(), "b0", 2)
		cancel()
		l.want("!a0")
		l.leave()
		l.want("b0")
		if len(l.waiting) != 0 {
			t.Errorf("got %d waiting, want none", len(l.waiting))
		}
	})
}

func TestThrottleRemembersSoManyClients(t *testing.T) {
	th := throttle[netip.Addr]{burst: 2, every: time.Second, most: 100}
	now := time.Unix(1e9, 0)
	for i := range 1000 {
		if wait := th.try(addressNo(i), now); wait != 0 {
			t.Fatalf("client %d: got %v, want no wait", i, wait)
		}
		if len(th.due) > 100 {
			t.Fatalf("client %d: %d are remembered, want 100 at most", i, len(th.due))
		}
	}
	// The last is among them.
	th.try(addressNo(999), now)
	if got := th.try(addressNo(999), now); got != time.Second {
		t.Errorf("got %v, want 1s", got)
	}
	// Those that have all their tries again are forgotten first.
	now = now.Add(time.Minute)
	for i := range 101 {
		th.try(addressNo(2000+i), now)
	}
	for i := range 101 {
		if _, ok := th.due[addressNo(2000+i)]; !ok {
			if len(th.due) < 75 {
				t.Errorf("client %d is forgotten with %d others remembered", i, len(th.due))
			}
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
