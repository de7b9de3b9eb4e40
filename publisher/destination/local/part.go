package local

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Resume opens the part of a copy left by Keep, or begins one. A part belongs to the
// contents that want describes; without a digest there nothing proves the result, and
// the error is [ErrNoProof]. uri names the resource, path is empty for a package.
func (d *Dir) Resume(uri, path string, want Facts) (*File, error) {
	f := &File{dir: d, path: path, want: want, name: partName(uri, &want), fd: -1, sums: NewSums(want.Length, want.Hashes)}
	if !f.sums.Proves() {
		return nil, ErrNoProof
	}
	var err error
	if f.out, err = d.own.root.OpenFile(f.name, os.O_CREATE|os.O_RDWR, 0o666); err != nil {
		return nil, err
	}
	tag, err := d.own.root.ReadFile(f.name + ".tag")
	if err == nil {
		f.tag = string(tag)
		_, err = io.Copy(f.sums, f.out)
	}
	switch {
	case err == nil:
		return f, nil
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrDiffers):
		err = f.Restart("")
	}
	if err != nil {
		f.out.Close()
		return nil, err
	}
	return f, nil
}

// ErrNoProof says that no digest would prove a copy made in parts.
var ErrNoProof = errors.New("no digest is known")

// partName is one name for all runs, and another one for other contents.
func partName(uri string, want *Facts) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%d\n", uri, want.Length)
	for _, s := range want.Hashes {
		fmt.Fprintf(h, "%s %s\n", s.Alg, s.Value)
	}
	return "part-" + hex.EncodeToString(h.Sum(nil)[:16])
}

// Tag returns the validator of a part, "" without one.
func (f *File) Tag() string { return f.tag }

// Restart empties a part, to be filled with the octets of a validator. With "" they cannot
// be completed later.
func (f *File) Restart(tag string) error {
	// A crash leaves no octets under another validator.
	root := f.dir.own.root
	if err := root.Remove(f.name + ".tag"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := f.out.Truncate(0); err != nil {
		return err
	}
	if _, err := f.out.Seek(0, io.SeekStart); err != nil {
		return err
	}
	f.sums, f.tag = NewSums(f.want.Length, f.want.Hashes), tag
	if tag == "" {
		return nil
	}
	return root.WriteFile(f.name+".tag", []byte(tag), 0o600)
}

// Keep ends a part, to be resumed later. After Commit or Discard it does nothing.
func (f *File) Keep() {
	if f.Length() == 0 {
		f.Discard()
	}
	f.close()
	f.name = ""
}

// Verify compares the octets with the facts, and returns the file of them. It is closed by
// Discard.
func (f *File) Verify() (*os.File, error) { return f.out, f.sums.Check() }

// SweepParts removes all parts.
func (d *Dir) SweepParts() error { return d.sweep("part-*") }
