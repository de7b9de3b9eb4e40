package access

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"

	"cutie/queuefs/web"
)

// A book is a state of the users file. It never changes, except for remembered
// passwords.
type book struct {
	users  map[string]*User
	tokens map[[sha256.Size]byte]*Token
	dummy  []byte          // hash compared for unknown names
	over   context.Context // ends when there is another book
	close  context.CancelFunc

	mu       sync.Mutex
	verified map[[sha256.Size]byte]time.Time // until when a name and password are known to be right
}

const (
	// A try every ten seconds, after ten at once, is enough for a person; all clients
	// of an address together have ten times more.
	loginBurst  = 10
	loginEvery  = 10 * time.Second
	clientBurst = 10 * loginBurst
	clientEvery = loginEvery / 10

	rememberFor  = 5 * time.Minute
	maxRemember  = 10_000 // passwords, and failed clients and names
	hashesAtOnce = 2
	hashesQueued = 1000
)

// Reload reads the users file if it has changed. After an error everything stays as
// it was, and the next Reload tries again. Removed rights are refused from the next
// request on.
func (g *Gate) Reload() error {
	if g.o.Users == "" {
		return nil
	}
	g.reading.Lock()
	defer g.reading.Unlock()
	if err := g.reload(); err != nil {
		if g.book.Load() != nil {
			return fmt.Errorf("users: %w; those known before stay", err)
		}
		return fmt.Errorf("users: %w", err)
	}
	return nil
}

func (g *Gate) reload() error {
	stamp, err := StampOf(g.o.Users)
	if err != nil {
		return err
	}
	if stamp == g.stamp {
		return nil
	}
	u, wide, err := Load(g.o.Users)
	if err != nil {
		return err
	}
	b := &book{users: map[string]*User{}, tokens: map[[sha256.Size]byte]*Token{}, verified: map[[sha256.Size]byte]time.Time{}}
	cost := bcrypt.MinCost
	for _, user := range u.Users() {
		b.users[user.Name] = &user
		if c, err := bcrypt.Cost([]byte(user.Password)); err == nil {
			cost = max(cost, c)
		}
	}
	// Comparing it takes as long as for known names. No password has this hash.
	b.dummy = fmt.Appendf(nil, "$2a$%02d$%s", cost, strings.Repeat(".", 53))
	for _, t := range u.Tokens() {
		b.tokens[t.Hash] = &t
	}
	b.over, b.close = context.WithCancel(context.Background())
	if old := g.book.Swap(b); old != nil {
		old.close()
	}
	g.stamp = stamp
	if g.o.Report != nil {
		g.o.Report(len(b.users), wide)
	}
	return nil
}

// nobody reports whether a request has credentials without a name and a password:
// some clients send these when people enter nothing.
func nobody(r *http.Request) bool {
	name, password, ok := r.BasicAuth()
	return ok && name == "" && password == ""
}

// byToken finds the caller of a bearer token in a request; is is false if there is none. The
// caller is nil if the token is not known, or has expired.
func (g *Gate) byToken(b *book, r *http.Request) (caller *Caller, is bool) {
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return nil, false
	}
	return b.callerOf(&proof{token: sha256.Sum256([]byte(strings.TrimSpace(secret)))}, "", g.o.Now()), true
}

// identify finds the caller of the credentials in a request.
func (g *Gate) identify(header http.Header, b *book, r *http.Request, client netip.Addr) (*Caller, error) {
	if caller, is := g.byToken(b, r); is {
		if caller == nil {
			return nil, challenge(header, `, error="invalid_token"`, "token is not known, or has expired")
		}
		return caller, nil
	}
	name, password, ok := r.BasicAuth()
	if !ok {
		return nil, challenge(header, "", "credentials are neither Basic nor Bearer")
	}
	ok, err := g.verify(r.Context(), header, b, name, password, client)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, challenge(header, "", "name or password is wrong")
	}
	return b.callerOf(&proof{password: b.users[name].Password}, name, g.o.Now()), nil
}

// recognized returns the caller of the credentials in a request without comparing a
// password; nil if that would be needed.
func (g *Gate) recognized(b *book, r *http.Request) *Caller {
	if caller, is := g.byToken(b, r); is {
		return caller
	}
	name, password, ok := r.BasicAuth()
	if !ok || name == "" || !b.knows(g.sumOf(name, password), g.o.Now()) {
		return nil
	}
	return b.callerOf(&proof{password: b.users[name].Password}, name, g.o.Now())
}

// sumOf is a name and a password as they are remembered.
func (g *Gate) sumOf(name, password string) (sum [sha256.Size]byte) {
	mac := hmac.New(sha256.New, g.key[:])
	fmt.Fprintf(mac, "%d %s %s", len(name), name, password)
	mac.Sum(sum[:0])
	return sum
}

// callerOf returns the caller with a token, or with the name and the hash of a
// password; nil if there is none now.
func (b *book) callerOf(by *proof, name string, now time.Time) *Caller {
	c := &Caller{Name: name, proof: *by}
	c.proof.book = b
	if by.token != [sha256.Size]byte{} {
		t := b.tokens[by.token]
		if t == nil || !t.Expires.IsZero() && !now.Before(t.Expires) {
			return nil
		}
		c.Name, c.narrow, c.token, c.expires = t.User, t.Rights, t.Narrow, t.Expires
	}
	u := b.users[c.Name]
	if u == nil || by.token == [sha256.Size]byte{} && u.Password != by.password {
		return nil
	}
	c.rights, c.limits = u.Rights, u.Limits
	return c
}

// knows reports whether a name and password were right a few minutes ago, or have
// been in use since then.
func (b *book) knows(sum [sha256.Size]byte, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	left := b.verified[sum].Sub(now)
	if left <= 0 {
		return false
	}
	if left < rememberFor/2 {
		b.verified[sum] = now.Add(rememberFor)
	}
	return true
}

// verify compares a password, which takes a twentieth of a second. A right one is
// remembered, as a keyed hash, until it was not used for some minutes.
func (g *Gate) verify(ctx context.Context, header http.Header, b *book, name, password string, client netip.Addr) (bool, error) {
	sum := g.sumOf(name, password)
	now := g.o.Now()
	if b.knows(sum, now) {
		return true, nil
	}
	by := loginOf(client, name)
	if wait := g.wrong.try(by, now); wait > 0 {
		seconds := int(math.Ceil(wait.Seconds()))
		header.Set("Retry-After", strconv.Itoa(seconds))
		return false, &web.Error{Status: http.StatusTooManyRequests,
			Message: fmt.Sprintf("too many wrong passwords from this address, try again in %d s", seconds)}
	}
	leave, err := g.turn(ctx, by)
	if errors.Is(err, errCrowded) {
		g.wrong.giveBack(by)
		header.Set("Retry-After", "10")
		return false, &web.Error{Status: http.StatusServiceUnavailable, Message: "too many people log in at once"}
	}
	if err != nil {
		return false, err
	}
	defer leave()
	hash := b.dummy
	if u := b.users[name]; u != nil && u.Password != "" {
		hash = []byte(u.Password)
	}
	err = bcrypt.CompareHashAndPassword(hash, []byte(password))
	if u := b.users[name]; err != nil || u == nil || u.Password == "" {
		return false, nil
	}
	g.wrong.giveBack(by)
	g.remember(by)
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.verified) >= maxRemember {
		clear(b.verified)
	}
	b.verified[sum] = now.Add(rememberFor)
	return true, nil
}

// turn waits until a password may be compared. A user who was right at this address before
// has a place that no stranger takes, however many addresses guess at once.
func (g *Gate) turn(ctx context.Context, by login) (leave func(), err error) {
	g.met.Lock()
	own := g.own[by]
	g.met.Unlock()
	if !own {
		if err := g.hashes.wait(ctx, by.client); err != nil {
			return nil, err
		}
		return g.hashes.leave, nil
	}
	if g.hashes.try() {
		return g.hashes.leave, nil
	}
	select {
	case g.kept <- struct{}{}:
		return func() { <-g.kept }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// remember notes that a user was right at an address.
func (g *Gate) remember(by login) {
	g.met.Lock()
	defer g.met.Unlock()
	for known := range g.own {
		if len(g.own) < maxRemember {
			break
		}
		delete(g.own, known)
	}
	g.own[by] = true
}

// A proof is how a caller was identified.
type proof struct {
	book     *book             // at that time
	token    [sha256.Size]byte // hash of the token, zero for a password
	password string            // hash of the password in the book
}

// WordOf returns a word for the caller of an admitted request, by which [Gate.MayStill] knows
// the caller for as long as the users file does:
//
//	user NAME    by name and password
//	token HASH   by a token, as the users file has it
//	anonymous    without a name
//
// A removed token stays unknown, even if another one gets its name. There is no word for the
// owner of the home, who came through its socket.
func (g *Gate) WordOf(r *http.Request) string {
	caller := CallerOf(r.Context())
	switch {
	case caller.proof.token != [sha256.Size]byte{}:
		return fmt.Sprintf("token %x", caller.proof.token)
	case caller.Name != "":
		return "user " + caller.Name
	case caller.May(web.Admin, "") && !g.o.Anonymous.Allow(web.Admin, ""):
		return ""
	}
	return "anonymous"
}

// MayStill reports whether the caller with a word has a right for a queue now. The rights of
// everybody count too.
func (g *Gate) MayStill(word string, right web.Right, queue string) bool {
	if g.o.Anonymous.Allow(right, queue) {
		return true
	}
	_ = g.Reload() // the daemon reads it too, and says what is wrong with it
	b := g.book.Load()
	if b == nil {
		return false
	}
	switch kind, name, _ := strings.Cut(word, " "); kind {
	case "token":
		sum, err := hex.DecodeString(name)
		if err != nil || len(sum) != sha256.Size {
			return false
		}
		caller := b.callerOf(&proof{token: [sha256.Size]byte(sum)}, "", g.o.Now())
		return caller != nil && caller.May(right, queue)
	case "user":
		u := b.users[name]
		return u != nil && u.Rights.Allow(right, queue)
	}
	return false
}

// A standing is the right of a caller with a name for one request. It implements
// [web.Standing].
type standing struct {
	gate   *Gate
	caller *Caller
	need   web.Need
	queue  string
	header http.Header // of the answer
}

// Standing returns the standing of the caller of an admitted request, nil if the right
// lasts as long as the daemon. Its Still may add to header.
func (g *Gate) Standing(caller *Caller, header http.Header, need web.Need, queue string) web.Standing {
	if caller.proof.book == nil || need.Right == 0 {
		return nil
	}
	return &standing{g, caller, need, queue, header}
}

// Still reads the users file again if it has changed.
func (s *standing) Still() error {
	_ = s.gate.Reload() // the daemon reads it too, and says what is wrong with it
	return s.check(s.header)
}

// check asks the book of the moment.
func (s *standing) check(header http.Header) error {
	b, now := s.gate.book.Load(), s.gate.o.Now()
	if t := s.caller.expires; b == s.caller.proof.book && (t.IsZero() || now.Before(t)) {
		return nil
	}
	caller := b.callerOf(&s.caller.proof, s.caller.Name, now)
	if caller == nil {
		return challenge(header, `, error="invalid_token"`, "the name and password or the token has gone, or has expired")
	}
	if !s.gate.Allows(caller, s.need, s.queue) {
		return s.gate.refuse(header, caller, s.need)
	}
	return nil
}

// While watches each new book. The cause of the end is the error of Still.
func (s *standing) While(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	cancel := func() { end(nil) }
	if t := s.caller.expires; !t.IsZero() {
		timed, stop := context.WithDeadline(ctx, t)
		ctx, cancel = timed, func() { stop(); end(nil) }
	}
	w := &watch{standing: s, end: end}
	w.follow(s.caller.proof.book)
	return ctx, func() {
		w.close()
		cancel()
	}
}

// A watch ends a context with the right.
type watch struct {
	*standing
	end context.CancelCauseFunc

	mu     sync.Mutex
	closed bool
	stop   func() bool
}

// follow asks again at the end of a book.
func (w *watch) follow(b *book) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.stop = context.AfterFunc(b.over, func() {
		// The next book is open before this one ends.
		next := w.gate.book.Load()
		if err := w.check(http.Header{}); err != nil {
			w.end(err)
			return
		}
		w.follow(next)
	})
}

func (w *watch) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.stop()
}
