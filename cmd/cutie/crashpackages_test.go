package main_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
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
	offered, err := read("capabilitylist.xml")
	if err != nil {
		return 0, err
	}
	var packages []sitemap.Entry
	if offersChangeDump(offered) {
		if packages, err = read("changedump.xml"); err != nil {
			return 0, err
		}
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
			err = agrees(octets, want)
		}
		if err != nil {
			return n, fmt.Errorf("%s: %w", p.Loc, err)
		}
		n++
	}
	return n, nil
}

// agrees compares a package with the entries of its list.
func agrees(octets []byte, want []sitemap.Entry) error {
	got, files, err := readPackage(octets)
	if err != nil || len(got) != len(want) {
		return fmt.Errorf("%d entries, the list has %d: %v", len(got), len(want), err)
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

// offersChangeDump reports whether a Capability List names a Change Dump: there is none
// without a package.
func offersChangeDump(capabilities []sitemap.Entry) bool {
	return slices.ContainsFunc(capabilities, func(e sitemap.Entry) bool { return e.Capability == sitemap.ChangeDump })
}
