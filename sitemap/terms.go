package sitemap

// Namespaces of the elements and attributes.
const (
	Namespace   = "http://www.sitemaps.org/schemas/sitemap/0.9"
	RSNamespace = "http://www.openarchives.org/rs/terms/"

	// EventNamespace holds the attributes cut:event and cut:seq of an entry's
	// rs:md.
	EventNamespace = "http://uc3.cdlib.org/ontology/mrt/cutie/event"
)

// Capability names the kind of a document, or of the document behind an entry.
// Extensions may add values of their own.
type Capability string

// Capabilities of Z39.99-2017, 7.
const (
	Description          Capability = "description"
	CapabilityList       Capability = "capabilitylist"
	ResourceList         Capability = "resourcelist"
	ChangeList           Capability = "changelist"
	ResourceDump         Capability = "resourcedump"
	ChangeDump           Capability = "changedump"
	ResourceDumpManifest Capability = "resourcedump-manifest"
	ChangeDumpManifest   Capability = "changedump-manifest"
)

// Capabilities of the archives specification. Their documents carry no times at
// the root; the entries do.
const (
	ResourceListArchive Capability = "resourcelist-archive"
	ResourceDumpArchive Capability = "resourcedump-archive"
	ChangeListArchive   Capability = "changelist-archive"
	ChangeDumpArchive   Capability = "changedump-archive"
)

// Capabilities of the notification specifications. The payload is otherwise a
// Change List.
const (
	ChangeNotification    Capability = "changelist-notification"
	FrameworkNotification Capability = "framework-notification"
)

// family decides about the times at the root of a document.
type family uint8

const (
	otherFamily    family = iota // not ours to judge
	resourceFamily               // at, completed
	changeFamily                 // from, until
	timeless
)

func (c Capability) family() family {
	switch c {
	case ResourceList, ResourceDump, ResourceDumpManifest:
		return resourceFamily
	case ChangeList, ChangeDump, ChangeDumpManifest:
		return changeFamily
	case Description, CapabilityList,
		ResourceListArchive, ResourceDumpArchive, ChangeListArchive, ChangeDumpArchive:
		return timeless
	}
	return otherFamily
}

// archive reports whether the capability is for an archive.
func (c Capability) archive() bool {
	switch c {
	case ResourceListArchive, ResourceDumpArchive, ChangeListArchive, ChangeDumpArchive:
		return true
	}
	return false
}

// Change is the kind of a change event (Z39.99-2017, 7).
type Change string

// The three kinds of change.
const (
	Created Change = "created"
	Updated Change = "updated"
	Deleted Change = "deleted"
)

// Link relations (Z39.99-2017, 7 and 14; archives). Others are allowed.
const (
	RelUp          = "up"          // to the Capability List, and from there to the Source Description
	RelIndex       = "index"       // from a part to its index
	RelArchives    = "archives"    // to the archive of documents of this kind
	RelDescribedBy = "describedby" // to metadata about the resource, set or Source
	RelDescribes   = "describes"   // from metadata to its subject
	RelProfile     = "profile"     // the rules for metadata
	RelContents    = "contents"    // from a package to a copy of its manifest
	RelDuplicate   = "duplicate"   // mirror, ordered by Pri
	RelAlternate   = "alternate"   // from the generic to a specific form
	RelTimeMap     = "timemap"     // lists versions
	RelCollection  = "collection"  // a collection the resource belongs to
	RelVia         = "via"         // where a republished resource came from originally
)

var (
	rootNames  = [...]string{URLSet: "urlset", SitemapIndex: "sitemapindex"}
	entryNames = [...]string{URLSet: "url", SitemapIndex: "sitemap"}
)
