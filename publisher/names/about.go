package names

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"cutie/queuefs/home"
	"cutie/queuefs/state"
	"cutie/sitemap"
)

// Names of the documents.
const (
	AboutPageName = "about.html"
	AboutDataName = "about.json"
)

// An AboutPage prints an About for people. The zero AboutPage prints nothing: then there are
// no pages, and no links to them.
type AboutPage struct {
	Print  func(*About) []byte // HTML in UTF-8
	Policy string              // its Content-Security-Policy
}

// Links returns the links to the documents in a directory.
func (p *AboutPage) Links(dir string) []sitemap.Link {
	data := sitemap.Link{Rel: sitemap.RelDescribedBy, Href: dir + AboutDataName, Type: "application/json"}
	if p.Print == nil {
		return []sitemap.Link{data}
	}
	return []sitemap.Link{{Rel: sitemap.RelDescribedBy, Href: dir + AboutPageName, Type: "text/html"}, data}
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

	*AboutSet // nil for the Source

	Hashes    []string       `json:"hashes"`
	Mirrors   []string       `json:"mirrors,omitempty"`
	Via       string         `json:"via,omitempty"`
	Retention AboutRetention `json:"retention"`
	Limits    AboutLimits    `json:"limits"`

	Follow    []string        `json:"howToFollow"`
	Documents []AboutDocument `json:"documents,omitempty"` // of a set
	Queues    *int            `json:"queues,omitempty"`    // of the Source
	Sets      []AboutDocument `json:"sets,omitempty"`      // of the Source: of the first queues
}

// An AboutSet is about a set alone.
type AboutSet struct {
	Set       string       `json:"set"`
	Queue     AboutQueue   `json:"queue"`
	Resources int64        `json:"resources"` // in the Resource List, without results
	Changes   AboutChanges `json:"changes"`
	Dump      *AboutDump   `json:"resourceDump,omitempty"`
	Octets    int64        `json:"octetsPublished"` // of all lists, packages and dumps
}

// An AboutQueue is the queue of a set.
type AboutQueue struct {
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

// AboutChanges stand in Change Lists and in the Change Dump.
type AboutChanges struct {
	From     time.Time `json:"from"`     // of the oldest list in the index
	OpenFrom time.Time `json:"openFrom"` // of the open list
	Open     int       `json:"openEntries"`
	Closed   int       `json:"closedLists"`
	Packages int       `json:"packages"`
}

// An AboutDump is the Resource Dump.
type AboutDump struct {
	At       time.Time `json:"at"`
	Made     time.Time `json:"made"`
	Packages int       `json:"packages"`
}

// AboutRetention has seconds; 0 is as in the options of the Publisher.
type AboutRetention struct {
	Period     int64 `json:"listPeriod"`
	DumpPeriod int64 `json:"dumpPeriod"`
	Current    int64 `json:"current"`
	Keep       int64 `json:"keep"`
	KeepOctets int64 `json:"keepOctets"`
}

// AboutLimits bound documents and packages.
type AboutLimits struct {
	Entries int   `json:"entries"` // of a document
	Octets  int64 `json:"octets"`  // of a document
	Package int64 `json:"package"` // octets of bitstreams
}

// An AboutDocument is one to read next.
type AboutDocument struct {
	URI        string `json:"uri"`
	Capability string `json:"capability,omitempty"`
	Text       string `json:"text"`
	About      string `json:"describedby,omitempty"`
}

// More returns how many queues of the Source have no set in Sets.
func (a *About) More() int { return *a.Queues - len(a.Sets)/Sets }

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
	if a.AboutSet != nil {
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

// SetTitle returns the title of a set of a queue.
func SetTitle(s Set, info home.QueueInfo) string {
	name := info.Name
	if name == "" {
		name = info.ID
	}
	return [...]string{Pending: "Pending jobs of the queue ", Replica: "Replica of the queue "}[s] + name
}

// SourceText describes the Source.
const SourceText = "The queues of a Cutie service, each published as two sets of resources by ResourceSync (ANSI/NISO Z39.99)."

// SetText describes a set.
func SetText(s Set) string {
	return [...]string{
		Pending: "One resource for each pending job of the queue: its payload, described by its job file. A job that is submitted or put back is created; one that is taken or deleted is deleted.",
		Replica: "Every file of the queue's directory under its own URL: payloads, job files and queue-info.txt. Copied to a directory of a Cutie home it is a queue.",
	}[s]
}

// OpenListText describes the open Change List.
const OpenListText = "the open Change List: the newest changes, true to the last event"

// DocumentText describes a document of a capability.
func DocumentText(c sitemap.Capability) string {
	if text := texts[c]; text != "" {
		return text
	}
	return "notifications, pushed by the hub that is linked there"
}

var texts = map[sitemap.Capability]string{
	sitemap.ResourceList:        "all resources as they are now",
	sitemap.ChangeList:          "the index of the Change Lists, closed ones and the open one",
	sitemap.ChangeDump:          "the changes of closed lists in packages, with the files",
	sitemap.ResourceDump:        "all resources in packages, with the files",
	sitemap.ResourceListArchive: "former Resource Lists",
	sitemap.ResourceDumpArchive: "former Resource Dumps",
	sitemap.ChangeListArchive:   "closed Change Lists that the index no longer names",
	sitemap.ChangeDumpArchive:   "packages of changes that the Change Dump no longer names",
}

// ChooseSet returns the first steps of a Destination; description is the path of
// the Source Description, rel the relation of links to a Capability List.
func ChooseSet(description, rel string) []string {
	return []string{
		"Choose a set below, or in the Source Description. Its page says how to follow it.",
		"The set pending is for a mirror of the work to do. The set replica has all files of the queue, for a copy to outlive the original.",
		"The Source Description is at " + description + "; payloads and job files lead to their Capability List by a Link header with the relation " + rel + ".",
	}
}

// FollowSet returns the steps of a Destination of a set, with or without a
// Resource Dump, a Change Dump, and archives of Change Lists and their packages.
func FollowSet(d sitemap.Dialect, dumped, packed, archived, archivedPackages bool) []string {
	begin := "Begin with the Resource List and get each resource that it "
	if dumped {
		begin = "Begin with the Resource List and get each resource that it names, or with the Resource Dump, whose packages have them."
	}
	instant := "datetime"
	if d != sitemap.V11 {
		instant = "lastmod"
	}
	reach, older := "", ""
	if dumped {
		reach = ", as far back as the Resource Dump at least"
	}
	if packed {
		reach += ", and the Change Dump packages with the files"
	}
	if archived {
		older = " The Change List Archive names still older lists."
	}
	if archivedPackages {
		older += " The Change Dump Archive names older packages."
	}
	return []string{
		begin + " Remember the time at of the document (from in version 0.9): all changes up to then are in it.",
		"Then ask for the open Change List again and again and apply, in their order, the changes whose " + instant + " is later than the last you know. Send If-None-Match with the last ETag, and Prefer: wait=60 to be answered when there is something new: 304 is nothing new.",
		"If the open list begins (from) later than that, a list was closed meanwhile: the Change List Index names the lists before it" + reach + ". Closed lists and packages never change." + older,
		"If those begin too late as well, or the answer is 410, what you need is no longer kept: begin anew. The answer 410 says with what, and its time at.",
		"Compare each file with the digest of its entry. One that is gone, or another, has a later change.",
	}
}
