package main_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"strings"

	"cutie/sitemap"
)

// packages compares the packages of the Change Dump with the closed lists: a package has
// every entry of its list, and every file. It returns how many there are; wanted is
// whether each closed list must have one.
func (f *follower) packages(wanted bool) (n int, err error) {
	dir := published + f.set + "/"
	read := func(name string) ([]sitemap.Entry, error) {
		octets, err := f.get(dir + name)
		if err != nil {
			return nil, err
		}
		_, entries, err := parseList(octets)
		return entries, err
	}
	lists, err := read("changelist-index.xml")
	if err != nil {
		return 0, err
	}
	packages, err := read("changedump.xml")
	if err != nil {
		return 0, err
	}
	closed := map[string]sitemap.Entry{}
	for _, l := range lists {
		if !l.Until.IsZero() {
			closed[l.Until.String()] = l
		}
	}
	if wanted && len(packages) != len(closed) {
		return 0, fmt.Errorf("%d packages of %d closed lists", len(packages), len(closed))
	}
	for _, p := range packages {
		list, ok := closed[p.Until.String()]
		if !ok || !list.From.Equal(p.From) {
			return n, fmt.Errorf("%s is of no list", p.Loc)
		}
		want, err := read(path.Base(list.Loc))
		if err != nil {
			return n, err
		}
		octets, err := f.get(dir + path.Base(p.Loc))
		if err == nil {
			err = agrees(octets, want, f.partial)
		}
		if err != nil {
			return n, fmt.Errorf("%s: %w", p.Loc, err)
		}
		n++
	}
	return n, nil
}

// agrees compares a package with the entries of its list. A partial one has those whose
// files were there when it was made.
func agrees(octets []byte, want []sitemap.Entry, partial bool) error {
	z, err := zip.NewReader(bytes.NewReader(octets), int64(len(octets)))
	if err != nil {
		return err
	}
	files := map[string][]byte{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			return err
		}
		if files[f.Name], err = io.ReadAll(r); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	_, got, err := parseList(files["manifest.xml"])
	if err != nil || len(got) != len(want) && !partial {
		return fmt.Errorf("%d entries, the list has %d: %v", len(got), len(want), err)
	}
	if partial {
		if want = those(want, got); len(want) != len(got) {
			return fmt.Errorf("of %d entries %d are in the list, in its order", len(got), len(want))
		}
	}
	for i := range want {
		g, w := &got[i], &want[i]
		if g.Loc != w.Loc || g.Seq != w.Seq || g.Change != w.Change {
			return fmt.Errorf("entry %d: got %+v, want %+v", i, g, w)
		}
		if g.Change == sitemap.Deleted {
			continue
		}
		text, ok := files[strings.TrimPrefix(g.Path, "/")]
		sum := sha256.Sum256(text)
		if !ok || int64(len(text)) != w.Length || hex.EncodeToString(sum[:]) != w.Hashes[0].Value {
			return fmt.Errorf("%s of event %d is not in the package as it was: %.60q", g.Loc, g.Seq, text)
		}
	}
	return nil
}

// those returns the entries of a list that a package has, in their order.
func those(list, got []sitemap.Entry) (some []sitemap.Entry) {
	for _, e := range list {
		if n := len(some); n < len(got) && got[n].Loc == e.Loc && got[n].Seq == e.Seq && got[n].Change == e.Change {
			some = append(some, e)
		}
	}
	return some
}
