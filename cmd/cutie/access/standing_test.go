package access_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cutie/cmd/cutie/access"
	"cutie/queuefs/web"
)

// statusOf returns the status of a refusal, 200 without one.
func statusOf(err error) int {
	var refused *web.Error
	if errors.As(err, &refused) {
		return refused.Status
	}
	return 200
}

// A change of the users file reaches requests on their way, if it takes their right.
func TestStandingEndsWithTheRight(t *testing.T) {
	ann := func(rights, password string) string { return user(t, "ann", rights, password) }
	same := ann("read,submit:ingest", "nna")
	for name, tt := range map[string]struct {
		need web.Need
		then string
		want int
	}{
		"another user comes": {web.Here(web.Submit), same + user(t, "bob", "read", "bob"), 200},
		"another right goes": {web.Here(web.Read), "", 200},
		"the right goes":     {web.Here(web.Submit), "", 403},
		"the password":       {web.Here(web.Read), ann("read,submit:ingest", "other"), 401},
		"the user":           {web.Here(web.Read), user(t, "bob", "read", "bob"), 401},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGatehouse(t, "", same)
			r := httptest.NewRequest("GET", "/state", nil)
			r.SetBasicAuth("ann", "nna")
			c, err := g.admit(http.Header{}, r, client)
			if err != nil {
				t.Fatal(err)
			}
			header := http.Header{}
			s := g.Standing(c, header, tt.need, "ingest")
			during, cancel := s.While(t.Context())
			defer cancel()
			if err := s.Still(); err != nil || during.Err() != nil {
				t.Fatalf("before the change: %v, %v", err, during.Err())
			}
			if tt.then == "" { // the same password has another hash each time
				tt.then = strings.Replace(same, "read,submit:ingest", "read", 1)
			}
			g.write(tt.then)
			if got := statusOf(s.Still()); got != tt.want {
				t.Errorf("got status %d, want %d", got, tt.want)
			}
			if tt.want == 200 {
				g.write(tt.then + "# again\n")
				must(t, g.Reload())
				if during.Err() != nil {
					t.Error("the context has ended")
				}
				g.write("# nobody\n")
				must(t, g.Reload())
				<-during.Done()
				return
			}
			<-during.Done()
			if got := statusOf(context.Cause(during)); got != tt.want {
				t.Errorf("the context ended by %v", context.Cause(during))
			}
			if (header.Get("Www-Authenticate") != "") != (tt.want == 401) {
				t.Errorf("got %v", header)
			}
		})
	}
}

func TestStandingOfATokenEndsWithIt(t *testing.T) {
	secret, hash := access.NewToken()
	users := func(expires string) string {
		u := &access.Users{}
		must(t, u.Add(access.User{Name: "ann", Rights: access.Rights{{Right: web.Read}}}))
		tok := access.Token{Name: "t", User: "ann", Hash: hash}
		if expires != "" {
			tok.Expires, _ = time.Parse(time.RFC3339, expires)
		}
		must(t, u.AddToken(tok))
		return u.String()
	}
	g := newGatehouse(t, "", users("2099-01-01T00:00:00Z"))
	r := httptest.NewRequest("GET", "/state", nil)
	r.Header.Set("Authorization", "Bearer "+secret)
	c, err := g.admit(http.Header{}, r, client)
	if err != nil {
		t.Fatal(err)
	}
	s := g.Standing(c, http.Header{}, web.Here(web.Read), "ingest")
	during, cancel := s.While(t.Context())
	defer cancel()
	must(t, s.Still())
	g.write("user ann read -\n")
	if got := statusOf(s.Still()); got != 401 {
		t.Errorf("without the token: got status %d, want 401", got)
	}
	<-during.Done()
	g.now = g.now.AddDate(200, 0, 0)
	g.write(users("2099-01-01T00:00:00Z"))
	if got := statusOf(s.Still()); got != 401 {
		t.Errorf("expired: got status %d, want 401", got)
	}
}

func TestStandingOfOthersLasts(t *testing.T) {
	g := newGatehouse(t, "read", "# no users\n")
	c, err := g.admit(http.Header{}, httptest.NewRequest("GET", "/state", nil), client)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*access.Caller{c, access.Local()} {
		if s := g.Standing(c, http.Header{}, web.Here(web.Read), "ingest"); s != nil {
			t.Errorf("got %+v, want none", s)
		}
	}
}
