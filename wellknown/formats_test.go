package wellknown_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"cutie/wellknown"
)

func TestLinks(t *testing.T) {
	for _, tt := range []struct {
		field string
		want  []string
	}{
		{`<http://example.com/c.xml>; rel="resourcesync"`, []string{"http://example.com/c.xml"}},
		{`<c.xml>;rel=resourcesync`, []string{"c.xml"}},
		{`< c.xml > ; REL = "up ResourceSync"`, []string{"c.xml"}},
		{`<a,b;c>; title="x, \"<y>; rel=up"; rel="resourcesync", <b>; rel=resourcesync`, []string{"a,b;c", "b"}},
		{`<a>; rel=up; rel=resourcesync`, nil},
		{`<a>; rel=resourcesync; anchor="/other"`, nil},
		{`<a>; nosniff; rel=resourcesync;`, []string{"a"}},
		{`,, <a>; rel=resourcesync ,`, []string{"a"}},
		{`<a>; rel="resourcesync-not"`, nil},
		{`<a>; rel=resourcesync, b; rel=resourcesync`, []string{"a"}},
		{`<a; rel=resourcesync`, nil},
		{`<a>; rel="resourcesync`, nil},
		{`<a>; rel="resourcesync\`, nil},
		{`<a> rel=resourcesync`, nil},
		{``, nil},
	} {
		got := wellknown.Links(http.Header{"Link": {tt.field}}, wellknown.Rel)
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.field, got, tt.want)
		}
	}
	two := http.Header{"Link": {"<a>; rel=hub", "<b>; rel=self, <c>; rel=hub"}}
	if got, want := wellknown.Links(two, "hub"), []string{"a", "c"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLinkCannotBreakOut(t *testing.T) {
	got := wellknown.Link("http://example.com/a>; rel=\"x\", <b\r\nX: é", wellknown.Rel)
	want := `<http://example.com/a%3E;%20rel=%22x%22,%20%3Cb%0D%0AX:%20%C3%A9>; rel="resourcesync"`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestHTMLLinks(t *testing.T) {
	for _, tt := range []struct {
		page string
		want []string
	}{
		{`<html><head><link rel="resourcesync" href="c.xml"></head></html>`, []string{"c.xml"}},
		{`<HEAD><LINK HREF='/a?b&amp;c' REL='ResourceSync up'/><link rel=resourcesync href=d>`, []string{"/a?b&c", "d"}},
		{"<link\n rel\n=\n\"resourcesync\"\thref = ' c.xml '\ndisabled\n/>", []string{"c.xml"}},
		{`<!-- <link rel="resourcesync" href="a"> --><link rel="resourcesync" href="b">`, []string{"b"}},
		{`<script>"<link rel='resourcesync' href='a'>"</SCRIPT><link rel="resourcesync" href="b">`, []string{"b"}},
		{`<title><link rel="resourcesync" href="a"></title>`, nil},
		{`<head></head><link rel="resourcesync" href="a">`, nil},
		{`<body><link rel="resourcesync" href="a">`, nil},
		{`<link title="a>b" data-x=">" rel="resourcesync" href="c">`, []string{"c"}},
		{`<link rel="stylesheet" href="a"><linker rel="resourcesync" href="b"><link rel="resourcesync">`, nil},
		{`<link rel="resourcesync" href="a`, nil},
		{`<link rel="resourcesync" href=a`, nil},
		{`<link =x = "y" rel=resourcesync href=a>`, []string{"a"}},
		{`<`, nil}, {`<link`, nil}, {`<link `, nil}, {`<!--`, nil}, {`<script>`, nil}, {`<link rel=`, nil}, {``, nil},
	} {
		if got := wellknown.HTMLLinks(tt.page); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.page, got, tt.want)
		}
	}
}

func FuzzScanners(f *testing.F) {
	f.Add(`<!-- --><title>x</title><link rel="resourcesync" href='a'>`)
	f.Add(`<a>; rel="x \" y"; b=c, <d>`)
	f.Fuzz(func(t *testing.T, s string) {
		wellknown.HTMLLinks(s)
		wellknown.RobotsSitemaps(s)
		wellknown.Links(http.Header{"Link": {s}}, wellknown.Rel)
		field := wellknown.Link(s, wellknown.Rel)
		got := wellknown.Links(http.Header{"Link": {field}}, wellknown.Rel)
		if len(got) != 1 || strings.ContainsAny(field, "\r\n") {
			t.Errorf("%q: got %q", field, got)
		}
	})
}

func TestRobotsSitemaps(t *testing.T) {
	robots := "\ufeffUser-agent: *\r\nDisallow: /x\r\n" +
		"sitemap:http://example.com/a.xml # comment\n#Sitemap: no\nSitemap:\n  SITEMAP : http://example.com/b.xml\r" +
		wellknown.RobotsLine("http://example.com/c.xml")
	want := []string{"http://example.com/a.xml", "http://example.com/b.xml", "http://example.com/c.xml"}
	if got := wellknown.RobotsSitemaps(robots); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPagesOfOtherOriginsMayRead(t *testing.T) {
	for _, tt := range []struct {
		allow, method, origin, asks string
		preflight                   bool
		allowed                     string
		names                       string // of the Access-Control fields, shortened
	}{
		{"*", "GET", "https://a.test", "", false, "*", "Allow-Origin Expose-Headers"},
		{"*", "HEAD", "", "", false, "*", "Allow-Origin Expose-Headers"},
		{"*", "POST", "https://a.test", "", false, "", ""},
		{"*", "OPTIONS", "https://a.test", "GET", true, "*", "Allow-Headers Allow-Methods Allow-Origin Max-Age"},
		{"*", "OPTIONS", "", "", false, "", ""},
		{"*", "OPTIONS", "https://a.test", "", false, "", ""},
		{"https://a.test", "GET", "https://a.test", "", false, "https://a.test", "Allow-Origin Expose-Headers"},
		{"https://a.test", "GET", "https://b.test", "", false, "https://a.test", "Allow-Origin Expose-Headers"},
		{"https://A.test:8443", "OPTIONS", "http://b.test", "POST", true, "https://a.test:8443", "Allow-Headers Allow-Methods Allow-Origin Max-Age"},
	} {
		c, err := wellknown.NewCORS(tt.allow)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(tt.method, "/", nil)
		for name, value := range map[string]string{"Origin": tt.origin, "Access-Control-Request-Method": tt.asks} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		h := http.Header{}
		preflight := c.Allow(h, r)
		var names []string
		for _, name := range slices.Sorted(maps.Keys(h)) {
			if n, ok := strings.CutPrefix(name, "Access-Control-"); ok {
				names = append(names, n)
			}
		}
		if preflight != tt.preflight || h.Get("Access-Control-Allow-Origin") != tt.allowed || strings.Join(names, " ") != tt.names {
			t.Errorf("%+v: got preflight %v and %v", tt, preflight, h)
		}
		if methods := h.Get("Access-Control-Allow-Methods"); methods != "" && methods != "GET, HEAD" {
			t.Errorf("%+v: methods %s", tt, methods)
		}
		if _, ok := h["Access-Control-Allow-Credentials"]; ok {
			t.Errorf("%+v: credentials are allowed", tt)
		}
	}
}

func TestWhatIsNoOriginIsRefused(t *testing.T) {
	for _, o := range []string{"", "a.test", "https://", "https://a.test/", "https://a.test/x", "ftp://a.test", "https://u@a.test", "https://*.a.test?", "null"} {
		if _, err := wellknown.NewCORS(o); err == nil || !strings.Contains(err.Error(), "https://example.org") {
			t.Errorf("%q: got %v", o, err)
		}
	}
}

func TestRobotsAreReadAsTheyAreWritten(t *testing.T) {
	var want []string
	for i := range 20_000 {
		want = append(want, "http://source.test/"+strings.Repeat("x", i%90)+"/resourcelist.xml")
	}
	text := wellknown.Robots(want)
	got := wellknown.RobotsSitemaps(text)
	if len(text) > 500<<10 || len(text) < 499<<10 || !slices.Equal(got, want[:len(got)]) {
		t.Errorf("%d octets with %d of %d lists", len(text), len(got), len(want))
	}
	if got := wellknown.Robots(want[:1]); got != "User-agent: *\nDisallow:\n\nSitemap: "+want[0]+"\n" {
		t.Errorf("got %q", got)
	}
}
