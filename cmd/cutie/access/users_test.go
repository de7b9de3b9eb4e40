package access_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"cutie/cmd/cutie/access"
)

const (
	aHash      = "$2a$04$oZ3qfbGEpwJKBpY9tYBIBuu1Iq4K0hLl6CGUnMbZ2TNJwT7GIQ6qi"
	aTokenHash = "b74ae79f19c4e602ecf103d36607ccbc114281d0a3724bcd10732af7bdc32be8"
)

const wholeFile = "# who\n\nuser ann read,submit:jobs " + aHash + "\nuser bob admin - pending=5,upload=0\n" +
	"token ci ann submit:jobs 2026-12-21T00:46:49Z " + aTokenHash + "\ntoken b bob same never " + aTokenHash + "\n"

func TestUsersFileIsKeptAsItIs(t *testing.T) {
	u, err := access.ParseUsers([]byte(wholeFile))
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
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
	if err := os.WriteFile(name, []byte(wholeFile), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(name, link); err != nil {
		t.Fatal(err)
	}
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
	if err := access.Edit(link, func(u *access.Users) error { return u.Remove("ann") }); err != nil {
		t.Fatal(err)
	}
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
