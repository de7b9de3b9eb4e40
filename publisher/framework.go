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

// documents returns the Framework Notification of the documents whose version
// differs from before; now may be zero.
func (n *Notifier) documents(t topic, before string, now time.Time) (websub.Content, error) {
	v, err := n.versions(t)
	if err != nil {
		return websub.Content{}, err
	}
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
		c.Body = n.body(t, n.Framework, time.Time{}, time.Time{}, entries)
	}
	return c, nil
}

// A version is how a document stands.
type version struct {
	loc        string
	capability sitemap.Capability
	version    string // or noDocument
}

const noDocument = "-"

type versions []version

// String returns the position of a framework topic.
func (v versions) String() string {
	words := make([]string, len(v))
	for i := range v {
		words[i] = v[i].version
	}
	return strings.Join(words, ".")
}

// framework are the documents of a set in Framework Notifications.
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

// versions returns how the Source Description and the documents of a set stand.
func (n *Notifier) versions(t topic) (versions, error) {
	all := versions{{n.p.site.description(), sitemap.Description, n.description()}}
	var errs []error
	for _, d := range framework {
		doc := docName{kind: d.kind}
		r, err := t.find(doc)
		v := noDocument
		if err == nil {
			v = versionOf(t.born, r)
		} else if !errors.Is(err, errNotFound) {
			errs = append(errs, err)
		}
		all = append(all, version{t.uri(doc), d.capability, v})
	}
	return all, errors.Join(errs...)
}

// versionOf returns a short word that differs with the state of a document.
func versionOf(born string, r *resource) string {
	sum := sha256.Sum256([]byte(born + "-" + r.tag))
	return hex.EncodeToString(sum[:6])
}

// description returns the version of the Source Description. It takes as long
// as there are queues, and is one for all topics, so it is kept for a moment.
func (n *Notifier) description() string {
	const kept = 200 * time.Millisecond
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.p.Now()
	if age := now.Sub(n.readAt); n.source != "" && age >= 0 && age < kept {
		return n.source
	}
	n.source, n.readAt = versionOf("", n.p.description()), now
	return n.source
}
