package store

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"

	"cutie/queuefs/durable"
)

// A Growing is the file of an open list, or of the package that grows with it: the
// digest of all that was written to it, and the file as the last write left it. It is for
// one goroutine. The zero Growing is of a file without contents.
type Growing struct {
	hash hash.Hash         // of the contents; nil until some are written
	want [sha256.Size]byte // digest of the contents while hash is nil
	has  bool              // want is known
	left durable.Identity
}

// GrowingFrom returns the file of a list as the cursor has it; sum is a word of
// [Growing.Word].
func GrowingFrom(sum string) (g Growing) {
	g.want, g.has = parseSum(sum)
	return g
}

// Word returns the digest of the entries in hexadecimal, [Unknown] without one.
func (g *Growing) Word() string {
	if g.hash != nil {
		return hex.EncodeToString(g.hash.Sum(nil))
	}
	if g.has {
		return hex.EncodeToString(g.want[:])
	}
	return Unknown
}

// Sum returns the digest as a hash to go on with.
func (g *Growing) Sum() (hash.Hash, error) {
	if g.hash == nil {
		return sha256.New(), nil
	}
	return g.hash.(hash.Cloner).Clone()
}

// Check verifies the first length bytes of the file, unless the file is as it was left
// by the last Check or Write.
func (g *Growing) Check(f *os.File, length int64) error {
	if length == 0 || g.IsLeft(f) {
		return nil
	}
	return g.Reread(f, length)
}

// Reread verifies the first length bytes of the file.
func (g *Growing) Reread(f *os.File, length int64) error {
	now, err := durable.IdentityOf(f)
	if err != nil {
		return err
	}
	return g.sum(f, length, now)
}

func (g *Growing) sum(f *os.File, length int64, now durable.Identity) error {
	h := sha256.New()
	n, err := io.Copy(h, io.NewSectionReader(f, 0, length))
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	if n < length {
		return Damaged("%s has %d octets of %d", f.Name(), n, length)
	}
	if want := g.Word(); want != Unknown && want != hex.EncodeToString(h.Sum(nil)) {
		return Damaged("%s has not its SHA-256 digest", f.Name())
	}
	g.hash, g.left = h, now
	return nil
}

// Write appends entries to the file. After an error the list does not have them.
func (g *Growing) Write(f *os.File, p []byte) error {
	if _, err := f.Write(p); err != nil {
		return err
	}
	if g.hash == nil {
		g.hash = sha256.New()
	}
	g.hash.Write(p)
	g.Leave(f)
	return nil
}

// IsLeft reports whether the file is as the last Write or Check left it.
func (g *Growing) IsLeft(f *os.File) bool {
	now, err := durable.IdentityOf(f)
	return err == nil && now == g.left && g.hash != nil
}

// Leave says that the file is good as it is.
func (g *Growing) Leave(f *os.File) {
	now, err := durable.IdentityOf(f)
	if err != nil {
		now = durable.Identity{} // the next Check reads the file
	}
	g.left = now
}
