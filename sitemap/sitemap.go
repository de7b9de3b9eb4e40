// Package sitemap reads and writes Sitemap documents with the ResourceSync
// extensions (ANSI/NISO Z39.99-2017, "ResourceSync 1.1"; archives and
// notification payloads share the form).
//
// The model is that of version 1.1. The append functions print it, in version 1.1
// or as a [Dialect]; [Reader] takes versions 1.1, 1.0, 0.9 and the form of January
// 2013 and turns each into the same model. A Reader reads back valid documents of 1.1
// unchanged, times cut to microseconds.
//
// A document is streamed: its root and [Head] come first, then one [Entry]
// after the other. A server of changing documents keeps entries rendered by
// [AppendEntry] and puts [AppendHead] before and [AppendFoot] after them.
//
// Left out: the news, image and video extensions of Sitemaps; their elements
// are skipped. Of foreign attributes only our own two are kept (see Entry).
package sitemap

import "time"

// Limits of one document before compression (sitemaps.org; Z39.99-2017, 7).
// A Sitemap Index may name as many Sitemaps as a Sitemap has entries.
const (
	MaxEntries = 50_000
	MaxOctets  = 50 << 20
)

// Root tells a list from an index (Z39.99-2017, 7). The root element decides,
// never the capability: both have the same one.
type Root uint8

const (
	URLSet       Root = iota // <urlset> with <url> entries
	SitemapIndex             // <sitemapindex> with <sitemap> entries
)

// String returns the name of the root element.
func (r Root) String() string { return rootNames[r] }

// Head describes the document itself: its one root rs:md and its root rs:ln
// elements. The capability decides about the necessary times: At with those of
// resources, From with those of changes, and neither has times of the other; Source
// Descriptions, Capability Lists and archives have none (Z39.99-2017, 8 to 13). In
// version 0.9 documents of changes have Until, too, and archives may have times.
type Head struct {
	Capability Capability // mandatory

	// At is when taking the snapshot began, Completed when it ended. They
	// belong to Resource Lists, Resource Dumps and their manifests
	// (Z39.99-2017, 10 and 11). Zero: not given.
	At, Completed time.Time

	// From and Until enclose the changes listed, both ends included. They
	// belong to Change Lists, Change Dumps and their manifests; without Until
	// the document is open and will be updated (Z39.99-2017, 12 and 13). In
	// version 0.9 archives have them, too. Zero: not given.
	From, Until time.Time

	Links []Link
}

// Link returns the reference of the first link with the relation rel, empty
// if there is none.
func (h *Head) Link(rel string) string { return firstLink(h.Links, rel) }

// Entry is one <url> or <sitemap>. The zero value of a field stands for an
// absent value, except for Length.
type Entry struct {
	Loc        string    // URI of the resource or document; mandatory
	LastMod    time.Time // Last-Modified of the resource
	ChangeFreq string    // always hourly daily weekly monthly yearly never
	Priority   string    // "0.0" to "1.0" (sitemaps.org); not used by ResourceSync

	Capability Capability // in Source Descriptions and Capability Lists
	Change     Change     // in Change Lists and Change Dump Manifests
	DateTime   time.Time  // instant of the change event; see also Changed
	Hashes     []Hash     // fixity of the answer to a GET of Loc
	Length     int64      // octets of it; -1 if unknown
	Type       string     // media type of it
	Encoding   string     // content codings applied to it
	Path       string     // in manifests: file in the package, with leading slash

	// Times of the document or package at Loc, as in [Head]; in indexes, dumps
	// and archives.
	At, Completed, From, Until time.Time

	// Event and Seq are attributes in [EventNamespace]: the event at the Source
	// for this entry, and its number there, from 1. Other readers ignore them.
	Event string
	Seq   uint64

	Links []Link
}

// Changed returns the instant of the change event: DateTime, or LastMod where
// there is none, as versions 1.0 and 0.9 have it.
func (e *Entry) Changed() time.Time {
	if e.DateTime.IsZero() {
		return e.LastMod
	}
	return e.DateTime
}

// Link returns the reference of the first link with the relation rel, empty
// if there is none.
func (e *Entry) Link(rel string) string { return firstLink(e.Links, rel) }

// Link is an rs:ln element (Z39.99-2017, 7 and 14). The zero value of a field
// stands for an absent value.
type Link struct {
	Rel      string // one of the Rel constants, registered with IANA, or a URI; mandatory
	Href     string // URI; mandatory
	Pri      int    // preference among links of one relation: 1 (first) to 999999
	Modified time.Time
	Hashes   []Hash
	Length   int64 // octets; 0 if unknown
	Type     string
	Encoding string
	Path     string // in Change Dump Manifests: the patch in the package
}

func firstLink(links []Link, rel string) string {
	for i := range links {
		if links[i].Rel == rel {
			return links[i].Href
		}
	}
	return ""
}

// Hash is one digest of a hash attribute, "alg:hex".
type Hash struct {
	Alg   string // md5, sha-1, sha-256; lower case
	Value string // lower-case hexadecimal; kept as it is where a Source wrote something else
}
