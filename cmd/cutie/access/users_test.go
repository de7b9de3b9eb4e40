package access_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"cutie/cmd/cutie/access"
	"cutie/queuefs/web"
)

const (
	aHash      = "$2a$04$oZ3qfbGEpwJKBpY9tYBIBuu1Iq4K0hLl6CGUnMbZ2TNJwT7GIQ6qi"
	aTokenHash = "b74ae79f19c4e602ecf103d36607ccbc114281d0a3724bcd10732af7bdc32be8"
)

const wholeFile = "# who\n\nuser ann read,submit:jobs " + aHash + "\nuser bob admin - pending=5,upload=0\n" +
	"token ci ann submit:jobs 2026-12-21T00:46:49Z " + aTokenHash + "\ntoken b bob same never " + aTokenHash + "\n"

func TestUsersFileIsKeptAsItIs(t *testing.T) {
	u, err := access.ParseUsers([]byte(wholeFile))
	must(t, err)
	if got := u.String(); got != wholeFile {
		t.Errorf("got %s, want %s", got, wholeFile)
	}
}

func TestUsersFileErrorsNameTheLine(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"user ann read\n", "line 1: neither user NAME"},
		{"# x\nuser a:b read -\n", `line 2: name "a:b"`},
		{"user ann read secret\n", "line 1: password of ann is no bcrypt hash"},
		{"user ann read " + strings.Replace(aHash, "$04$", "$31$", 1) + "\n", "line 1: password of ann"},
		{"user ann read - jobs=1\n", `line 1: bad name: limit "jobs=1"`},
		{"user ann read - pending=1 more\n", "line 1: neither user NAME"},
		{"user ann reed -\n", `line 1: right "reed"`},
		{"user ann read -\nuser ann read -\n", "line 2: user ann is repeated"},
		{"token x ann same never " + aTokenHash + "\n", "line 1: token x is for ann, who is no user"},
		{"user ann read -\ntoken x ann same soon " + aTokenHash + "\n", `line 2: expiry "soon"`},
		{"user ann read -\ntoken x ann same never abcd\n", "line 2: hash of token x"},
		{"user ann read -\n" + strings.Repeat("token x ann same never "+aTokenHash+"\n", 2), "line 3: token x is repeated"},
	} {
		_, err := access.ParseUsers([]byte(tt.text))
		var parse *access.ParseError
		if !errors.As(err, &parse) || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%q: got %v, want %s", tt.text, err, tt.want)
		}
	}
}

func FuzzUsersAreReadAsWritten(f *testing.F) {
	f.Add([]byte(wholeFile))
	f.Fuzz(func(t *testing.T, text []byte) {
		u, err := access.ParseUsers(text)
		if err != nil {
			return
		}
		again, err := access.ParseUsers([]byte(u.String()))
		if err != nil || again.String() != u.String() {
			t.Errorf("got %q, %v, want %q", again, err, u)
		}
	})
}

func TestEditsTakeTurns(t *testing.T) {
	name := filepath.Join(t.TempDir(), "users.txt")
	const n = 20
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := access.Edit(name, func(u *access.Users) error {
				return u.Add(access.User{Name: fmt.Sprint("u", i)})
			}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	u, wide, err := access.Load(name)
	must(t, err)
	if len(u.Users()) != n || wide {
		t.Errorf("got %d users, wide %v, want %d, false", len(u.Users()), wide, n)
	}
	entries, err := os.ReadDir(filepath.Dir(name))
	if err != nil || len(entries) != 1 {
		t.Errorf("got %v, %v, want the file alone", entries, err)
	}
}

func TestEditKeepsTheFileOnErrorAndNarrowsItOtherwise(t *testing.T) {
	dir := t.TempDir()
	name, link := filepath.Join(dir, "users.txt"), filepath.Join(dir, "link")
	must(t, os.WriteFile(name, []byte(wholeFile), 0o644))
	must(t, os.Symlink(name, link))
	if _, wide, err := access.Load(name); err != nil || !wide {
		t.Errorf("got wide %v, %v, want true", wide, err)
	}
	for want, change := range map[error]func(*access.Users) error{
		access.ErrExists:  func(u *access.Users) error { return u.Add(access.User{Name: "ann"}) },
		access.ErrMissing: func(u *access.Users) error { return u.RemoveToken("nosuch") },
		fs.ErrInvalid:     func(u *access.Users) error { return errors.Join(u.Remove("ann"), fs.ErrInvalid) },
	} {
		if err := access.Edit(name, change); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	if text, err := os.ReadFile(name); err != nil || string(text) != wholeFile {
		t.Errorf("got %s, %v, want the file as it was", text, err)
	}
	must(t, access.Edit(link, func(u *access.Users) error { return u.Remove("ann") }))
	want := "# who\n\nuser bob admin - pending=5,upload=0\ntoken b bob same never " + aTokenHash + "\n"
	text, err := os.ReadFile(name)
	if err != nil || string(text) != want {
		t.Errorf("got %s, %v, want %s", text, err, want)
	}
	if info, err := os.Lstat(name); err != nil || info.Mode() != 0o600 {
		t.Errorf("got mode %v, %v, want 0600", info.Mode(), err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("got mode %v, %v, want a link still", info.Mode(), err)
	}
}

func TestPasswordsAndTokensAreStoredAsHashes(t *testing.T) {
	hash, err := access.HashPassword("secret")
	if err != nil || bcrypt.CompareHashAndPassword([]byte(hash), []byte("secret")) != nil {
		t.Errorf("got %s, %v, want a hash of the password", hash, err)
	}
	for _, bad := range []string{"", strings.Repeat("x", access.MaxPassword+1)} {
		if _, err := access.HashPassword(bad); err == nil {
			t.Errorf("password of %d octets: got no error", len(bad))
		}
	}
	one, _ := access.NewToken()
	two, sum := access.NewToken()
	if one == two || len(two) != len("cutie_")+43 {
		t.Errorf("got %s and %s", one, two)
	}
	var u access.Users
	if err := errors.Join(u.Add(access.User{Name: "ann", Password: hash}),
		u.AddToken(access.Token{Name: "t", User: "ann", Hash: sum, Expires: time.Unix(0, 0)})); err != nil {
		t.Fatal(err)
	}
	if text := u.String(); strings.Contains(text, two) || strings.Contains(text, "secret") {
		t.Errorf("got %s, want no secret in it", text)
	}
}

// noFiles makes what may stand where a file should, and returns the names.
func noFiles(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	fifo, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
	must(t, errors.Join(syscall.Mkfifo(fifo, 0o600), os.Symlink(fifo, link)))
	return []string{fifo, link, dir, os.DevNull}
}

func TestOnlyARegularFileIsRead(t *testing.T) {
	for _, name := range noFiles(t) {
		_, _, loaded := access.Load(name)
		_, opened := access.New(access.Options{Users: name})
		edited := access.Edit(name, func(*access.Users) error { return nil })
		for _, err := range []error{loaded, opened, edited} {
			if err == nil || !strings.Contains(err.Error(), name) && !strings.Contains(err.Error(), "fifo") {
				t.Errorf("%s: got %v, want an error that names it", name, err)
			}
		}
	}
}

func TestUsersStayWhenTheFileBecomesNone(t *testing.T) {
	g := newGatehouse(t, "", user(t, "ann", "read", "nna"))
	for _, name := range noFiles(t) {
		must(t, errors.Join(os.Remove(g.file), os.Symlink(name, g.file)))
		first, again := g.Reload(), g.Reload()
		if first == nil || again == nil || first.Error() != again.Error() || !strings.Contains(first.Error(), "no regular file") ||
			!strings.Contains(first.Error(), "those known before stay") {
			t.Errorf("%s: got %v, then %v, want the same twice", name, first, again)
		}
		if got, _ := g.ask("GET /state", as("ann", "nna"), client); got != 200 {
			t.Errorf("%s: got %d, want 200", name, got)
		}
	}
	if got := len(g.read); got != 1 {
		t.Errorf("reported %d times, want once", got)
	}
	must(t, os.Remove(g.file))
	g.write(user(t, "bob", "read", "bob"))
	must(t, g.Reload())
	if got, _ := g.ask("GET /state", as("bob", "bob"), client); got != 200 {
		t.Errorf("after the file is back: got %d, want 200", got)
	}
}

func TestEmptyFileIsDamage(t *testing.T) {
	name := filepath.Join(t.TempDir(), "users")
	for _, text := range []string{"", "\n", "\x00\x00\x00\x00"} {
		must(t, os.WriteFile(name, []byte(text), 0o600))
		if u, _, err := access.Load(name); err == nil {
			t.Errorf("%q: got %v", text, u)
		}
	}
	must(t, os.WriteFile(name, nil, 0o600))
	if _, _, err := access.Load(name); !errors.Is(err, access.ErrEmpty) {
		t.Errorf("got %v", err)
	}
	// An edit that was killed leaves such a file, and the next one fills it.
	must(t, access.Edit(name, func(u *access.Users) error { return u.Add(access.User{Name: "ann"}) }))
	must(t, access.Edit(name, func(u *access.Users) error { return u.Remove("ann") }))
	if u, _, err := access.Load(name); err != nil || len(u.Users()) != 0 {
		t.Errorf("without the last user: got %v, %v", u, err)
	}
}

func TestRightsAreReadAndPrinted(t *testing.T) {
	for text, want := range map[string]string{
		"read":                        "read",
		"none":                        "none",
		"all":                         "admin",
		"submit:b,read,submit:a,read": "read,submit:a,submit:b",
		"consume:ark:/13030/x.y":      "consume:ark+=13030=x%2Cy",
		"consume:ark+=13030=x%2Cy":    "consume:ark+=13030=x%2Cy",
		"admin:q,delete:q":            "delete:q,admin:q",
	} {
		r, err := access.ParseRights(text)
		if err != nil || r.String() != want {
			t.Errorf("%s: got %s, %v, want %s", text, r, err, want)
			continue
		}
		again, err := access.ParseRights(r.String())
		if err != nil || again.String() != want {
			t.Errorf("%s: read again: got %s, %v", want, again, err)
		}
	}
	for _, text := range []string{"", "write", "Read", "read,", "read:", "read:..", "read:cutie", ":q", "read, submit", "none,read", "0"} {
		if r, err := access.ParseRights(text); err == nil {
			t.Errorf("%q: got %s, want an error", text, r)
		}
	}
}

func TestRightsAllow(t *testing.T) {
	for _, tt := range []struct {
		rights string
		right  web.Right
		queue  string
		want   bool
	}{
		{"read", web.Read, "", true},
		{"read", web.Read, "q", true},
		{"read", web.Submit, "q", false},
		{"read:q", web.Read, "q", true},
		{"read:q", web.Read, "", false},
		{"read:q", web.Read, "r", false},
		{"admin:q", web.Consume, "q", true},
		{"admin:q", web.Consume, "r", false},
		{"admin:q", web.Admin, "", false},
		{"admin", web.Delete, "r", true},
		{"submit,consume,delete,read", web.Admin, "q", false},
		{"none", web.Read, "q", false},
	} {
		r, err := access.ParseRights(tt.rights)
		must(t, err)
		if got := r.Allow(tt.right, tt.queue); got != tt.want {
			t.Errorf("%s, %v of %q: got %v, want %v", tt.rights, tt.right, tt.queue, got, tt.want)
		}
	}
}
