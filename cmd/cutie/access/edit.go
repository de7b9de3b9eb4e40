package access

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/crypto/bcrypt"
)

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
	u, wide, err = read(f)
	if err == nil && strings.TrimSpace(u.String()) == "" {
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

// open does not wait for the other end of a pipe.
func open(name string) (*os.File, error) { return os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) }

// ErrNoFile says that a name is that of a directory, a pipe or the like.
var ErrNoFile = errors.New("is no regular file")

func readAll(f *os.File, max int64) ([]byte, fs.FileInfo, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s %w", f.Name(), ErrNoFile)
	}
	text, err := io.ReadAll(io.LimitReader(f, max+1))
	if err != nil {
		return nil, nil, err
	}
	if int64(len(text)) > max {
		return nil, nil, fmt.Errorf("%s has more than %d octets", f.Name(), max)
	}
	return text, info, nil
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
