package main_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"strings"
)

// unpack takes what has changed from the packages of the Change Dump and from
// nothing else (Z39.99-2017, 13).
func (d *destination) unpack() error {
	if err := d.again(); err != nil || d.caps["changedump"] == "" {
		return err // there is no package yet
	}
	dump, err := d.document(d.caps["changedump"], "changedump", d.set)
	if err != nil {
		return err
	}
	if dump.MD[0].From.After(d.since) {
		return fmt.Errorf("packages since %v only, had %v", dump.MD[0].From, d.since)
	}
	for _, e := range dump.URLs {
		if !e.MD.Until.After(d.since) {
			continue
		}
		resp, octets, err := d.fetch(e.Loc, "")
		if err == nil {
			err = verify(e.MD, octets)
		}
		if err == nil && (e.MD.Type != "application/zip" || resp.Header.Get("Content-Type") != e.MD.Type) {
			err = fmt.Errorf("Content-Type %q, listed as %q", resp.Header.Get("Content-Type"), e.MD.Type)
		}
		if err == nil {
			err = d.unzip(e, octets)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", e.Loc, err)
		}
	}
	return nil
}

func (d *destination) unzip(e rsEntry, octets []byte) error {
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
			return err
		}
	}
	if z.File[0].Name != "manifest.xml" {
		return fmt.Errorf("begins with %s", z.File[0].Name)
	}
	manifest, err := parseDocument(files["manifest.xml"], "changedump-manifest", d.set)
	if err != nil {
		return err
	}
	d.saved(manifest)
	if md := manifest.MD[0]; !md.From.Equal(e.MD.From) || !md.Until.Equal(e.MD.Until) {
		return fmt.Errorf("manifest from %v until %v, listed from %v until %v", md.From, md.Until, e.MD.From, e.MD.Until)
	}
	delete(files, "manifest.xml")
	news, err := d.news(manifest)
	if err != nil {
		return err
	}
	for i, c := range manifest.URLs {
		path := strings.TrimPrefix(c.MD.Path, "/")
		stream, there := files[path]
		if c.MD.Change == "deleted" {
			if c.MD.Path != "" {
				return fmt.Errorf("%s is deleted and has a path", c.Loc)
			}
		} else if err := verify(c.MD, stream); !there || path == c.MD.Path || err != nil {
			return fmt.Errorf("%s at path %q: %v", c.Loc, c.MD.Path, err)
		}
		if i < len(manifest.URLs)-len(news) {
			continue // is in already
		}
		if c.MD.Change == "deleted" {
			err = d.remove(c.Loc)
		} else {
			err = d.write(c.Loc, stream)
		}
		if err != nil {
			return err
		}
	}
	d.since = manifest.MD[0].Until
	d.packs++
	return nil
}
