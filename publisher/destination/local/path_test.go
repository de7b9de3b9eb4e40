package local

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
)

func TestPathsLeadBack(t *testing.T) {
	long := strings.Repeat("x", 450)
	for _, c := range []struct{ uri, path string }{
		{"http://s.org/q/jobs/payload/j1", "jobs/payload/j1"},
		{"http://s.org/q/a%20b", "a%20b"},
		{"http://s.org/q/", "^"},
		{"http://s.org/q/dir/", "dir/^"},
		{"http://s.org/q/a//b", "a/^/b"},
		{"http://s.org/q/../etc/passwd", "^2e^2e/etc/passwd"},
		{"http://s.org/q/./a", "^2e/a"},
		{"http://s.org/q/.cutie-sync/state", "^2ecutie-sync/state"},
		{"http://s.org/q/a?b=c/d&e", "a^3fb=c^2fd&e"},
		{"http://s.org/q/a\\b*c", "a^5cb^2ac"},
		{"http://s.org/other", "^http+s.org/other"},
		{"https://s.org/q/x", "^https+s.org/q/x"},
		{"http://t.org:8080/", "^http+t.org+8080/^"},
		{"http://s.org/q/" + long, long[:200] + "^-/" + long[:200] + "^-/" + long[:50]},
		{"http://s.org/q/\xc3\xa4", "^c3^a4"},
	} {
		n, err := NewNames("http://s.org/q", false)
		if err != nil {
			t.Fatal(err)
		}
		got, err := n.Path(c.uri)
		if err != nil || got != c.path {
			t.Errorf("%s: got %q, %v, want %q", c.uri, got, err, c.path)
		}
		if back := n.URI(got); back != c.uri {
			t.Errorf("%s: %q leads back to %q", c.uri, got, back)
		}
	}
	for _, uri := range []string{"", "/a", "file:///etc/passwd", "http://u@s.org/q/a", "http://s.org/q/a#b", "http://s.org/q/a^2f", "http:///a",
		"http://t.org", "http://s.org/q/" + strings.Repeat("a/", 5000), "HTTP://T.org/a", "http://[::1]/../a^"} {
		n, _ := NewNames("http://s.org/q/", false)
		if p, err := n.Path(uri); !errors.Is(err, ErrName) {
			t.Errorf("%.40q: got %q, %v", uri, p, err)
		}
	}
	fold, _ := NewNames("http://s.org/q/", true)
	if p, err := fold.Path("http://s.org/q/aBc"); p != "a^42c" || err != nil || fold.URI(p) != "http://s.org/q/aBc" {
		t.Errorf("got %q, %v", p, err)
	}
}

func FuzzPath(f *testing.F) {
	for _, s := range []string{"http://s.org/q/../..//x?y/..", "http://t:80/../a", "https://s.org/.cutie-sync/", "http://s.org/q/^", "http://[::1]:80/a"} {
		f.Add(s)
	}
	n, _ := NewNames("http://s.org/q/", false)
	f.Fuzz(func(t *testing.T, uri string) {
		p, err := n.Path(uri)
		if err != nil {
			return
		}
		if !fs.ValidPath(p) || p == Own || strings.HasPrefix(p, Own+"/") {
			t.Errorf("%q: path %q", uri, p)
		}
		if back := n.URI(p); back != uri {
			t.Errorf("%q: %q leads back to %q", uri, p, back)
		}
		for name := range strings.SplitSeq(p, "/") {
			if len(name) > 255 {
				t.Errorf("%q: a name of %d octets", uri, len(name))
			}
		}
	})
}
