package destination_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"cutie/publisher/destination"
	"cutie/queuefs/outbound"
	"cutie/sitemap"
)

// A Source lists a resource at a private address that is not its own. It is not asked for;
// the rest is copied, and a later run that allows the address completes the copy.
func TestPrivateAddressesAreNotCopied(t *testing.T) {
	inner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "secret") }))
	defer inner.Close()
	f := newSource(t)
	f.Put("/a", "one")
	f.Put("/b", "secret")
	f.Lock(func() { f.Changes, f.From = nil, f.Now })
	f.Edit = func(path string, e *sitemap.Entry) {
		if e.Loc == f.URL+"/b" {
			e.Loc = inner.URL + "/b"
		}
	}
	p := newPlace(t, f)
	r := p.mustSync(nil)
	if said := strings.Join(p.said, "\n"); r.Fetched != 1 || r.Failed != 1 || !strings.Contains(said, "which is loopback; the pattern "+inner.Listener.Addr().String()+" would allow it") {
		t.Errorf("got %+v and %q", r, p.said)
	}
	r = p.mustSync(func(o *destination.Options) { o.HTTP.Addresses, _ = outbound.NewAddresses([]string{"127.0.0.1"}) })
	if r.Fetched != 1 || r.Failed != 0 {
		t.Errorf("with the address allowed: got %+v and %q", r, p.said)
	}
}

// A copy of what only credentials give is for its owner. A directory that was there keeps
// its mode, and the operator hears of it.
func TestACopyMadeWithCredentialsIsPrivate(t *testing.T) {
	credentials := func(o *destination.Options) { o.HTTP.Header = http.Header{"Authorization": {"Bearer x"}} }
	for _, tt := range []struct {
		name  string
		there os.FileMode // 0: no directory
		with  func(*destination.Options)
		want  os.FileMode
		told  bool
	}{
		{"without", 0, nil, 0o755, false},
		{"with", 0, credentials, 0o700, false},
		{"existing, open", 0o755, credentials, 0o755, true},
		{"existing, private", 0o700, credentials, 0o700, false},
	} {
		f := newSource(t)
		f.Put("/a", "one")
		p := newPlace(t, f)
		if tt.there != 0 {
			if err := os.Mkdir(p.dir, tt.there); err != nil {
				t.Fatal(err)
			}
		}
		p.mustSync(tt.with)
		info, err := os.Stat(p.dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != tt.want || len(p.said) > 0 != tt.told {
			t.Errorf("%s: got mode %o and %q, want %o", tt.name, got, p.said, tt.want)
		}
	}
}
