package main_test

import (
	"archive/zip"
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A destination keeps a copy of one set of resources in a directory.
type destination struct {
	client *http.Client
	saved  func(*rsDocument) // told of every document fetched
	set    string            // its Capability List
	caps   map[string]string
	site   string
	dir    string

	since time.Time // changes up to then are in
	open  string    // Change List that grows
	tag   string    // of what was last read of it
	turns int       // times that the open Change List did not reach back far enough
	packs int       // packages applied
}

// sets starts from nothing but a site, and returns the Capability Lists that
// its Source Description names (Z39.99-2017, 6.3.1 and 8).
func sets(c *http.Client, site string, saved func(*rsDocument)) (lists []string, err error) {
	d := &destination{client: c, saved: saved}
	well := strings.TrimSuffix(site, "/") + "/.well-known/resourcesync"
	description, err := d.document(well, "description", "")
	if err != nil {
		return nil, err
	}
	for _, e := range description.URLs {
		if e.MD.Capability != "capabilitylist" {
			return nil, fmt.Errorf("%s names %s as %q", well, e.Loc, e.MD.Capability)
		}
		lists = append(lists, e.Loc)
	}
	return lists, nil
}

// newDestination reads a Capability List (Z39.99-2017, 9).
func newDestination(c *http.Client, site, set, dir string, saved func(*rsDocument)) (*destination, error) {
	d := &destination{client: c, saved: saved, set: set, site: site, dir: dir}
	return d, d.again()
}

// again reads the Capability List again: dumps come later.
func (d *destination) again() error {
	list, err := d.document(d.set, "capabilitylist", strings.TrimSuffix(d.site, "/")+"/.well-known/resourcesync")
	if err != nil {
		return err
	}
	d.caps = map[string]string{}
	for _, e := range list.URLs {
		d.caps[e.MD.Capability] = e.Loc
	}
	return nil
}

// fetch gets what is at a URI; with a tag it may be nothing new, then nil.
func (d *destination) fetch(uri, tag string) (*http.Response, []byte, error) {
	r, err := http.NewRequest("GET", uri, nil)
	if err != nil {
		return nil, nil, err
	}
	if tag != "" {
		r.Header.Set("If-None-Match", tag)
	}
	resp, err := d.client.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	octets, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", uri, err)
	}
	if tag != "" && resp.StatusCode == http.StatusNotModified {
		return resp, nil, nil
	}
	if resp.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("%s: %s", uri, resp.Status)
	}
	return resp, octets, nil
}

func (d *destination) document(uri, capability, up string) (*rsDocument, error) {
	return d.changed(uri, capability, up, "")
}

// changed returns a document unless it is still what the tag stands for.
func (d *destination) changed(uri, capability, up, tag string) (*rsDocument, error) {
	if uri == "" {
		return nil, fmt.Errorf("no %s", capability)
	}
	resp, octets, err := d.fetch(uri, tag)
	if err != nil || octets == nil {
		return nil, err
	}
	if got := resp.Header.Get("Content-Type"); got != "application/xml" {
		return nil, fmt.Errorf("%s: Content-Type %q", uri, got)
	}
	doc, err := parseDocument(octets, capability, up)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", uri, err)
	}
	doc.tag = resp.Header.Get("ETag")
	d.saved(doc)
	return doc, nil
}

// name returns where the copy of a resource stands: by the path of its URI.
func (d *destination) name(loc string) (string, error) {
	u, err := url.Parse(loc)
	if err != nil {
		return "", err
	}
	path := strings.TrimPrefix(u.Path, "/")
	if !filepath.IsLocal(path) {
		return "", fmt.Errorf("%s leads out of the copy", loc)
	}
	return filepath.Join(d.dir, path), nil
}

func (d *destination) write(loc string, octets []byte) error {
	name, err := d.name(loc)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	return os.WriteFile(name, octets, 0o666)
}

func (d *destination) remove(loc string) error {
	name, err := d.name(loc)
	if err != nil {
		return err
	}
	// It may be that creation and deletion were seen at once.
	if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// copy fetches a resource that an entry speaks of.
func (d *destination) copy(e rsEntry) error {
	resp, octets, err := d.fetch(e.Loc, "")
	if err != nil {
		return err
	}
	if err := verify(e.MD, octets); err != nil {
		return fmt.Errorf("%s: %w", e.Loc, err)
	}
	got, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || got != e.MD.Type {
		return fmt.Errorf("%s: Content-Type %q, listed as %q: %v", e.Loc, got, e.MD.Type, err)
	}
	return d.write(e.Loc, octets)
}

// baseline takes what the Resource List has (Z39.99-2017, 10).
func (d *destination) baseline() error {
	list, err := d.document(d.caps["resourcelist"], "resourcelist", d.set)
	if err != nil {
		return err
	}
	d.since, d.open = list.MD[0].At, ""
	pages := []*rsDocument{list}
	if list.isIndex() {
		pages = nil
		for _, e := range list.Sitemaps {
			page, err := d.document(e.Loc, "resourcelist", d.set)
			if err != nil {
				return err
			}
			if page.MD[0].At.Before(d.since) {
				d.since = page.MD[0].At
			}
			pages = append(pages, page)
		}
	}
	for _, page := range pages {
		if page.MD[0].At.IsZero() {
			return errors.New("Resource List without at")
		}
		for _, e := range page.URLs {
			if err := d.copy(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// incremental takes what has changed since (Z39.99-2017, 12). It asks the open
// Change List as long as that reaches back far enough, else the index.
func (d *destination) incremental() error {
	if d.open == "" {
		return d.catchUp(d.caps["changelist"])
	}
	list, err := d.changed(d.open, "changelist", d.set, d.tag)
	if list == nil || err != nil {
		return err
	}
	if list.MD[0].From.After(d.since) || !list.MD[0].Until.IsZero() {
		d.turns++
		return d.catchUp(list.link("index"))
	}
	d.tag = list.tag
	return d.apply(list)
}

// catchUp reads all Change Lists of an index that have news.
func (d *destination) catchUp(index string) error {
	list, err := d.document(index, "changelist", d.set)
	if err != nil {
		return err
	}
	if list.MD[0].From.After(d.since) {
		return fmt.Errorf("%s: changes since %v only, had %v", index, list.MD[0].From, d.since)
	}
	var last time.Time
	for i, e := range list.Sitemaps {
		if e.MD.Until.IsZero() != (i == len(list.Sitemaps)-1) || e.MD.From.Before(last) {
			return fmt.Errorf("%s: %s from %v until %v stands after %v", index, e.Loc, e.MD.From, e.MD.Until, last)
		}
		if last = e.MD.Until; !last.IsZero() && !last.After(d.since) {
			continue
		}
		part, err := d.document(e.Loc, "changelist", d.set)
		if err != nil {
			return err
		}
		if !part.MD[0].From.Equal(e.MD.From) || !part.MD[0].Until.Equal(e.MD.Until) {
			return fmt.Errorf("%s: from %v until %v, in the index from %v until %v", e.Loc, part.MD[0].From, part.MD[0].Until, e.MD.From, e.MD.Until)
		}
		if part.link("index") != index {
			return fmt.Errorf("%s: index is %q, want %q", e.Loc, part.link("index"), index)
		}
		// A part that was still open may have changes that later parts undo, so
		// only the last state of a resource can be fetched.
		if i == len(list.Sitemaps)-1 {
			d.open, d.tag = e.Loc, part.tag
		}
		if err := d.apply(part); err != nil {
			return err
		}
	}
	return nil
}

// news returns the entries after those that are in, which must stand in the
// order of time and within the bounds of the document.
func (d *destination) news(list *rsDocument) ([]rsEntry, error) {
	md := list.MD[0]
	last := md.From
	from := len(list.URLs)
	for i, e := range list.URLs {
		if e.MD.DateTime.Before(last) || !md.Until.IsZero() && e.MD.DateTime.After(md.Until) {
			return nil, fmt.Errorf("%s: datetime %v after %v, until %v", e.Loc, e.MD.DateTime, last, md.Until)
		}
		if last = e.MD.DateTime; last.After(d.since) {
			from = min(from, i)
		}
	}
	return list.URLs[from:], nil
}

// apply does what a Change List says. Of several changes of a resource the
// last one counts; one that is gone since comes as a later change, perhaps in
// the next list.
func (d *destination) apply(list *rsDocument) error {
	news, err := d.news(list)
	if err != nil {
		return err
	}
	last := map[string]int{}
	for i, e := range news {
		last[e.Loc] = i
		d.since = e.MD.DateTime
	}
	for i, e := range news {
		switch {
		case last[e.Loc] != i:
		case e.MD.Change == "deleted":
			err = d.remove(e.Loc)
		case e.MD.Change == "created" || e.MD.Change == "updated":
			if err = d.copy(e); err != nil && !list.MD[0].Until.IsZero() {
				err = d.remove(e.Loc)
			}
		default:
			err = fmt.Errorf("%s: change is %q", e.Loc, e.MD.Change)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

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

// The Destination of the tests, in this file and in those of destination,
// knows Z39.99-2017 and nothing of this program.

// A rsDocument is any ResourceSync document (Z39.99-2017, 7).
type rsDocument struct {
	XMLName  xml.Name
	MD       []rsMD    `xml:"http://www.openarchives.org/rs/terms/ md"`
	Links    []rsLink  `xml:"http://www.openarchives.org/rs/terms/ ln"`
	URLs     []rsEntry `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 url"`
	Sitemaps []rsEntry `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 sitemap"`

	octets []byte
	tag    string // entity tag
}

type rsEntry struct {
	Loc     string   `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 loc"`
	LastMod string   `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 lastmod"`
	MD      rsMD     `xml:"http://www.openarchives.org/rs/terms/ md"`
	Links   []rsLink `xml:"http://www.openarchives.org/rs/terms/ ln"`
}

type rsMD struct {
	Capability string    `xml:"capability,attr"`
	Change     string    `xml:"change,attr"`
	At         time.Time `xml:"at,attr"`
	From       time.Time `xml:"from,attr"`
	Until      time.Time `xml:"until,attr"`
	DateTime   time.Time `xml:"datetime,attr"`
	Hash       string    `xml:"hash,attr"`
	Length     int64     `xml:"length,attr"`
	Type       string    `xml:"type,attr"`
	Path       string    `xml:"path,attr"`
}

type rsLink struct {
	Rel  string `xml:"rel,attr"`
	Href string `xml:"href,attr"`
}

func (d *rsDocument) isIndex() bool { return d.XMLName.Local == "sitemapindex" }

func (d *rsDocument) link(rel string) string {
	for _, l := range d.Links {
		if l.Rel == rel {
			return l.Href
		}
	}
	return ""
}

// parseDocument reads a document of a capability; up is what it must belong
// to, if anything.
func parseDocument(octets []byte, capability, up string) (*rsDocument, error) {
	d := &rsDocument{octets: octets}
	if err := xml.Unmarshal(octets, d); err != nil {
		return nil, err
	}
	switch {
	case d.XMLName.Local != "urlset" && !d.isIndex():
		return nil, fmt.Errorf("root is %s", d.XMLName.Local)
	case len(d.MD) != 1 || d.MD[0].Capability != capability:
		return nil, fmt.Errorf("rs:md of the root is %+v, want one %s", d.MD, capability)
	case d.link("up") != up:
		return nil, fmt.Errorf("up is %q, want %q", d.link("up"), up)
	case d.isIndex() && len(d.URLs) > 0, !d.isIndex() && len(d.Sitemaps) > 0:
		return nil, errors.New("entries of both kinds")
	}
	return d, nil
}

// verify compares octets with all that an entry says of them. Fixity is
// wanted here, though the specification only recommends it.
func verify(md rsMD, octets []byte) error {
	if md.Length != int64(len(octets)) {
		return fmt.Errorf("%d octets, want %d", len(octets), md.Length)
	}
	known := 0
	for _, h := range strings.Fields(md.Hash) {
		alg, want, _ := strings.Cut(h, ":")
		var got []byte
		switch alg {
		case "md5":
			sum := md5.Sum(octets)
			got = sum[:]
		case "sha-1":
			sum := sha1.Sum(octets)
			got = sum[:]
		case "sha-256":
			sum := sha256.Sum256(octets)
			got = sum[:]
			known++
		default:
			return fmt.Errorf("hash %s", h)
		}
		if hex.EncodeToString(got) != want {
			return fmt.Errorf("%s is %x, want %s", alg, got, want)
		}
	}
	if known != 1 {
		return fmt.Errorf("hash is %q, want a sha-256 in it", md.Hash)
	}
	return nil
}
