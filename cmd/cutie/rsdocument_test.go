package main_test

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"strings"
	"time"
)

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
