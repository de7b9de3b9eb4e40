package state_test

import (
	"errors"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/state"
)

func TestNegotiate(t *testing.T) {
	const none = state.Form(0)
	tests := []struct {
		t, accept string
		want      state.Form
	}{
		{"", "", state.Default},
		{"", "*/*", state.Default},
		{"anvl", "", state.ANVL},
		{"TXT", "", state.ANVL},
		{"text/anvl", "", state.ANVL},
		{"json", "text/x-anvl", state.JSON}, // t wins
		{"anvl", "image/png", state.ANVL},
		{"turtle", "", state.Turtle},
		{"ttl", "application/json", state.Turtle},
		{"rdf", "", state.Turtle},
		{"RDF/Turtle", "", state.Turtle},
		{".ttl", "", state.Turtle},
		{".txt", "", state.ANVL},
		{".json", "", state.JSON},
		{".html", "", state.XHTML},
		{".xml", "", state.XML},
		{"text/x-turtle", "", state.Turtle},
		{"application/xhtml+xml", "", state.XHTML},
		{"application/xhtml xml", "", state.XHTML}, // a plus sign in a URL
		{".", "", none},
		{"xhtml", "", state.XHTML},
		{"html", "", state.XHTML},
		{"xml", "", state.XML},
		{"xhtml", "text/html, */*;q=0.1", state.HTML}, // a browser that knows no XHTML
		{"xhtml", "text/html, application/xhtml+xml", state.XHTML},
		{"xhtml", "application/json", state.XHTML},
		{"soif", "", state.SOIF},
		{"", "application/x-soif", state.SOIF},
		{"bogus", "", none},
		{"", "text/anvl", state.ANVL},
		{"", "text/x-anvl", state.ANVL},
		{"", "Text/X-ANVL; charset=utf-8", state.ANVL},
		{"", "text/*", state.HTML},
		{"", "application/json", state.JSON},
		{"", "application/*", state.XHTML},
		{"", "text/x-anvl;q=0.5, application/json;q=0.4", state.ANVL},
		{"", "text/x-anvl;q=0.5, application/json; q=0.6", state.JSON},
		{"", "text/x-anvl, application/json", state.JSON}, // our preference
		{"", "*/*, application/xhtml+xml;q=0, text/html;q=0", state.JSON},
		{"", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", state.XHTML},
		{"", "text/html", state.HTML},
		{"", "text/html;q=0.9, */*;q=0.8", state.HTML},
		{"", "application/xml", state.XML},
		{"", "text/xml, application/xml", state.XML},
		{"", "text/x-turtle", state.Turtle},
		{"", "application/json;q=0", none},
		{"", "application/json;q=nonsense", none},
		{"", "application/json;q=2", none},
		{"", "text/turtle, image/*", state.Turtle},
		{"", "image/*", none},
		{"", "nonsense", state.Default}, // no media range at all
	}
	for _, tt := range tests {
		got, err := state.Negotiate(tt.t, tt.accept)
		if got != tt.want || errors.Is(err, state.ErrForm) != (tt.want == none) {
			t.Errorf("t=%q, Accept %q: got %v, %v, want %v", tt.t, tt.accept, got, err, tt.want)
		}
	}
}

func TestFormNames(t *testing.T) {
	for f, want := range map[state.Form][2]string{
		state.ANVL:   {"anvl", "text/x-anvl"},
		state.JSON:   {"json", "application/json"},
		state.Turtle: {"turtle", "text/turtle"},
		state.XHTML:  {"xhtml", "application/xhtml+xml"},
		state.XML:    {"xml", "application/xml"},
		state.SOIF:   {"soif", "application/x-soif"},
		state.HTML:   {"text/html", "text/html; charset=utf-8"},
	} {
		if f.String() != want[0] || f.MediaType() != want[1] {
			t.Errorf("got %s, %s, want %s", f, f.MediaType(), want)
		}
		if got, err := state.ParseForm(want[0]); got != f || err != nil {
			t.Errorf("%s: got %v, %v", want[0], got, err)
		}
		if got, err := state.FormOf(want[1] + "; q=1"); got != f || err != nil {
			t.Errorf("%s: got %v, %v", want[1], got, err)
		}
	}
}

func TestReferencesHaveOneSpelling(t *testing.T) {
	b := state.NewBase("http://store:8080/store/")
	tests := []struct{ queue, want string }{
		{"ingest", "http://store:8080/store/state/ingest/j000000000042"},
		{"ark+=13030=a,b", "http://store:8080/store/state/ark+=13030=a,b/j000000000042"},
		{"a^20[b]", "http://store:8080/store/state/a%5E20%5Bb%5D/j000000000042"},
	}
	for _, tt := range tests {
		got := b.JobRef("state", tt.queue, 42)
		if got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
		queue, id, err := state.ParseJobRef(got + "?t=json#x")
		if queue != tt.queue || id != 42 || err != nil {
			t.Errorf("%s: read back as %s, %d, %v", got, queue, id, err)
		}
	}
	for _, ref := range []string{"", "j000000000042", "/j000000000042", "http://h/state/q", "http://h/q/j42", "q%zz/j000000000042"} {
		if q, id, err := state.ParseJobRef(ref); !errors.Is(err, queuefs.ErrBadName) {
			t.Errorf("%q: got %s, %d, %v", ref, q, id, err)
		}
	}
}
