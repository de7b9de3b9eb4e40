package access

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"cutie/queuefs/web"
)

func TestLoginsThatWaitAreLimited(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users.txt")
	if err := os.WriteFile(file, []byte("user ann read -\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := New(Options{Users: file})
	if err != nil {
		t.Fatal(err)
	}
	ask := func() (status int, retry string) {
		r := httptest.NewRequest("GET", "/state", nil)
		r.SetBasicAuth("ann", "x")
		header := http.Header{}
		_, err := g.Admit(header, r, web.Anywhere(web.Read), "", netip.MustParseAddr("192.0.2.1"))
		var e *web.Error
		if !errors.As(err, &e) {
			t.Fatal(err)
		}
		return e.Status, header.Get("Retry-After")
	}
	g.queue.Store(hashesQueued)
	for range 2 * loginBurst { // none of them counts as wrong
		if got, retry := ask(); got != http.StatusServiceUnavailable || retry == "" {
			t.Errorf("got %d, Retry-After %q, want 503", got, retry)
		}
	}
	g.queue.Store(0)
	if got, _ := ask(); got != http.StatusUnauthorized {
		t.Errorf("got %d, want 401", got)
	}
	if got := g.queue.Load(); got != 0 {
		t.Errorf("%d are still in the queue", got)
	}
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
