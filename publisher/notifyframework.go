package publisher

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"cutie/publisher/hub"
	"cutie/publisher/names"
	"cutie/sitemap"
)

// documents returns the Framework Notification of the documents whose version
// differs from before; now may be zero.
func (n *Notifier) documents(t topic, before string, now time.Time) (hub.Content, error) {
	v, err := n.versions(t)
	if err != nil {
		return hub.Content{}, err
	}
	c := hub.Content{Type: typeXML, Upto: v.String()}
	var entries []byte
	old := strings.Split(before, ".")
	for i, d := range v {
		if d.version != noDocument && (len(old) != len(v) || old[i] != d.version) {
			entries = n.pub.Dialect().AppendEntry(entries, sitemap.URLSet, &sitemap.Entry{
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
	kind       names.Kind
	capability sitemap.Capability
}{
	{names.CapabilityList, sitemap.CapabilityList},
	{names.ChangeIndex, sitemap.ChangeList},
	{names.ChangeDump, sitemap.ChangeDump},
	{names.ResourceDump, sitemap.ResourceDump},
	{names.ResourceListArchive, sitemap.ResourceListArchive},
	{names.ChangeListArchive, sitemap.ChangeListArchive},
	{names.ResourceDumpArchive, sitemap.ResourceDumpArchive},
	{names.ChangeDumpArchive, sitemap.ChangeDumpArchive},
}

// versions returns how the Source Description and the documents of a set stand.
func (n *Notifier) versions(t topic) (versions, error) {
	all := versions{{n.pub.Site().Description(), sitemap.Description, n.description()}}
	var errs []error
	for _, d := range framework {
		v := noDocument
		state, err := t.State(d.kind)
		if state != "" {
			v = versionOf(state)
		}
		errs = append(errs, err)
		all = append(all, version{t.URI(d.kind), d.capability, v})
	}
	return all, errors.Join(errs...)
}

// versionOf returns a short word that differs with the state of a document.
func versionOf(state string) string {
	sum := sha256.Sum256([]byte(state))
	return hex.EncodeToString(sum[:6])
}

// description returns the version of the Source Description. It takes as long
// as there are queues, and is one for all topics, so it is kept for a moment.
func (n *Notifier) description() string {
	const kept = 200 * time.Millisecond
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.pub.Now()
	if age := now.Sub(n.readAt); n.source != "" && age >= 0 && age < kept {
		return n.source
	}
	n.source, n.readAt = versionOf(n.pub.DescriptionState()), now
	return n.source
}
