package access_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"cutie/cmd/cutie/access"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// A gatehouse is a gate with a users file and a clock.
type gatehouse struct {
	t    *testing.T
	file string
	now  time.Time
	read []string // what was reported
	*access.Gate
}

// newGatehouse has the queues ingest and a,b. Passwords are the names reversed.
func newGatehouse(t *testing.T, anonymous, users string) *gatehouse {
	t.Helper()
	g := &gatehouse{t: t, file: filepath.Join(t.TempDir(), "users.txt"), now: time.Unix(1e9, 0)}
	g.write(users)
	o := access.Options{Users: g.file, Now: func() time.Time { return g.now },
		Queue: func(name string) (string, bool) {
			return strings.ReplaceAll(name, ".", ","), name == "ingest" || name == "a.b"
		},
		Report: func(users int, wide bool) { g.read = append(g.read, fmt.Sprint(users, " ", wide)) }}
	var err error
	if anonymous != "" {
		if o.Anonymous, err = access.ParseRights(anonymous); err != nil {
			t.Fatal(err)
		}
	}
	if g.Gate, err = access.New(o); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *gatehouse) write(users string) {
	g.t.Helper()
	must(g.t, os.WriteFile(g.file+".new", []byte(users), 0o600))
	must(g.t, os.Rename(g.file+".new", g.file))
}

// routes are those of the protocol, and one that takes no right.
var routes = web.NewRouter(web.Plain, append(new(rest.Handler).Routes(), web.Route{Method: "GET", Path: "/livez"})...)

func (g *gatehouse) admit(header http.Header, r *http.Request, from string) (*access.Caller, error) {
	m := routes.Match(r)
	return g.Admit(header, r, m.Need(), m.Queue(), netip.MustParseAddr(from))
}

// ask returns the status that a request would be refused with, or 200, and the
// header.
func (g *gatehouse) ask(request string, edit func(*http.Request), from string) (int, http.Header) {
	g.t.Helper()
	method, path, _ := strings.Cut(request, " ")
	r := httptest.NewRequest(method, path, nil)
	if edit != nil {
		edit(r)
	}
	header := http.Header{}
	_, err := g.admit(header, r, from)
	var answer *web.Error
	switch {
	case err == nil:
		return 200, header
	case !errors.As(err, &answer):
		g.t.Fatal(err)
	}
	return answer.Status, header
}

const client = "192.0.2.1"

func as(name, password string) func(*http.Request) {
	return func(r *http.Request) { r.SetBasicAuth(name, password) }
}

func bearing(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "bearer "+token) }
}

func user(t *testing.T, name, rights, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	must(t, err)
	return "user " + name + " " + rights + " " + string(hash) + "\n"
}

func TestGateDecides(t *testing.T) {
	whole, wholeHash := access.NewToken()
	narrow, narrowHash := access.NewToken()
	old, oldHash := access.NewToken()
	g := newGatehouse(t, "read:a.b", user(t, "ann", "read,submit:ingest", "nna")+user(t, "root", "admin", "toor")+user(t, "none", "none", "enon")+"user bot consume -\n"+
		fmt.Sprintf("token t1 ann same never %x\n", wholeHash)+
		fmt.Sprintf("token t2 root read:ingest,consume:ingest 2001-09-09T01:46:41Z %x\n", narrowHash)+ // a second left
		fmt.Sprintf("token t3 root same 2001-09-09T01:46:40Z %x\n", oldHash))
	for _, tt := range []struct {
		request string
		who     func(*http.Request)
		want    int
	}{
		{"GET /livez", nil, 200},
		{"GET /state", nil, 200},
		{"GET /state/a.b", nil, 200},
		{"GET /state/ingest", nil, 401},
		{"GET /state/nosuch", nil, 401},
		{"GET /events", nil, 401},
		{"GET /unknown", nil, 200}, // the router finds nothing
		{"POST /content/a.b", nil, 401},

		{"GET /state/ingest", as("ann", "nna"), 200},
		{"GET /state/nosuch", as("ann", "nna"), 200},
		{"POST /content/ingest", as("ann", "nna"), 200},
		{"POST /content/a.b", as("ann", "nna"), 403},
		{"POST /content/nosuch", as("ann", "nna"), 403},
		{"POST /consume/ingest", as("ann", "nna"), 403},
		{"GET /unknown", as("ann", "nna"), 200},
		{"GET /unknown", as("none", "enon"), 403},
		{"GET /livez", as("none", "enon"), 200},
		{"PUT /state/nosuch", as("root", "toor"), 200},
		{"GET /unknown", as("root", "toor"), 200},
		{"GET /state", as("ann", "wrong"), 401},
		{"GET /state", as("nobody", "nna"), 401},
		{"GET /state", as("bot", ""), 401},
		{"GET /state", as("bot", "-"), 401},
		{"GET /livez", as("ann", "wrong"), 200},
		// Who gives neither a name nor a password is anonymous.
		{"GET /state/a.b", as("", ""), 200},
		{"GET /state/ingest", as("", ""), 401},
		{"GET /state/a.b", as("ann", ""), 401},
		{"GET /state/a.b", as("", "nna"), 401},
		{"GET /state/a.b", func(r *http.Request) { r.Header.Set("Authorization", "Basic ") }, 401},

		{"POST /content/ingest", bearing(whole), 200},
		{"POST /consume/ingest", bearing(whole), 403},
		{"POST /consume/ingest", bearing(narrow), 200},
		{"POST /consume/a.b", bearing(narrow), 403},
		{"DELETE /content/ingest/j", bearing(narrow), 403},
		{"GET /state", bearing(narrow), 200},
		{"GET /state", bearing(old), 401},
		{"GET /state", bearing("x"), 401},
		{"GET /state", bearing(""), 401},
		{"GET /state", func(r *http.Request) { r.Header.Set("Authorization", "Digest x") }, 401},
		{"GET /state", func(r *http.Request) { r.Header.Set("Authorization", "Basic !") }, 401},
	} {
		got, header := g.ask(tt.request, tt.who, client)
		if got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.request, got, tt.want)
		}
		if challenges := header.Values("WWW-Authenticate"); (len(challenges) == 2) != (got == 401) {
			t.Errorf("%s: %d with challenges %q", tt.request, got, challenges)
		}
	}
	g.now = g.now.Add(time.Second)
	if got, _ := g.ask("GET /state", bearing(narrow), client); got != 401 {
		t.Errorf("token at its end: got %d, want 401", got)
	}
}

func TestWithoutUsersRightsAreThoseOfEveryone(t *testing.T) {
	for _, tt := range []struct {
		anonymous string
		want      map[string]int
	}{
		{"all", map[string]int{"GET /state/q": 200, "PUT /state/q": 200, "GET /unknown": 200}},
		{"read", map[string]int{"GET /state/q": 200, "PUT /state/q": 403, "POST /consume/q": 403, "GET /livez": 200}},
		{"submit", map[string]int{"GET /state/q": 403, "POST /content/q": 200}},
	} {
		rights, err := access.ParseRights(tt.anonymous)
		must(t, err)
		g, err := access.New(access.Options{Anonymous: rights, Queue: func(string) (string, bool) { return "", false }})
		must(t, err)
		house := &gatehouse{t: t, Gate: g}
		for request, want := range tt.want {
			// Credentials mean nothing where nobody has a name.
			for _, who := range []func(*http.Request){nil, as("ann", "x")} {
				if got, header := house.ask(request, who, client); got != want || len(header) > 0 {
					t.Errorf("%s, %s: got %d, %v, want %d", tt.anonymous, request, got, header, want)
				}
			}
		}
	}
}

func TestUsersAreReadAgain(t *testing.T) {
	ann := user(t, "ann", "read", "nna")
	g := newGatehouse(t, "", ann+user(t, "bob", "read", "bob"))
	want := func(name, password string, want int) {
		t.Helper()
		if got, _ := g.ask("GET /state", as(name, password), client); got != want {
			t.Errorf("%s: got %d, want %d", name, got, want)
		}
	}
	want("ann", "nna", 200)
	want("bob", "bob", 200)

	g.write("user ann\n")
	if err := g.Reload(); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("got %v, want an error about line 1", err)
	}
	want("ann", "nna", 200)
	must(t, os.Remove(g.file))
	if err := g.Reload(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that there is no file", err)
	}
	want("bob", "bob", 200)

	g.write(user(t, "ann", "read", "other"))
	must(t, os.Chmod(g.file, 0o640))
	must(t, errors.Join(g.Reload(), g.Reload()))
	want("ann", "nna", 401)
	want("ann", "other", 200)
	want("bob", "bob", 401)
	if got, want := fmt.Sprint(g.read), "[2 false 1 true]"; got != want {
		t.Errorf("reported %s, want %s", got, want)
	}
}

func TestCallerIsWhoWasAdmitted(t *testing.T) {
	g := newGatehouse(t, "", user(t, "ann", "read,submit:ingest", "nna"))
	r := httptest.NewRequest("GET", "/state", nil)
	r.SetBasicAuth("ann", "nna")
	c, err := g.admit(http.Header{}, r, client)
	must(t, err)
	got := access.CallerOf(access.WithCaller(t.Context(), c))
	if got.Name != "ann" || !got.May(web.Read, "x") || !got.May(web.Submit, "ingest") || got.May(web.Submit, "x") {
		t.Errorf("got %+v", got)
	}
	if access.CallerOf(t.Context()).May(web.Read, "") {
		t.Error("nobody may read")
	}
	if !access.Local().May(web.Admin, "") {
		t.Error("the owner of the home may not do everything")
	}
}

func TestWrongPasswordsAreLimitedAndRightOnesRemembered(t *testing.T) {
	g := newGatehouse(t, "", user(t, "ann", "read", "nna"))
	status := func(password, from string) int {
		t.Helper()
		got, header := g.ask("GET /state", as("ann", password), from)
		if (header.Get("Retry-After") != "") != (got == 429) {
			t.Errorf("got %d with Retry-After %q", got, header.Get("Retry-After"))
		}
		return got
	}
	want := func(got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("got %d, want %d", got, want)
		}
	}
	for range 20 {
		want(status("nna", client), 200)
	}
	for range 10 {
		want(status("wrong", client), 401)
	}
	want(status("wrong", client), 429)
	want(status("nna", client), 200) // known already
	want(status("nna", "192.0.2.2"), 200)
	want(status("wrong", "192.0.2.2"), 401)

	g.now = g.now.Add(10 * time.Second)
	want(status("wrong", client), 401)
	want(status("wrong", client), 429)

	// It is forgotten in time, and then compared again.
	g.now = g.now.Add(5*time.Minute - 10*time.Second)
	for range 10 {
		want(status("wrong", client), 401)
	}
	want(status("nna", client), 429)
	want(status("nna", "2001:db8::1"), 200)

	// An IPv6 client has many addresses.
	for i := range 10 {
		want(status("wrong", fmt.Sprintf("2001:db8:1::%x", i)), 401)
	}
	want(status("wrong", "2001:db8:1::abcd"), 429)
	want(status("wrong", "2001:db8:2::1"), 401)
}

func TestGuessesAboutOneNameKeepNobodyElseOut(t *testing.T) {
	g := newGatehouse(t, "", user(t, "ann", "read", "nna")+user(t, "bob", "read", "bbo"))
	want := func(name, password, from string, want int) {
		t.Helper()
		if got, _ := g.ask("GET /state", as(name, password), from); got != want {
			t.Errorf("%s with %s from %s: got %d, want %d", name, password, from, got, want)
		}
	}
	for range 10 {
		want("ann", "wrong", client, 401)
	}
	for range 1000 { // those that are refused count for nobody
		want("ann", "wrong", client, 429)
	}
	want("ann", "nna", client, 429)
	want("bob", "bbo", client, 200)
	want("ann", "nna", "192.0.2.2", 200)

	// Names that nobody can have are one.
	for i := range 10 {
		want(fmt.Sprint("?", i), "x", client, 401)
	}
	want("?", "x", client, 429)
}

func TestGuessesAboutManyNamesAreLimited(t *testing.T) {
	g := newGatehouse(t, "", user(t, "ann", "read", "nna"))
	guess := func(name string) int {
		t.Helper()
		got, header := g.ask("GET /state", as(name, "wrong"), client)
		if retry := header.Get("Retry-After"); (retry == "1") != (got == 429) {
			t.Errorf("got %d with Retry-After %q", got, retry)
		}
		return got
	}
	for i := range 100 {
		if got := guess(fmt.Sprint("n", i)); got != 401 {
			t.Fatalf("guess %d: got %d, want 401", i, got)
		}
	}
	for range 20 { // a name whose turn does not come has lost none of its tries
		if got := guess("ann"); got != 429 {
			t.Errorf("got %d, want 429", got)
		}
	}
	for range 10 {
		g.now = g.now.Add(time.Second)
		if got := guess("ann"); got != 401 {
			t.Errorf("a second later: got %d, want 401", got)
		}
	}
	if got, _ := g.ask("GET /state", as("ann", "nna"), "192.0.2.2"); got != 200 {
		t.Errorf("from elsewhere: got %d, want 200", got)
	}
}

func TestPasswordInUseIsNoGuess(t *testing.T) {
	g := newGatehouse(t, "", user(t, "ann", "read", "nna"))
	for range 30 {
		if got, _ := g.ask("GET /state", as("ann", "nna"), client); got != 200 {
			t.Fatalf("got %d, want 200", got)
		}
		for range 30 {
			g.ask("GET /state", as("ann", "wrong"), client)
		}
		g.now = g.now.Add(3 * time.Minute)
	}
	g.now = g.now.Add(3 * time.Minute) // it was not used for longer than it is remembered
	for range 40 {
		g.ask("GET /state", as("ann", "wrong"), client)
	}
	if got, _ := g.ask("GET /state", as("ann", "nna"), client); got != 429 {
		t.Errorf("got %d, want 429", got)
	}
}

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
			must(t, err)
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
	must(t, err)
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
	must(t, err)
	for _, c := range []*access.Caller{c, access.Local()} {
		if s := g.Standing(c, http.Header{}, web.Here(web.Read), "ingest"); s != nil {
			t.Errorf("got %+v, want none", s)
		}
	}
}

func TestPagesOfOthersMayNotChangeAnything(t *testing.T) {
	lax, err := access.NewBrowser("http://queue.example:8080/base/", false)
	must(t, err)
	strict, err := access.NewBrowser("http://queue.example:8080/base/", true)
	must(t, err)
	for _, tt := range []struct {
		method, host string
		header       map[string]string
		lax, strict  int
	}{
		{"POST", "127.0.0.1:8080", nil, 0, 0},
		{"POST", "localhost:8080", map[string]string{"Origin": "http://localhost:8080"}, 0, 0},
		{"POST", "[::1]:8080", map[string]string{"Sec-Fetch-Site": "same-origin"}, 0, 0},
		{"POST", "queue.example", map[string]string{"Origin": "http://queue.example:8080"}, 0, 0},
		{"POST", "127.0.0.1:8080", map[string]string{"Origin": "http://evil.example"}, 403, 403},
		{"DELETE", "127.0.0.1:8080", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403, 403},
		{"POST", "127.0.0.1:8080", map[string]string{"Origin": "null"}, 403, 403},
		{"GET", "127.0.0.1:8080", map[string]string{"Sec-Fetch-Site": "cross-site"}, 0, 0},
		{"GET", "evil.example", nil, 0, 421},
		{"POST", "evil.example:8080", map[string]string{"Origin": "http://evil.example:8080"}, 0, 421},
		{"GET", "QUEUE.example.", nil, 0, 0},
		{"GET", "notlocalhost", nil, 0, 421},
		{"GET", "127.0.0.1.evil.example", nil, 0, 421},
	} {
		r := httptest.NewRequest(tt.method, "/content/q", nil)
		r.Host = tt.host
		for name, value := range tt.header {
			r.Header.Set(name, value)
		}
		for b, want := range map[*access.Browser]int{lax: tt.lax, strict: tt.strict} {
			got := 0
			var answer *web.Error
			if errors.As(b.Check(r), &answer) {
				got = answer.Status
			}
			if got != want {
				t.Errorf("%s %s %v, strict %v: got %d, want %d", tt.method, tt.host, tt.header, b == strict, got, want)
			}
		}
	}
}

func TestAnswersAreProtected(t *testing.T) {
	page := state.PagePolicy
	for _, tt := range []struct {
		name    string
		private bool
		header  http.Header
		want    http.Header
	}{
		{"page", false, http.Header{"Content-Type": {"application/xhtml+xml; charset=utf-8"}},
			http.Header{"Content-Type": {"application/xhtml+xml; charset=utf-8"}, "X-Content-Type-Options": {"nosniff"},
				"Referrer-Policy": {"same-origin"}, "Content-Security-Policy": {page}}},
		{"payload that is a page", false, http.Header{"Content-Type": {"text/html"}, "Content-Security-Policy": {"sandbox"}},
			http.Header{"Content-Type": {"text/html"}, "X-Content-Type-Options": {"nosniff"},
				"Referrer-Policy": {"same-origin"}, "Content-Security-Policy": {"sandbox"}}},
		{"document", false, http.Header{"Content-Type": {"application/xml"}, "Cache-Control": {"public, max-age=60, immutable"}},
			http.Header{"Content-Type": {"application/xml"}, "Cache-Control": {"public, max-age=60, immutable"}, "X-Content-Type-Options": {"nosniff"}}},
		{"document for somebody", true, http.Header{"Cache-Control": {"public, max-age=60, immutable"}},
			http.Header{"Cache-Control": {"private, max-age=60, immutable"}, "X-Content-Type-Options": {"nosniff"}}},
		{"payload for somebody", true, http.Header{"Cache-Control": {"max-age=60"}},
			http.Header{"Cache-Control": {"private, max-age=60"}, "X-Content-Type-Options": {"nosniff"}}},
		{"state for somebody", true, http.Header{"Cache-Control": {"no-store"}},
			http.Header{"Cache-Control": {"no-store"}, "X-Content-Type-Options": {"nosniff"}}},
		{"nothing said for somebody", true, http.Header{}, http.Header{"X-Content-Type-Options": {"nosniff"}, "Cache-Control": {"private"}}},
	} {
		if access.Protect(tt.header, tt.private); !reflect.DeepEqual(tt.header, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, tt.header, tt.want)
		}
	}
}

func TestClientIsWhatTrustedProxiesSay(t *testing.T) {
	var proxies access.Proxies
	for _, text := range []string{"10.0.0.0/8", "::1", "192.0.2.7"} {
		p, err := access.ParseProxy(text)
		must(t, err)
		proxies = append(proxies, p)
	}
	for _, text := range []string{"", "proxy.example", "10.0.0.0/33", "fe80::1%eth0"} {
		if p, err := access.ParseProxy(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, p)
		}
	}
	for _, tt := range []struct {
		from string
		said []string
		want string
	}{
		{"203.0.113.5:99", []string{"198.51.100.1"}, "203.0.113.5"}, // no proxy of ours
		{"10.1.2.3:99", nil, "10.1.2.3"},
		{"10.1.2.3:99", []string{"198.51.100.1"}, "198.51.100.1"},
		{"10.1.2.3:99", []string{"6.6.6.6, 198.51.100.1"}, "198.51.100.1"}, // the first is invented
		{"10.1.2.3:99", []string{"6.6.6.6", "198.51.100.1, 192.0.2.7"}, "198.51.100.1"},
		{"[::1]:99", []string{"2001:db8::1"}, "2001:db8::1"},
		{"[::1]:99", []string{"[2001:db8::1]:443"}, "2001:db8::1"},
		{"[::ffff:10.1.2.3]:99", []string{"198.51.100.1:1234"}, "198.51.100.1"},
		{"10.1.2.3:99", []string{"198.51.100.1, unknown"}, "10.1.2.3"},
		{"10.1.2.3:99", []string{"10.9.9.9"}, "10.9.9.9"},
		{"@", nil, "invalid IP"},
	} {
		r := &http.Request{RemoteAddr: tt.from, Header: http.Header{"X-Forwarded-For": tt.said}}
		if got := proxies.Client(r).String(); got != tt.want {
			t.Errorf("%s %q: got %s, want %s", tt.from, tt.said, got, tt.want)
		}
	}
}

func TestCrowdOfOneClientIsLimited(t *testing.T) {
	c := access.NewCrowd(2)
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for i, want := range []bool{true, true, false} {
		if got := c.Enter(a); got != want {
			t.Errorf("%d: got %v, want %v", i, got, want)
		}
	}
	if !c.Enter(b) {
		t.Error("another client may not wait")
	}
	c.Leave(a)
	if !c.Enter(a) || c.Enter(a) {
		t.Error("one that left makes not one place")
	}
}

// fill takes places until there is none for the client, and tells how many.
func fill(p *access.Places, client string) int {
	n := 0
	for n < 1000 && p.Take(netip.MustParseAddr(client)) {
		n++
	}
	return n
}

func TestPlacesAreShared(t *testing.T) {
	for max, want := range map[int][]int{
		1:   {1},
		2:   {1, 1},
		3:   {2, 1},
		100: {50, 25, 13, 6, 3, 2, 1},
	} {
		p := &access.Places{Max: max}
		for i, want := range want {
			client := fmt.Sprint("192.0.2.", i)
			if got := fill(p, client); got != want {
				t.Errorf("client %d of %d places: got %d, want %d", i, max, got, want)
			}
		}
	}
}

func TestPlacesGivenBackAreSharedAgain(t *testing.T) {
	p := &access.Places{Max: 100}
	greedy := netip.MustParseAddr("192.0.2.1")
	for range 3 {
		got := [2]int{fill(p, "192.0.2.1"), fill(p, "192.0.2.2")}
		if want := [2]int{50, 25}; got != want {
			t.Errorf("got %v, want %v", got, want)
		}
		for range 50 {
			p.Leave(greedy)
		}
		for range 25 {
			p.Leave(netip.MustParseAddr("192.0.2.2"))
		}
	}
}

func TestPlacesKnowWhoIsOneClient(t *testing.T) {
	p := &access.Places{Max: 100}
	if got := [2]int{fill(p, "2001:db8::1"), fill(p, "2001:db8::2")}; got != [2]int{50, 0} {
		t.Errorf("one network: got %v, want 50 and none", got)
	}
	if got := fill(p, "2001:db8:0:1::1"); got != 25 {
		t.Errorf("another network: got %d, want 25", got)
	}
	p = &access.Places{Max: 100}
	if got := [2]int{fill(p, "192.0.2.1"), fill(p, "::ffff:192.0.2.1")}; got != [2]int{50, 0} {
		t.Errorf("mapped address: got %v, want 50 and none", got)
	}
}

func TestTrustedProxyGetsWhatIsFree(t *testing.T) {
	proxy, err := access.ParseProxy("192.0.2.0/28")
	must(t, err)
	p := &access.Places{Max: 100, Trusted: access.Proxies{proxy}}
	for range 99 {
		if !p.Take(netip.MustParseAddr("::ffff:192.0.2.1")) {
			t.Fatal("the proxy is refused")
		}
	}
	if got := fill(p, "192.0.2.200"); got != 1 {
		t.Errorf("got %d for another, want the last", got)
	}
}

func TestManyPlacesAreTakenAtOnceOrNot(t *testing.T) {
	p := &access.Places{Max: 100}
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for _, tt := range []struct {
		client netip.Addr
		n      int
		want   bool
	}{{a, 51, false}, {a, 30, true}, {a, 21, false}, {a, 20, true}, {b, 26, false}, {b, 25, true}, {a, 1, false}} {
		if got := p.TakeMany(tt.client, tt.n); got != tt.want {
			t.Errorf("%v takes %d: got %v, want %v", tt.client, tt.n, got, tt.want)
		}
	}
	p.LeaveMany(a, 50)
	p.LeaveMany(b, 25)
	if p.Taken() != 0 || !p.TakeMany(b, 50) {
		t.Errorf("given back: %d are taken", p.Taken())
	}
}

// Who subscribed is known by the name or the token itself, not by the name of the token.
func TestACallerIsKnownLaterByAWord(t *testing.T) {
	secret, hash := access.NewToken()
	file := filepath.Join(t.TempDir(), "users.txt")
	edit := func(change func(*access.Users) error) {
		t.Helper()
		if err := access.Edit(file, change); err != nil {
			t.Fatal(err)
		}
	}
	edit(func(u *access.Users) error {
		if err := u.Add(access.User{Name: "ann", Rights: access.Rights{{Right: web.Read}}}); err != nil {
			return err
		}
		return u.AddToken(access.Token{Name: "laptop", User: "ann", Hash: hash})
	})
	g, err := access.New(access.Options{Users: file})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/hub", nil)
	r.Header.Set("Authorization", "Bearer "+secret)
	caller, err := g.Admit(http.Header{}, r, web.Everywhere(web.Read), "", netip.Addr{})
	if err != nil {
		t.Fatal(err)
	}
	r = r.WithContext(access.WithCaller(r.Context(), caller))
	by := g.WordOf(r)
	if !g.MayStill(by, web.Read, "jobs") || g.MayStill(by, web.Submit, "jobs") {
		t.Errorf("%s may not read, or more", by)
	}
	edit(func(u *access.Users) error { return u.RemoveToken("laptop") })
	// Who was let in a moment before asks a moment after.
	for _, word := range []string{by, g.WordOf(r)} {
		if g.MayStill(word, web.Read, "jobs") {
			t.Errorf("%s may read by a token that was taken away", word)
		}
	}
	_, other := access.NewToken()
	edit(func(u *access.Users) error {
		return u.AddToken(access.Token{Name: "laptop", User: "ann", Hash: other})
	})
	if g.MayStill(by, web.Read, "jobs") {
		t.Errorf("%s may read by another token of the name", by)
	}
	if !g.MayStill("user ann", web.Read, "jobs") || g.MayStill("user bob", web.Read, "jobs") || g.MayStill("anonymous", web.Read, "jobs") {
		t.Error("a user with the right may not read, or others may")
	}
}
