package state

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs"
)

// ServiceClass is the class of the state of a service (Cutie 3.1). The
// properties from description on are additions.
var ServiceClass = &Class{
	Prefix: "cut", Root: "cutieServiceState", Namespace: namespace + "service",
	Terms: []Term{
		{Name: "name"},
		{Name: "identifier"},
		{Name: "serviceVersion"},
		{Name: "queueStates", Type: Reference, Item: "queueState", Always: true},
		{Name: "created", Type: Date},
		{Name: "lastModified", Type: Date},
		{Name: "serviceScheme"}, // Cutie/0.3/<serviceVersion>
		{Name: "baseURI", Type: Reference},
		{Name: "supportURI", Type: Reference},
		{Name: "description"},
		{Name: "sourceDescription", Type: Reference},             // ResourceSync
		{Name: "shutQueues", Type: Reference, Item: "shutQueue"}, // their queue-info.txt cannot be read now
		{Name: "lostQueues", Type: Reference, Item: "lostQueue"}, // their directories are lost
		// Of a home in an object store.
		{Name: "role"},                        // owner or standby
		{Name: "homeOwner"},                   // name of the process that owns the home
		{Name: "ownerURI", Type: Reference},   // where it answers
		{Name: "journalBatch", Type: Integer}, // the last one known here
		{Name: "upToDate", Type: Date},        // a standby has all changes up to this time
		// The changes of culling; see [Changes].
		{Name: "culledJobs", Item: "culledJob"},
		{Name: "keptJobs", Item: "keptJob"},
		{Name: "moreJobs", Type: Boolean},
	},
}

// MaxQueues is how many queues the state of the service names at most, and without a
// limit.
const MaxQueues = 1000

// Service is the state of a service.
type Service struct {
	queuefs.ServiceInfo
	Base    Base     // begins references; "": the BaseURI does
	Queues  []string // cleaned identifiers, in order
	Shut    []string // those of Queues that are shut
	Lost    []string // cleaned identifiers of queues that are not served: their directories are lost
	Node    Node     // of a home in an object store
	Changes Changes  // its Culled and More
}

// A Node is one of the processes with a home in an object store.
type Node struct {
	Role     string // "owner" or "standby"; "": the home is in a directory
	Owner    string // name of the owner
	OwnerURI string // where it answers
	Batch    uint64 // the last one of the journal that is known
	UpToDate time.Time
}

// NodeOf returns the node of a service.
func NodeOf(svc *queuefs.Service) (n Node) {
	st, ok := svc.Standing()
	if !ok {
		return n
	}
	n = Node{Role: "owner", Owner: st.Owner.Name, OwnerURI: st.Owner.URL, Batch: st.Batch, UpToDate: st.As}
	if st.Standby {
		n.Role = "standby"
	}
	return n
}

// node adds what there is of a node.
func (b *builder) node(n *Node) {
	if n.Role == "" {
		return
	}
	b.text("role", n.Role)
	b.text("homeOwner", n.Owner)
	b.optional("ownerURI", n.OwnerURI)
	b.integer("journalBatch", int64(n.Batch))
	b.date("upToDate", n.UpToDate)
}

// OfService returns the state of a service.
func OfService(s *Service) Document {
	base := cmp.Or(s.Base, NewBase(s.BaseURI))
	b := newBuilder(ServiceClass)
	b.text("name", s.Name)
	b.text("identifier", s.Identifier)
	b.text("serviceVersion", s.version())
	refs := func(ids []string) (refs []string) {
		for _, q := range ids {
			refs = append(refs, base.Ref("state", q))
		}
		return refs
	}
	b.list("queueStates", refs(s.Queues))
	created := s.Created
	if created.IsZero() { // of a home that others made
		created = s.Modified
	}
	b.date("created", created)
	b.date("lastModified", s.Modified)
	b.text("serviceScheme", s.Scheme)
	b.text("baseURI", s.BaseURI)
	b.text("supportURI", s.SupportURI)
	b.optional("description", s.Description)
	b.composed("sourceDescription", base.Append(b.buf, ".well-known", "resourcesync"))
	b.list("shutQueues", refs(s.Shut))
	b.list("lostQueues", refs(s.Lost))
	b.node(&s.Node)
	b.culled(&s.Changes)
	d := b.document()
	d.Subject, d.Base = base.Ref("state"), base
	return d
}

// version returns the implementation version: the third part of the scheme, or that of
// this program.
func (s *Service) version() string {
	if parts := strings.SplitN(s.Scheme, "/", 3); len(parts) == 3 {
		return parts[2]
	}
	return queuefs.Version
}

// Service returns the service in the state d, of class [ServiceClass].
func (d *Document) Service() Service {
	s := Service{ServiceInfo: queuefs.ServiceInfo{
		Name:        d.Text("name"),
		Identifier:  d.Text("identifier"),
		Description: d.Text("description"),
		Scheme:      d.Text("serviceScheme"),
		BaseURI:     d.Text("baseURI"),
		SupportURI:  d.Text("supportURI"),
		Created:     d.date("created"),
		Modified:    d.date("lastModified"),
	}}
	ids := func(name string) (ids []string) {
		for _, ref := range d.Items(name) {
			if _, q, ok := CutLast(ref); ok {
				ids = append(ids, q)
			}
		}
		return ids
	}
	s.Queues, s.Shut, s.Lost = ids("queueStates"), ids("shutQueues"), ids("lostQueues")
	s.Node = Node{Role: d.Text("role"), Owner: d.Text("homeOwner"), OwnerURI: d.Text("ownerURI"), UpToDate: d.date("upToDate")}
	s.Node.Batch, _ = strconv.ParseUint(d.Text("journalBatch"), 10, 64)
	return s
}
