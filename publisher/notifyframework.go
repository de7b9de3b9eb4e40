package publisher

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"cutie/publisher/websub"
	"cutie/sitemap"
)

// documents returns the Framework Notification of those whose version is not
// what it was; now may be zero.
func (n *Notifier) documents(s seen, before string, now time.Time) (websub.Content, error) {
	if err := n.update(&s); err != nil {
		return websub.Content{}, err
	}
	v := append(versions{{n.p.site.description(), sitemap.Description, n.description()}}, s.versions...)
	c := websub.Content{Type: documentType, Upto: v.String()}
	var entries []byte
	old := strings.Split(before, ".")
	for i, d := range v {
		if d.version != noDocument && (len(old) != len(v) || old[i] != d.version) {
			entries = n.p.Dialect.AppendEntry(entries, sitemap.URLSet, &sitemap.Entry{
				Loc: d.loc, Capability: d.capability, Change: sitemap.Updated, DateTime: now, Length: -1})
		}
	}
	if len(entries) > 0 {
		c.Body = n.body(s.topic, n.Framework, time.Time{}, time.Time{}, entries)
	}
	return c, nil
}

// A version is how a document stands that Framework Notifications tell of.
type version struct {
	loc        string
	capability sitemap.Capability
	version    string // or noDocument
}

type versions []version

// String returns the position of a framework topic.
func (v versions) String() string {
	words := make([]string, len(v))
	for i := range v {
		words[i] = v[i].version
	}
	return strings.Join(words, ".")
}

// framework are the documents of a set that Framework Notifications tell of.
var framework = []struct {
	kind       docKind
	capability sitemap.Capability
}{
	{capabilityList, sitemap.CapabilityList},
	{changeIndex, sitemap.ChangeList},
	{changeDump, sitemap.ChangeDump},
	{resourceDump, sitemap.ResourceDump},
	{resourceListArchive, sitemap.ResourceListArchive},
	{changeListArchive, sitemap.ChangeListArchive},
	{resourceDumpArchive, sitemap.ResourceDumpArchive},
	{changeDumpArchive, sitemap.ChangeDumpArchive},
}

// versions looks at the documents of the set.
func (t topic) versions() (all versions, err error) {
	var errs []error
	for _, d := range framework {
		doc := docName{kind: d.kind}
		r, err := published{t.feed}.find(t.set, doc)
		v := noDocument
		if err == nil {
			v = versionOf(t.born, r)
		} else if !errors.Is(err, errNotFound) {
			errs = append(errs, err)
		}
		all = append(all, version{t.names.docs[t.set] + doc.String(), d.capability, v})
	}
	return all, errors.Join(errs...)
}

// noDocument is the version of one that is not there.
const noDocument = "-"

// versionOf returns a short word that differs with the state of a document.
func versionOf(born string, r *resource) string {
	sum := sha256.Sum256([]byte(born + "-" + r.tag))
	return hex.EncodeToString(sum[:6])
}

// description returns the version of the Source Description. It is one for all
// topics and takes as long as there are queues, so it is looked at a few times
// a second at most.
func (n *Notifier) description() string {
	const often = 200 * time.Millisecond
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.p.Now()
	if age := now.Sub(n.looked); n.source != "" && age >= 0 && age < often {
		return n.source
	}
	n.source, n.looked = versionOf("", n.p.description()), now
	return n.source
}
