package publisher

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/digest"
	"cutie/queuefs/state"
	"cutie/sitemap"
	"cutie/wellknown"
)

// Two documents beside the Source Description and each Capability List describe
// the Source or the set: a page of XHTML 1.0 for people and JSON for programs.
// Both are made of one [about]. Links with describedby lead to them
// (Z39.99-2017, 8 and 9).
const (
	aboutPage = "about.html"
	aboutData = "about.json"
)

const (
	pageType = "text/html; charset=utf-8"
	dataType = "application/json"
)

// aboutLinks returns the links to both documents in a directory.
func aboutLinks(dir string) []sitemap.Link {
	return []sitemap.Link{
		{Rel: sitemap.RelDescribedBy, Href: dir + aboutPage, Type: "text/html"},
		{Rel: sitemap.RelDescribedBy, Href: dir + aboutData, Type: dataType},
	}
}

// An about describes the Source or a set. Times are UTC.
type about struct {
	About       string `json:"about"` // Source Description or Capability List
	Title       string `json:"title"`
	Description string `json:"description"`
	Version     string `json:"resourceSyncVersion"`
	Software    string `json:"software"`

	// Of a set.
	Set       string       `json:"set,omitempty"`
	Queue     *aboutQueue  `json:"queue,omitempty"`
	Resources *int64       `json:"resources,omitempty"` // in the Resource List
	Changes   *aboutChange `json:"changes,omitempty"`
	Dump      *aboutDump   `json:"resourceDump,omitempty"`
	Octets    *int64       `json:"octetsPublished,omitempty"` // of lists, packages and dumps that are kept

	Hashes    []string       `json:"hashes"`
	Mirrors   []string       `json:"mirrors,omitempty"`
	Via       string         `json:"via,omitempty"`
	Retention aboutRetention `json:"retention"`
	Limits    aboutLimits    `json:"limits"`

	Follow    []string        `json:"howToFollow"`
	Documents []aboutDocument `json:"documents,omitempty"` // of a set
	Queues    *int            `json:"queues,omitempty"`    // of the Source
	Sets      []aboutDocument `json:"sets,omitempty"`      // of the Source, those of the first queues
}

type aboutQueue struct {
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

type aboutChange struct {
	From     time.Time `json:"from"`     // of the oldest list that the index names
	OpenFrom time.Time `json:"openFrom"` // of the open list
	Open     int       `json:"openEntries"`
	Closed   int       `json:"closedLists"`
	Packages int       `json:"packages"`
}

type aboutDump struct {
	At       time.Time `json:"at"`
	Made     time.Time `json:"made"`
	Packages int       `json:"packages"`
}

// aboutRetention has seconds; 0 is as in [Options].
type aboutRetention struct {
	Period     int64 `json:"listPeriod"`
	DumpPeriod int64 `json:"dumpPeriod"`
	Current    int64 `json:"current"`
	Keep       int64 `json:"keep"`
	KeepOctets int64 `json:"keepOctets"`
}

type aboutLimits struct {
	Entries int   `json:"entries"` // of a document
	Octets  int64 `json:"octets"`  // of a document
	Package int64 `json:"package"` // octets of bitstreams
}

type aboutDocument struct {
	URI        string `json:"uri"`
	Capability string `json:"capability,omitempty"`
	Text       string `json:"text"`
	About      string `json:"describedby,omitempty"`
}

// about returns the parts common to the Source and its sets.
func (p *Publisher) about() about {
	seconds := func(d time.Duration) int64 { return int64(d / time.Second) }
	return about{
		Version: p.Dialect.String(), Software: queuefs.Scheme,
		Hashes: []string{digest.SHA256.Token()}, Mirrors: p.mirrors, Via: p.via,
		Retention: aboutRetention{Period: seconds(p.Period), DumpPeriod: seconds(p.DumpPeriod),
			Current: seconds(p.Current), Keep: seconds(p.Keep), KeepOctets: p.KeepOctets},
		Limits: aboutLimits{p.MaxEntries, p.MaxBytes, p.MaxPackage},
	}
}

// aboutQueues is how many queues the document about the Source names; all of
// them stand in the Source Description.
const aboutQueues = 500

// aboutSource returns the document about the Source with a name, nil if there is
// none.
func (p *Publisher) aboutSource(name string) *resource {
	if name != aboutPage && name != aboutData {
		return nil
	}
	queues := p.svc.queues()
	n := len(queues)
	a := p.about()
	a.About, a.Queues = p.site.description(), &n
	a.Title = "What " + string(p.site) + "/ publishes"
	a.Description = "The queues of a Cutie service, each published as two sets of resources by ResourceSync (ANSI/NISO Z39.99)."
	a.Follow = []string{
		"Choose a set below, or in the Source Description, and read what is said of it there: how it is followed hangs on the set.",
		"The set pending is for those who mirror work; the set replica is for those who must survive the original: it has all files of the queue.",
		"The Source Description is at " + wellknown.Path + "; payloads and job files lead to their Capability List by a Link header with the relation " + wellknown.Rel + ".",
	}
	for _, q := range queues[:min(n, aboutQueues)] {
		names := p.site.queue(q.ID())
		for s := range names.docs {
			a.Sets = append(a.Sets, aboutDocument{URI: names.docs[s] + docName{kind: capabilityList}.String(),
				Text: titleOf(Set(s), q.State().Info), About: names.docs[s] + name})
		}
	}
	return a.resource(name)
}

// about returns the document about the set, as aboutSource does.
func (s *set) about(name string) (*resource, error) {
	st, err := s.standing()
	if err != nil {
		return nil, err
	}
	now := s.q.State()
	s.mu.Lock()
	dump, archived, octets := s.current(), s.archives(), s.octets()+s.mark.length
	s.mu.Unlock()

	a := s.p.about()
	a.About, a.Set, a.Title = s.uri(docName{kind: capabilityList}), s.kind.String(), titleOf(s.kind, now.Info)
	a.Description = setTexts[s.kind]
	if now.Info.Digests.Has(digest.MD5) {
		a.Hashes = append(a.Hashes, digest.MD5.Token())
	}
	a.Queue = &aboutQueue{ID: now.Info.ID, Name: now.Info.Name, Description: now.Info.Description, State: s.names.queue, Info: s.names.info,
		Created: now.Info.Created.UTC(), LastEvent: s.orCreated(now.LastEvent), Events: uint64(now.Seq - now.Before),
		Pending: now.Pending, Consumed: now.Consumed, Deleted: now.Deleted}
	resources := int64(s.kind.size(int(now.Pending), int(now.Pending+now.Consumed+now.Deleted)))
	if s.kind == Replica {
		resources++ // queue-info.txt
	}
	a.Resources, a.Octets = &resources, &octets
	a.Changes = &aboutChange{From: st.from, OpenFrom: st.from, Open: st.entries, Closed: len(st.lists), Packages: len(st.packages)}
	if len(st.lists) > 0 {
		a.Changes.From = st.lists[0].from
	}
	if dump != nil {
		a.Dump = &aboutDump{At: dump.at, Made: dump.made.Truncate(time.Microsecond), Packages: len(dump.packages)}
	}
	a.Documents = []aboutDocument{{URI: s.uri(docName{kind: openList}), Capability: string(sitemap.ChangeList),
		Text: "the open Change List: the newest changes, true to the last event"}}
	for e := range s.offered(dump != nil, archived) {
		text := documentTexts[e.Capability]
		if text == "" {
			text = "notifications, pushed by the hub that is linked there"
		}
		a.Documents = append(a.Documents, aboutDocument{URI: e.Loc, Capability: string(e.Capability), Text: text})
	}
	a.Follow = s.p.howToFollow(dump != nil)
	return a.resource(name), nil
}

func titleOf(s Set, info queuefs.QueueInfo) string {
	name := info.Name
	if name == "" {
		name = info.ID
	}
	return [...]string{Pending: "Pending jobs of the queue ", Replica: "Replica of the queue "}[s] + name
}

var setTexts = [...]string{
	Pending: "One resource for each pending job of the queue: its payload, described by its job file. A job that is submitted or put back is created; one that is taken or deleted is deleted.",
	Replica: "Every file of the queue's directory under its own URL: payloads, job files and queue-info.txt. Copied to a directory of a Cutie home it is a queue.",
}

var documentTexts = map[sitemap.Capability]string{
	sitemap.ResourceList:        "all resources as they are now",
	sitemap.ChangeList:          "the index of the Change Lists, closed ones and the open one",
	sitemap.ChangeDump:          "the changes of closed lists in packages, with the files",
	sitemap.ResourceDump:        "all resources in packages, with the files",
	sitemap.ResourceListArchive: "former Resource Lists",
	sitemap.ResourceDumpArchive: "former Resource Dumps",
	sitemap.ChangeListArchive:   "closed Change Lists that the index no longer names",
	sitemap.ChangeDumpArchive:   "packages of changes that the Change Dump no longer names",
}

// howToFollow returns the steps of a Destination.
func (p *Publisher) howToFollow(dumped bool) []string {
	begin := "Begin with the Resource List and get each resource that it names."
	if dumped {
		begin = "Begin with the Resource List and get each resource that it names, or with the Resource Dump, whose packages have them."
	}
	instant := "datetime"
	if p.Dialect != sitemap.V11 {
		instant = "lastmod"
	}
	return []string{
		begin + " Remember the time at of the document (from in version 0.9): all changes up to then are in it.",
		"Then ask for the open Change List again and again and apply, in their order, the changes whose " + instant + " is later than the last you know. Send If-None-Match, and Prefer: wait=60 to be answered when there is something new; Range gets only what was appended.",
		"If the open list begins later than that, the Change List Index names the lists before it, and the Change Dump packages with the files. Closed lists and packages never change. If those begin too late as well, begin anew.",
		"Compare each file with the digest of its entry. One that is gone, or another, has a later change.",
	}
}

// resource returns the document with a name.
func (a *about) resource(name string) *resource {
	a.clean()
	var data bytes.Buffer
	e := json.NewEncoder(&data)
	e.SetEscapeHTML(false) // references stand in both forms as they are
	e.SetIndent("", "  ")
	e.Encode(a) // cannot fail
	text := data.Bytes
	media := dataType
	if name == aboutPage {
		text, media = func() []byte { return a.page() }, pageType
	}
	r := fixedText("ab-"+salt(name, data.String(), state.StyleHash), text)
	r.media = media
	return r
}

// clean makes texts of others fit for XML.
func (a *about) clean() {
	fit := func(s *string) { *s = strings.Map(fitForXML, strings.ToValidUTF8(*s, "\ufffd")) }
	fit(&a.Title)
	if a.Queue != nil {
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
