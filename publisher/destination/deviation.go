package destination

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"

	"cutie/publisher/destination/local"
	"cutie/sitemap"
)

// A Deviation is how a file of a copy is not as the last change of its resource says.
type Deviation int

const (
	Unproved Deviation = iota // the copy has no change of it
	Removed                   // it should be gone
	Changed                   // it should have other contents
)

// A lastChange is what the last change of a resource says of its file.
type lastChange struct {
	length int64 // -1: it is gone
	sum    string
}

// Deviations compares the files below a directory for which of returns true with the last
// changes of their resources, by digest, without asking the Source. It needs about 150 bytes
// a resource. With damaged changes the error is [ErrNoHistory].
func (h *History) Deviations(ctx context.Context, below string, of func(file string) bool, do func(file string, d Deviation) error) error {
	seed, last := maphash.MakeSeed(), map[uint64]lastChange{}
	err := h.Read(func(e *sitemap.Entry) error {
		file, err := h.dir.Path(e.Loc)
		if err != nil || !of(file) {
			return ctx.Err() // a resource without a path is not in the copy
		}
		c := lastChange{length: -1}
		for _, x := range e.Hashes {
			if sum, err := hex.DecodeString(x.Value); e.Change != sitemap.Deleted && x.Alg == "sha-256" && err == nil {
				c = lastChange{e.Length, string(sum)}
			}
		}
		last[maphash.String(seed, file)] = c
		return ctx.Err()
	})
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", ErrNoHistory, err)
	}
	if err != nil {
		return err
	}
	return h.dir.Walk(below, func(file string) error {
		if err := ctx.Err(); err != nil || !of(file) {
			return err
		}
		c, known := last[maphash.String(seed, file)]
		switch {
		case !known:
			return do(file, Unproved)
		case c.length < 0:
			return do(file, Removed)
		}
		want := local.Facts{Length: c.length, Hashes: []sitemap.Hash{{Alg: "sha-256", Value: hex.EncodeToString([]byte(c.sum))}}}
		if m, _, err := h.dir.Compare(file, &want, true); err != nil || m == local.Same {
			return err
		}
		return do(file, Changed)
	})
}

// Promoting reports whether a promotion of the copy was begun. It may have changed files.
func Promoting(dir string) (bool, error) {
	d, err := local.Look(dir, "http://none/")
	if err != nil {
		return false, err
	}
	var p Promotion
	err = d.ReadState(promotedFile, &p)
	if begun := err == nil; begun || !errors.Is(err, fs.ErrNotExist) {
		return begun, errors.Join(err, d.Close())
	}
	return false, d.Close()
}
