package access

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/crypto/bcrypt"

	"cutie/queuefs"
)

// A User is somebody with a name.
type User struct {
	Name     string
	Rights   Rights
	Password string         // bcrypt hash; "" for a user with tokens only
	Limits   queuefs.Limits // in each queue; those not set are of the queue
}

// A Token stands for a user and needs no password.
type Token struct {
	Name    string // of the token; no two are alike
	User    string
	Narrow  bool      // Rights hold; otherwise the user's do
	Rights  Rights    // of the token, as far as the user has them
	Expires time.Time // zero: never
	Hash    [sha256.Size]byte
}

// Users are the contents of a users file. The zero value is an empty file.
type Users struct {
	lines []line
}

// A line holds a user, a token, or text.
type line struct {
	text  string // comment or nothing
	user  *User
	token *Token
}

// A ParseError is a mistake in a line of a users file.
type ParseError struct {
	Line int // from 1
	Err  error
}

func (e *ParseError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }
func (e *ParseError) Unwrap() error { return e.Err }

// Errors of changes to users.
var (
	ErrExists  = errors.New("exists already")
	ErrMissing = errors.New("does not exist")
)

// ParseUsers reads the text of a users file.
func ParseUsers(text []byte) (*Users, error) {
	u := &Users{}
	users, tokens := map[string]bool{}, map[string]bool{}
	n := 0
	for row := range bytes.Lines(text) {
		n++
		l, err := parseLine(strings.TrimRight(string(row), "\r\n"))
		switch {
		case err != nil:
		case l.user != nil:
			if users[l.user.Name] {
				err = fmt.Errorf("user %s is repeated", l.user.Name)
			}
			users[l.user.Name] = true
		case l.token != nil:
			if tokens[l.token.Name] {
				err = fmt.Errorf("token %s is repeated", l.token.Name)
			}
			tokens[l.token.Name] = true
		}
		if err != nil {
			return nil, &ParseError{n, err}
		}
		u.lines = append(u.lines, l)
	}
	for i, l := range u.lines {
		if l.token != nil && !users[l.token.User] {
			return nil, &ParseError{i + 1, fmt.Errorf("token %s is for %s, who is no user", l.token.Name, l.token.User)}
		}
	}
	return u, nil
}

func parseLine(text string) (l line, err error) {
	f := strings.Fields(text)
	switch {
	case len(f) == 0 || f[0][0] == '#':
		return line{text: text}, nil
	case f[0] == "user" && (len(f) == 4 || len(f) == 5):
		l.user, err = parseUser(f[1:])
	case f[0] == "token" && len(f) == 6:
		l.token, err = parseToken(f[1:])
	default:
		err = errors.New("neither user NAME RIGHTS PASSWORD LIMITS nor token NAME USER RIGHTS EXPIRES HASH")
	}
	return l, err
}

func parseUser(f []string) (*User, error) {
	if err := CheckName(f[0]); err != nil {
		return nil, err
	}
	rights, err := ParseRights(f[1])
	if err != nil {
		return nil, err
	}
	u := &User{Name: f[0], Rights: rights}
	if len(f) == 4 {
		if u.Limits, err = queuefs.ParseLimits(f[3]); err != nil {
			return nil, err
		}
	}
	if f[2] == "-" {
		return u, nil
	}
	// Comparing some hashes would take minutes and block everybody.
	cost, err := bcrypt.Cost([]byte(f[2]))
	if err != nil || cost > maxCost || len(f[2]) != 60 {
		return nil, fmt.Errorf("password of %s is no bcrypt hash of cost %d at most", u.Name, maxCost)
	}
	u.Password = f[2]
	return u, nil
}

func parseToken(f []string) (*Token, error) {
	if err := errors.Join(CheckName(f[0]), CheckName(f[1])); err != nil {
		return nil, err
	}
	t := &Token{Name: f[0], User: f[1]}
	var err error
	if f[2] != "same" {
		t.Narrow = true
		if t.Rights, err = ParseRights(f[2]); err != nil {
			return nil, err
		}
	}
	if f[3] != "never" {
		if t.Expires, err = time.Parse(expiresForm, f[3]); err != nil {
			return nil, fmt.Errorf("expiry %.40q is neither never nor a time like %s", f[3], expiresForm)
		}
	}
	hash, err := hex.DecodeString(f[4])
	if err != nil || len(hash) != sha256.Size {
		return nil, fmt.Errorf("hash of token %s is no SHA-256", t.Name)
	}
	copy(t.Hash[:], hash)
	return t, nil
}

const (
	expiresForm = "2006-01-02T15:04:05Z"
	maxCost     = 15
	maxName     = 64
)

// CheckName reports an error unless the name fits a user or a token: up to 64
// letters, digits and . _ @ + - of ASCII, a letter or digit first.
func CheckName(name string) error {
	ok := name != "" && len(name) <= maxName
	for i := 0; ok && i < len(name); i++ {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		default:
			ok = i > 0 && strings.IndexByte("._@+-", c) >= 0
		}
	}
	if !ok {
		return fmt.Errorf("name %.70q is not 1 to %d letters, digits and . _ @ + -, a letter or digit first", name, maxName)
	}
	return nil
}

// String returns the file.
func (u *Users) String() string {
	var b strings.Builder
	for _, l := range u.lines {
		switch {
		case l.user != nil:
			password := l.user.Password
			if password == "" {
				password = "-"
			}
			fmt.Fprintf(&b, "user %s %s %s", l.user.Name, l.user.Rights, password)
			if l.user.Limits != (queuefs.Limits{}) {
				b.WriteString(" " + l.user.Limits.String())
			}
			b.WriteByte('\n')
		case l.token != nil:
			t := l.token
			fmt.Fprintf(&b, "token %s %s %s %s %x\n", t.Name, t.User, t.RightsText(), t.ExpiresText(), t.Hash)
		default:
			b.WriteString(l.text + "\n")
		}
	}
	return b.String()
}

// RightsText returns the rights as they stand in the file.
func (t *Token) RightsText() string {
	if !t.Narrow {
		return "same"
	}
	return t.Rights.String()
}

// ExpiresText returns the expiry as it stands in the file.
func (t *Token) ExpiresText() string {
	if t.Expires.IsZero() {
		return "never"
	}
	return t.Expires.UTC().Format(expiresForm)
}

// User returns a user by name.
func (u *Users) User(name string) (User, bool) {
	for _, l := range u.lines {
		if l.user != nil && l.user.Name == name {
			return *l.user, true
		}
	}
	return User{}, false
}

// Token returns a token by name.
func (u *Users) Token(name string) (Token, bool) {
	for _, l := range u.lines {
		if l.token != nil && l.token.Name == name {
			return *l.token, true
		}
	}
	return Token{}, false
}

// TokenOf returns a token by its hash, in the hexadecimal digits of the file.
func (u *Users) TokenOf(hash string) (Token, bool) {
	for _, l := range u.lines {
		if l.token != nil && hex.EncodeToString(l.token.Hash[:]) == hash {
			return *l.token, true
		}
	}
	return Token{}, false
}

// Users returns the users in the order of the file.
func (u *Users) Users() (list []User) {
	for _, l := range u.lines {
		if l.user != nil {
			list = append(list, *l.user)
		}
	}
	return list
}

// Tokens returns the tokens in the order of the file.
func (u *Users) Tokens() (list []Token) {
	for _, l := range u.lines {
		if l.token != nil {
			list = append(list, *l.token)
		}
	}
	return list
}

// Add adds a user, or returns ErrExists.
func (u *Users) Add(user User) error {
	if err := CheckName(user.Name); err != nil {
		return err
	}
	if _, ok := u.User(user.Name); ok {
		return ErrExists
	}
	u.lines = append(u.lines, line{user: &user})
	return nil
}

// Set replaces the user of that name, or returns ErrMissing.
func (u *Users) Set(user User) error {
	for i, l := range u.lines {
		if l.user != nil && l.user.Name == user.Name {
			u.lines[i].user = &user
			return nil
		}
	}
	return ErrMissing
}

// Remove takes a user and the user's tokens out, or returns ErrMissing.
func (u *Users) Remove(name string) error {
	return u.remove(func(l line) bool {
		return l.user != nil && l.user.Name == name || l.token != nil && l.token.User == name
	})
}

// AddToken adds a token of a user who exists, or returns ErrMissing or
// ErrExists.
func (u *Users) AddToken(t Token) error {
	if err := CheckName(t.Name); err != nil {
		return err
	}
	if _, ok := u.User(t.User); !ok {
		return fmt.Errorf("user %s %w", t.User, ErrMissing)
	}
	if _, ok := u.Token(t.Name); ok {
		return fmt.Errorf("token %s %w", t.Name, ErrExists)
	}
	u.lines = append(u.lines, line{token: &t})
	return nil
}

// RemoveToken takes a token out, or returns ErrMissing.
func (u *Users) RemoveToken(name string) error {
	return u.remove(func(l line) bool { return l.token != nil && l.token.Name == name })
}

func (u *Users) remove(which func(line) bool) error {
	kept := u.lines[:0:0]
	for _, l := range u.lines {
		if !which(l) {
			kept = append(kept, l)
		}
	}
	if len(kept) == len(u.lines) {
		return ErrMissing
	}
	u.lines = kept
	return nil
}
