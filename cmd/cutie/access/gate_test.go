package access_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"cutie/cmd/cutie/access"
	"cutie/queuefs/rest"
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
	if err := os.WriteFile(g.file+".new", []byte(users), 0o600); err != nil {
		g.t.Fatal(err)
	}
	if err := os.Rename(g.file+".new", g.file); err != nil {
		g.t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
		g, err := access.New(access.Options{Anonymous: rights, Queue: func(string) (string, bool) { return "", false }})
		if err != nil {
			t.Fatal(err)
		}
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
	if err := os.Remove(g.file); err != nil {
		t.Fatal(err)
	}
	if err := g.Reload(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that there is no file", err)
	}
	want("bob", "bob", 200)

	g.write(user(t, "ann", "read", "other"))
	if err := os.Chmod(g.file, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(g.Reload(), g.Reload()); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
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
