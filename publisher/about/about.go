// Package about describes a Source and its sets in words: in JSON for programs
// and, with a Page to print it, for people. The documents stand beside the Source
// Description and each Capability List. Links with describedby lead to them
// (Z39.99-2017, 8 and 9).
package about

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"cutie/publisher/names"
	"cutie/queuefs/state"
	"cutie/sitemap"
)

// Names of the documents.
const (
	PageName = "about.html"
	DataName = "about.json"
)

// A Page prints an About for people. The zero Page prints nothing: then there are
// no pages, and no links to them.
type Page struct {
	Print  func(*About) []byte // HTML in UTF-8
	Policy string              // its Content-Security-Policy
}

// Links returns the links to the documents in a directory.
func (p *Page) Links(dir string) []sitemap.Link {
	data := sitemap.Link{Rel: sitemap.RelDescribedBy, Href: dir + DataName, Type: "application/json"}
	if p.Print == nil {
		return []sitemap.Link{data}
	}
	return []sitemap.Link{{Rel: sitemap.RelDescribedBy, Href: dir + PageName, Type: "text/html"}, data}
}

// An About describes the Source or a set. Times are UTC.
type About struct {
	state.Typed

	Home        string `json:"-"`     // page about all queues
	About       string `json:"about"` // Source Description or Capability List
	Title       string `json:"title"`
	Description string `json:"description"`
	Version     string `json:"resourceSyncVersion"`
	Software    string `json:"software"`

	*OfSet // nil for the Source

	Hashes    []string  `json:"hashes"`
	Mirrors   []string  `json:"mirrors,omitempty"`
	Via       string    `json:"via,omitempty"`
	Retention Retention `json:"retention"`
	Limits    Limits    `json:"limits"`

	Follow    []string   `json:"howToFollow"`
	Documents []Document `json:"documents,omitempty"` // of a set
	Queues    *int       `json:"queues,omitempty"`    // of the Source
	Sets      []Document `json:"sets,omitempty"`      // of the Source: of the first queues
}

// OfSet is about a set alone.
type OfSet struct {
	Set       string  `json:"set"`
	Queue     Queue   `json:"queue"`
	Resources int64   `json:"resources"` // in the Resource List, without results
	Changes   Changes `json:"changes"`
	Dump      *Dump   `json:"resourceDump,omitempty"`
	Octets    int64   `json:"octetsPublished"` // of all lists, packages and dumps
}

// A Queue is the one a set is of.
type Queue struct {
	ID          string    `json:"identifier"`
	Name        string    `json:"name,omitempty"`
	Description string    `json:"description,omitempty"`
	State       string    `json:"state"` // reference
	Info        string    `json:"info"`  // reference
	Created     time.Time `json:"created"`
	LastEvent   time.Time `json:"lastEvent"`
	Events      uint64    `json:"events"`
	Pending     int64     `json:"pending"`
	Consumed    int64     `json:"consumed"`
	Deleted     int64     `json:"deleted"`
}

// Changes stand in Change Lists and in the Change Dump.
type Changes struct {
	From     time.Time `json:"from"`     // of the oldest list in the index
	OpenFrom time.Time `json:"openFrom"` // of the open list
	Open     int       `json:"openEntries"`
	Closed   int       `json:"closedLists"`
	Packages int       `json:"packages"`
}

// A Dump is the Resource Dump.
type Dump struct {
	At       time.Time `json:"at"`
	Made     time.Time `json:"made"`
	Packages int       `json:"packages"`
}

// Retention has seconds; 0 is as in the options of the Publisher.
type Retention struct {
	Period     int64 `json:"listPeriod"`
	DumpPeriod int64 `json:"dumpPeriod"`
	Current    int64 `json:"current"`
	Keep       int64 `json:"keep"`
	KeepOctets int64 `json:"keepOctets"`
}

// Limits bound documents and packages.
type Limits struct {
	Entries int   `json:"entries"` // of a document
	Octets  int64 `json:"octets"`  // of a document
	Package int64 `json:"package"` // octets of bitstreams
}

// A Document is one to read next.
type Document struct {
	URI        string `json:"uri"`
	Capability string `json:"capability,omitempty"`
	Text       string `json:"text"`
	About      string `json:"describedby,omitempty"`
}

// More returns how many queues of the Source have no set in Sets.
func (a *About) More() int { return *a.Queues - len(a.Sets)/names.Sets }

// JSON returns the document for programs.
func (a *About) JSON() []byte {
	a.Typed = state.AboutClass.Typed()
	var data bytes.Buffer
	e := json.NewEncoder(&data)
	e.SetEscapeHTML(false) // references stand in both forms as they are
	e.SetIndent("", "  ")
	e.Encode(a) // cannot fail
	return data.Bytes()
}

// Clean makes texts of others fit for XML.
func (a *About) Clean() {
	fit := func(s *string) { *s = strings.Map(fitForXML, strings.ToValidUTF8(*s, "\ufffd")) }
	fit(&a.Title)
	if a.OfSet != nil {
		fit(&a.Queue.Name)
		fit(&a.Queue.Description)
	}
	for i := range a.Sets {
		fit(&a.Sets[i].Text)
	}
}

// fitForXML replaces characters XML 1.0 cannot have (2.2).
func fitForXML(c rune) rune {
	if c < ' ' && c != '\t' && c != '\n' && c != '\r' || c == 0xfffe || c == 0xffff {
		return '\ufffd'
	}
	return c
}
