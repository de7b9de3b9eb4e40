package daemon

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"cutie/cmd/cutie/access"
	"cutie/queuefs/web"
)

// A register knows subscribers by a word in their subscription, and whether they
// may still read:
//
//	user NAME    by name and password
//	token HASH   by a token, as the users file has it
//	anonymous    without a name
//
// A removed token stays unknown, even if another one gets its name. Subscribers
// through the socket of the home have no word, and may read.
type register struct {
	file      string // of users; "" if nobody has a name
	anonymous access.Rights

	mu    sync.Mutex
	stamp access.Stamp
	users *access.Users
}

// openRegister reads the users file.
func openRegister(o access.Options) (*register, error) {
	g := &register{file: o.Users, anonymous: o.Anonymous, users: new(access.Users)}
	return g, g.reload()
}

// reload reads the users file if it has changed; g.mu is held but on opening.
// After an error the known users stay.
func (g *register) reload() error {
	if g.file == "" {
		return nil
	}
	stamp, err := access.StampOf(g.file)
	if err != nil || stamp == g.stamp {
		return err
	}
	users, _, err := access.Load(g.file)
	if err != nil {
		return err
	}
	g.users, g.stamp = users, stamp
	return nil
}

// known returns the users as the file has them, or had them when it was last
// read.
func (g *register) known() *access.Users {
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = g.reload() // the gate reads the same file, and says what is wrong with it
	return g.users
}

// who returns the word for the caller of an admitted request.
func (g *register) who(r *http.Request) string {
	caller := access.CallerOf(r.Context())
	if caller.Name == "" {
		if caller.May(web.Admin, "") && !g.anonymous.Allow(web.Admin, "") {
			return ""
		}
		return "anonymous"
	}
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "user " + caller.Name
	}
	return fmt.Sprintf("token %x", sha256.Sum256([]byte(strings.TrimSpace(secret))))
}

// may reports whether a subscriber may read a queue now. The rights of everybody
// count too.
func (g *register) may(who, queue string) bool {
	users := g.known()
	kind, name, _ := strings.Cut(who, " ")
	switch {
	case g.anonymous.Allow(web.Read, queue):
		return true
	case kind == "token":
		t, ok := users.TokenOf(name)
		if !ok || !t.Expires.IsZero() && !time.Now().Before(t.Expires) || t.Narrow && !t.Rights.Allow(web.Read, queue) {
			return false
		}
		name = t.User
	case kind != "user":
		return false
	}
	u, ok := users.User(name)
	return ok && u.Rights.Allow(web.Read, queue)
}
