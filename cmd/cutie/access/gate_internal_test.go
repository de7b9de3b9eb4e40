package access

import (
	"context"
	"errors"
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
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("user ann read "+string(hash)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	g, err := New(Options{Users: file, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
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
		if err := g.hashes.wait(ctx, netip.Addr{}); err != nil {
			t.Fatal(err)
		}
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
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(file, 12345, 54321); err != nil {
		t.Fatal(err)
	}
	if err := Edit(file, func(u *Users) error { return u.Add(User{Name: "ann"}) }); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if s := info.Sys().(*syscall.Stat_t); s.Uid != 12345 || s.Gid != 54321 || info.Size() == 0 {
		t.Errorf("got the file of %d:%d with %d octets, want 12345:54321 and ann in it", s.Uid, s.Gid, info.Size())
	}
}
