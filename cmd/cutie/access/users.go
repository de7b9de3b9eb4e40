package access

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/bcrypt"

	"cutie/queuefs/job"
	"cutie/queuefs/web"
)

// A User is somebody with a name.
type User struct {
	Name     string
	Rights   Rights
	Password string     // bcrypt hash; "" for a user with tokens only
	Limits   job.Limits // in each queue; those not set are of the queue
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
		if u.Limits, err = job.ParseLimits(f[3]); err != nil {
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
			if l.user.Limits != (job.Limits{}) {
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

// find returns the first value that ok accepts.
func find[T any](all []T, ok func(T) bool) (value T, there bool) {
	if i := slices.IndexFunc(all, ok); i >= 0 {
		return all[i], true
	}
	return value, false
}

// User returns a user by name.
func (u *Users) User(name string) (User, bool) {
	return find(u.Users(), func(user User) bool { return user.Name == name })
}

// Token returns a token by name.
func (u *Users) Token(name string) (Token, bool) {
	return find(u.Tokens(), func(t Token) bool { return t.Name == name })
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
	before := len(u.lines)
	if u.lines = slices.DeleteFunc(u.lines, which); len(u.lines) == before {
		return ErrMissing
	}
	return nil
}

// maxFile is the size of a users file, in octets.
const maxFile = 4 << 20

// ErrEmpty: the users file has not even a comment. A disk that was full or a crash leaves
// such files, and nobody could log in.
var ErrEmpty = errors.New("it is empty, as after damage; a comment in it says that there are no users")

// noUsers is the users file without users, and without comments of others.
const noUsers = "# no users\n"

// Load reads a users file. wide is true if others than its owner may read or write
// it. The error wraps [ErrEmpty] for an empty file.
func Load(name string) (u *Users, wide bool, err error) {
	f, err := open(name)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	if u, wide, err = read(f); err == nil && strings.TrimSpace(u.String()) == "" {
		return nil, false, fmt.Errorf("%s: %w", name, ErrEmpty)
	}
	return u, wide, err
}

// ReadFile reads a regular file of max octets at most. Other files, such as a pipe
// without a writer, are an error at once.
func ReadFile(name string, max int64) ([]byte, error) {
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, _, err := readAll(f, max)
	return text, err
}

// ErrNoFile says that a name is that of a directory, a pipe or the like.
var ErrNoFile = errors.New("is no regular file")

// open does not wait for the other end of a pipe.
func open(name string) (*os.File, error) { return os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) }

func readAll(f *os.File, max int64) ([]byte, fs.FileInfo, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s %w", f.Name(), ErrNoFile)
	}
	text, err := io.ReadAll(io.LimitReader(f, max+1))
	if err == nil && int64(len(text)) > max {
		err = fmt.Errorf("%s has more than %d octets", f.Name(), max)
	}
	return text, info, err
}

func read(f *os.File) (u *Users, wide bool, err error) {
	text, info, err := readAll(f, maxFile)
	if err != nil {
		return nil, false, err
	}
	if u, err = ParseUsers(text); err != nil {
		return nil, false, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return u, info.Mode().Perm()&0o077 != 0, nil
}

// Edit changes a users file, or makes it. Edits wait for each other, in other
// processes too. The new file has the mode 0600, and is whole and on stable storage
// when Edit returns. An error of change is returned, and the file stays as it is.
func Edit(name string, change func(*Users) error) (err error) {
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real
	}
	f, err := lockFile(name)
	if err != nil {
		return err
	}
	defer f.Close() // releases the lock
	u, _, err := read(f)
	if err != nil {
		return err
	}
	if err := change(u); err != nil {
		return err
	}
	// The new text must be readable.
	text := []byte(cmp.Or(u.String(), noUsers))
	if len(text) > maxFile {
		return fmt.Errorf("%s would have more than %d octets", name, maxFile)
	}
	if _, err := ParseUsers(text); err != nil {
		return err
	}
	return replace(name, text, f)
}

// lockFile opens the file for an edit. The lock is on the file itself; after waiting
// for it, the file of this name may be another one.
func lockFile(name string) (*os.File, error) {
	for {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), f.Close())
		}
		mine, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if there, err := os.Stat(name); err == nil && os.SameFile(mine, there) {
			return f, nil
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.Join(err, f.Close())
		}
		f.Close()
	}
}

// replace gives name the new text and keeps its owner, so that a daemon of another
// user can still read it.
func replace(name string, text []byte, old *os.File) (err error) {
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	temp := filepath.Join(dir.Name(), "."+filepath.Base(name)+"-"+rand.Text())
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, giveTo(f, old), f.Sync(), f.Close()); err == nil {
		err = os.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return dir.Sync()
}

// giveTo gives f the owner of another file.
func giveTo(f, other *os.File) error {
	mine, err := f.Stat()
	if err != nil {
		return err
	}
	theirs, err := other.Stat()
	if err != nil {
		return err
	}
	m, t := mine.Sys().(*syscall.Stat_t), theirs.Sys().(*syscall.Stat_t)
	if m.Uid == t.Uid && m.Gid == t.Gid {
		return nil
	}
	return f.Chown(int(t.Uid), int(t.Gid))
}

// MaxPassword is the most octets of a password; bcrypt ignores more.
const MaxPassword = 72

// HashPassword returns the hash of a password for the users file.
func HashPassword(password string) (string, error) {
	switch {
	case password == "":
		return "", errors.New("password is empty")
	case len(password) > MaxPassword:
		return "", fmt.Errorf("password has %d octets, more than %d", len(password), MaxPassword)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.DefaultCost)
	return string(hash), err
}

// tokenPrefix lets people and scanners recognize a stray token.
const tokenPrefix = "cutie_"

// NewToken returns a token of 256 random bits, and its hash for the users file.
func NewToken() (secret string, hash [sha256.Size]byte) {
	var b [32]byte
	rand.Read(b[:])
	secret = tokenPrefix + base64.RawURLEncoding.EncodeToString(b[:])
	return secret, sha256.Sum256([]byte(secret))
}

// A Grant is a right for a queue, by its cleaned identifier, or for all queues if
// that is "".
type Grant struct {
	Right web.Right
	Queue string
}

// Rights are a list of grants. As text they look like
//
//	read,submit:ingest,consume:ingest
//
// with read, submit, consume, delete and admin, each for the queue after a colon, or
// for all queues. A comma in a cleaned identifier is written as %2C. none is the
// empty list, and all means admin.
type Rights []Grant

// Everything is the right to do everything.
var Everything = Rights{{Right: web.Admin}}

const maxGrants = 1000

// ParseRights reads the text of [Rights.String], in any order. Identifiers may also
// be uncleaned.
func ParseRights(text string) (Rights, error) {
	if text == "none" {
		return Rights{}, nil
	}
	var list Rights
	for part := range strings.SplitSeq(text, ",") {
		name, queue, one := strings.Cut(part, ":")
		g := Grant{Right: web.Right(max(0, slices.Index(web.RightNames[:], name)))}
		if name == "all" {
			g.Right = web.Admin
		}
		if g.Right == 0 {
			return nil, fmt.Errorf("right %.40q is none of read, submit, consume, delete, admin", part)
		}
		if one {
			var err error
			if g.Queue, err = job.CleanQueueID(strings.ReplaceAll(queue, "%2C", ",")); err != nil {
				return nil, fmt.Errorf("right %.40q: %w", part, err)
			}
		}
		if len(list) == maxGrants {
			return nil, fmt.Errorf("more than %d rights", maxGrants)
		}
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b Grant) int {
		if a.Queue != b.Queue {
			return strings.Compare(a.Queue, b.Queue)
		}
		return int(a.Right) - int(b.Right)
	})
	return slices.Compact(list), nil
}

func (r Rights) String() string {
	if len(r) == 0 {
		return "none"
	}
	var b strings.Builder
	for i, g := range r {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(g.Right.String())
		if g.Queue != "" {
			b.WriteString(":" + strings.ReplaceAll(g.Queue, ",", "%2C"))
		}
	}
	return b.String()
}

// A Stamp identifies the state of a file without reading it.
type Stamp struct {
	inode, size, modified, changed int64
}

// StampOf returns the stamp of a file. Take it before reading the file, so that a
// change in between is noticed the next time.
func StampOf(name string) (Stamp, error) {
	info, err := os.Stat(name)
	if err != nil {
		return Stamp{}, err
	}
	s := Stamp{size: info.Size(), modified: info.ModTime().UnixNano()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode, s.changed = int64(sys.Ino), sys.Ctim.Nano()
	}
	return s, nil
}
