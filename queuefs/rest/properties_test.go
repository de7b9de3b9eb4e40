package rest_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
)

// What some form of the state could not say is refused, rather than set to
// something else; what all can say is in all of them.
func TestPropertiesAreWhatEveryFormCanSay(t *testing.T) {
	s := newSite(t, rest.Options{})
	for _, tt := range []struct{ value, why string }{
		{"a\x01b", "U+0001"}, {"a\x00b", "U+0000"}, {"a\x1b[31mb", "U+001B"}, {"a\x7fb", "U+007F"},
		{"a\nb", "line end"}, {"a\r\n", "line end"}, {"a\tb", "U+0009"},
		{"a\ufffeb", "U+FFFE"}, {"a\uffff", "U+FFFF"},
	} {
		for _, name := range []string{"description", "name"} {
			for media, body := range map[string]string{
				"application/json":                  fmt.Sprintf(`{%q:%s}`, name, inJSON(tt.value)),
				"application/x-www-form-urlencoded": url.Values{name: {tt.value}}.Encode(),
			} {
				got := s.do("POST", "/state/jobs?t=xml", body, "Content-Type", media).want(t, 400).exception(t)
				if !strings.Contains(got, name) || !strings.Contains(got, tt.why) {
					t.Errorf("%q as %s: got %q", tt.value, media, got)
				}
			}
		}
	}
	s.do("POST", "/state/jobs?t=json", "description: a\x01b\n", "Content-Type", "text/x-anvl").want(t, 400)
	s.do("POST", "/state/jobs?description=%ff", "").want(t, 400)
	s.do("POST", "/state/jobs?description=a%0Ab", "").want(t, 400)
	s.do("POST", "/state/jobs", "description: a%0Ab\n", "Content-Type", "text/x-anvl").want(t, 400)
	s.do("POST", "/state?identifier=a%0Ab", "").want(t, 400)
	s.do("PUT", "/state/a%01b", "").want(t, 400)
	s.do("POST", "/state?identifier=a%01b", "").want(t, 400)
	want(t, "description", s.q.Info().Description, "")
	const said = "a\u0085\u009b31m\u202eb\u2028c <&\"'\\ \U0001F600"
	s.do("POST", "/state/jobs", `{"description":`+inJSON(said)+`}`, "Content-Type", "application/json").want(t, 200)
	for _, form := range []state.Form{state.ANVL, state.JSON, state.Turtle, state.XHTML, state.XML, state.SOIF} {
		want(t, form.String(), s.do("GET", "/state/jobs?t="+form.String(), "").want(t, 200).queue(t).Info.Description, said)
	}
}

// Messages come from programs, whose reports are worth more than their octets:
// what no form can say is replaced in them.
func TestMessagesAreMadeWhatEveryFormCanSay(t *testing.T) {
	s := newSite(t, rest.Options{})
	s.submit("x", queuefs.Meta{Filename: "f\x01"})
	s.do("POST", "/hold/jobs/j000000000001?reason=a%01b", "").want(t, 200)
	s.do("POST", "/abort/jobs/j000000000001?message=%1b%5B31mno%0Amore", "").want(t, 200)
	for _, form := range []state.Form{state.ANVL, state.JSON, state.Turtle, state.XHTML, state.XML, state.SOIF} {
		j := s.do("GET", "/state/jobs/j000000000001?t="+form.String(), "").want(t, 200).job(t)
		want(t, form.String(), []string{j.Filename, j.Message}, []string{"f\ufffd", "\ufffd[31mno\nmore"})
	}
}

// inJSON is a string of JSON with everything beyond ASCII, and all controls,
// escaped.
func inJSON(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r > 0xffff:
			b.WriteRune(r)
		case r < ' ' || r >= 0x7f:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String() + `"`
}
