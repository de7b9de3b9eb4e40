package rdm

import (
	"cmp"
	"errors"
	"fmt"
	"html"
	"io"
	"iter"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"cutie/publisher/soif"
	"cutie/queuefs"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/web"
)

// A field is an attribute that every description may have, and its entry in the schema.
type field struct {
	name  string
	about string
	typ   string                                     // Data-Type
	extra string                                     // a flag of the schema; "" for none
	value func(j *job.Job, changed time.Time) string // "" if the job lacks it
}

// fields are in the order of the default view; their places are the numbers in the schema.
var fields = [...]field{
	{"Title", "Job file name", "varchar", "", func(j *job.Job, _ time.Time) string { return j.Filename }},
	{"Identifier", "Job identifier, unique in its queue", "varchar", "Enforce-Uniqueness", func(j *job.Job, _ time.Time) string { return j.ID.String() }},
	{"Queue", "Queue identifier", "varchar", "Is-Internal", func(j *job.Job, _ time.Time) string { return j.Queue }},
	{"Status", "pending, consumed or deleted", "varchar", "", func(j *job.Job, _ time.Time) string { return j.Status.String() }},
	{"Classification", "Taxonomy node queue:status", "varchar", "", func(j *job.Job, _ time.Time) string { return j.Queue + ":" + j.Status.String() }},
	{"Submitter", "Submitting user agent", "varchar", "", func(j *job.Job, _ time.Time) string { return j.Submitter }},
	{"Size", "Payload size in octets", "int", "", func(j *job.Job, _ time.Time) string {
		if j.Submitted.IsZero() { // culled
			return ""
		}
		return strconv.FormatInt(j.Size, 10)
	}},
	{"Submitted", "Submission date", "date", "", func(j *job.Job, _ time.Time) string { return httpDate(j.Submitted) }},
	{"Consumed", "Consumption date", "date", "", func(j *job.Job, _ time.Time) string { return httpDate(j.Consumed) }},
	{"Deleted", "Deletion date", "date", "", func(j *job.Job, _ time.Time) string { return httpDate(j.Deleted) }},
	{"Sidecar", "Opaque sidecar data", "blob", "", func(j *job.Job, _ time.Time) string { return j.Sidecar }},
	{"Digest-Type", "Payload message digest type", "varchar", "", func(j *job.Job, _ time.Time) string {
		if len(j.Digests) == 0 {
			return ""
		}
		return j.Digests[0].Type.String()
	}},
	{"Digest-Value", "Payload message digest in hexadecimal", "varchar", "", func(j *job.Job, _ time.Time) string {
		if len(j.Digests) == 0 {
			return ""
		}
		return j.Digests[0].Hex
	}},
	{changedField, "Date of the last change of the job", "date", "", func(_ *job.Job, changed time.Time) string { return httpDate(changed) }},
}

const changedField = "RD-Last-Modified"

// A resource is a job to be described.
type resource struct {
	id      job.ID
	status  job.Status
	changed time.Time
	culled  bool // nothing but its number is known
}

// describe returns the description of a job, and false if the job has changed since. The
// description that was submitted is the payload: its attributes come first, and those of
// the job that it lacks follow.
func (x *exchange) describe(s *resource) (o soif.Object, ok bool, err error) {
	q := x.catalog
	j := job.Job{ID: s.id, Queue: q.ID(), Status: s.status}
	o = soif.Object{Type: documentObject, URL: x.base.JobRef("state", q.ID(), s.id)}
	if !s.culled {
		if j, err = q.Job(s.id); errors.Is(err, ledger.ErrNoJob) {
			return o, false, nil
		}
		if err != nil {
			return o, false, err
		}
		if status, changed := q.Status(s.id); status != s.status || !changed.Equal(s.changed) {
			return o, false, nil
		}
		if url := j.Extra.Value(elemURL); url != "" {
			o.URL = url
		}
		if err := x.submitted(&j, &o); err != nil {
			return o, false, err
		}
	}
	for i := range fields {
		f := &fields[i]
		_, given := o.Lookup(f.name)
		if value := f.value(&j, s.changed); value != "" && !given {
			o.Add(f.name, value)
		}
	}
	return o, true, nil
}

// submitted takes the description that was submitted as the payload of a job. A payload
// that is no SOIF is no description.
func (x *exchange) submitted(j *job.Job, o *soif.Object) error {
	if j.MediaType != soifType || j.Size > soif.DefaultLimit {
		return nil
	}
	in, err := x.catalog.Payload(j.ID)
	if err != nil {
		return err
	}
	defer in.Close()
	r := soif.NewReader(in)
	r.Memory = x.memory.Grow
	given, err := r.Read()
	if _, bad := errors.AsType[*soif.ParseError](err); bad || err == io.EOF {
		return nil
	}
	if err != nil {
		return err
	}
	o.Type = given.Type
	for _, a := range given.Attributes {
		if !strings.EqualFold(a.Name, changedField) { // ours is what since is about
			o.Attributes = append(o.Attributes, a)
		}
	}
	return nil
}

// holds is how long a description of the service or of its schema holds.
const holds = 24 * time.Hour

// describeServer answers server-description-request (Server Descriptions).
func (x *exchange) describeServer() error {
	if err := x.open(web.Read); err != nil {
		return err
	}
	q, service := x.catalog, x.h.svc.Info()
	x.expires(holds)
	var catalogs []string
	for _, q := range x.h.svc.Queues() {
		if x.may(web.Read, q.ID()) {
			catalogs = append(catalogs, catalogID(x.base, q.ID()))
		}
	}
	b := soif.AppendHead(nil, serverObject, catalogID(x.base, q.ID()))
	b = appendPairs(b, "Description", q.Info().Description,
		"Supported-RDM-Type", "rd-request,rd-request-deleted,rd-response,rd-response-deleted,"+
			"schema-description-request,server-description-request,taxonomy-description-request,status-request",
		"Supported-RDM-Query-Language", "gatherer,schema-basic,taxonomy-basic",
		"Supported-Catalog-Service-ID", strings.Join(catalogs, ","), "Maintainer", maintainer(&service))
	short, n := &view{attributes: []string{"Title", "Status"}}, 0
	for _, id := range q.IDs(index.Filter{Status: job.Pending, Limit: 3}) {
		status, changed := q.Status(id)
		o, ok, err := x.describe(&resource{id: id, status: status, changed: changed})
		if err != nil {
			return err
		}
		if ok {
			short.keep(&o)
			n++
			b = soif.AppendAttribute(b, "Sample-RD-"+strconv.Itoa(n), string(o.Append(nil)))
		}
	}
	_, file := q.InfoFile()
	b = appendPairs(b, "SD-Last-Modified", httpDate(file.Modified), "SD-Expires", httpDate(x.h.o.Now().Add(holds)),
		"Max-Message-Size", fmt.Sprint(x.h.o.MaxBody), "Max-Object-Size", fmt.Sprint(soif.DefaultLimit),
		"Max-Objects", fmt.Sprint(x.h.o.MaxObjects), "Max-Ordered", fmt.Sprint(x.h.o.MaxOrdered))
	return x.answer(&Header{}, soif.AppendEnd(b))
}

func maintainer(info *home.ServiceInfo) string {
	return strings.TrimPrefix(info.SupportURI, "mailto:")
}

// describeSchema answers schema-description-request (Schema Description).
func (x *exchange) describeSchema() error {
	entries, err := x.schemaEntries()
	if err != nil {
		return err
	}
	if len(x.view.order) > 0 {
		return badRequest("the entries of a schema have numbers, and stay in their order")
	}
	if err := x.open(web.Read); err != nil {
		return err
	}
	x.expires(holds)
	info := x.h.svc.Info()
	head := Header{Catalog: x.answered()}
	shown := entries[:0]
	for i, n := range entries {
		if x.view.wants(int64(i) + 1) {
			shown = append(shown, n)
		}
	}
	if len(shown) == 0 {
		head.Error = "0 results"
	}
	modified := info.Modified
	if modified.IsZero() {
		modified = info.Created
	}
	b := soif.AppendHead(nil, schemaObject, x.base.Ref("rdm", "incoming")+"?type="+string(SchemaRequest)+"&csid="+url.QueryEscape(x.answered()))
	b = appendPairs(b, "Schema-Definition-Language-Version", "1.0", "Schema-Name", documentObject, "Last-Modified", httpDate(modified),
		"Number-of-Entries", strconv.Itoa(len(shown)), "Maintainer", maintainer(&info))
	for _, n := range shown {
		for _, a := range entryOf(n) {
			if x.view.has(a.Name) {
				b = soif.AppendAttribute(b, a.Name+"-"+strconv.Itoa(n+1), a.Value)
			}
		}
	}
	return x.answer(&head, soif.AppendEnd(b))
}

// schemaEntries reads the scope "defined X": the places of fields with the
// attribute X of the schema language in their entries, or with the name X.
func (x *exchange) schemaEntries() (places []int, err error) {
	name := "SOIF-Attribute"
	if x.scope != "" {
		word, rest, _ := strings.Cut(x.scope, " ")
		if name = strings.TrimSpace(rest); !strings.EqualFold(word, "defined") || name == "" {
			return nil, badRequest("scope %.60q is not defined ATTRIBUTE", x.scope)
		}
	}
	for n := range fields {
		if strings.EqualFold(fields[n].name, name) {
			return []int{n}, nil
		}
		for _, a := range entryOf(n) {
			if strings.EqualFold(a.Name, name) {
				places = append(places, n)
			}
		}
	}
	return places, nil
}

// entryOf returns the schema entry of a field, without its number.
func entryOf(n int) []soif.Attribute {
	f := &fields[n]
	e := []soif.Attribute{{Name: "SOIF-Attribute", Value: f.name}, {Name: "Description", Value: f.about},
		{Name: "Data-Type", Value: f.typ}, {Name: "Content-Type", Value: "text/plain"}}
	if f.extra != "" {
		e = append(e, soif.Attribute{Name: f.extra, Value: "1"})
	}
	// Requests without a view get all fields, in this order, and jobs as they were
	// submitted: that is the default view.
	e = append(e, soif.Attribute{Name: "Default-View-Attribute", Value: strconv.Itoa(n + 1)})
	if f.name == "Submitted" {
		e = append(e, soif.Attribute{Name: "Default-View-Order", Value: "1"})
	}
	return append(e, soif.Attribute{Name: "Table-Name", Value: "job"},
		soif.Attribute{Name: "Column-Name", Value: strings.ReplaceAll(strings.ToLower(f.name), "-", "_")},
		soif.Attribute{Name: "In-Root-Table", Value: "1"})
}

// root is the identifier of the top of the taxonomy.
const root = "ROOT"

// describeTaxonomy answers taxonomy-description-request (Taxonomy Description):
// below the service its queues, below each the statuses of jobs.
func (x *exchange) describeTaxonomy() error {
	depth, id, err := parseDescendant(x.scope)
	if err != nil {
		return err
	}
	if len(x.view.order) > 0 {
		return badRequest("a taxonomy is in the order of its tree")
	}
	queues, err := x.readable()
	if err != nil {
		return err
	}
	nodes, ok := x.nodes(queues, depth, id)
	if !ok {
		return web.Errorf(404, "classification not found: %.200s", id)
	}
	info := x.h.svc.Info()
	b := appendObject(nil, taxonomyObject, "Id", serviceName(&info), "Description", info.Description)
	shown := 0
	for i := range nodes {
		if x.view.wants(int64(i) + 1) {
			x.view.keep(&nodes[i])
			b = nodes[i].Append(b)
			shown++
		}
	}
	return x.answer(&Header{Interpret: fmt.Sprintf("1 %s objects, %d %s objects", taxonomyObject, shown, classificationObject)}, b)
}

// serviceName names the service, and its taxonomy.
func serviceName(info *home.ServiceInfo) string {
	if info.Name != "" {
		return info.Name
	}
	return info.Identifier
}

// nodes returns a classification, unless it is the root, and all below it; false for an
// unknown identifier.
func (x *exchange) nodes(queues []*queuefs.Queue, depth int, id string) (list []soif.Object, ok bool) {
	info := x.h.svc.Info()
	add := func(id, parent, about string) {
		o := soif.Object{Type: classificationObject}
		o.Add("Id", id)
		o.Add("Parent-Id", parent)
		o.Add("Taxonomy-Id", serviceName(&info))
		if about != "" {
			o.Add("Description", about)
		}
		list = append(list, o)
	}
	all := strings.EqualFold(id, root)
	if all {
		depth--
	}
	for _, q := range queues {
		here := all || id == q.ID()
		if here && depth >= 0 {
			add(q.ID(), root, q.Info().Description)
		}
		for st := job.Pending; st <= job.Deleted; st++ {
			if name := q.ID() + ":" + st.String(); here && depth >= 1 || id == name {
				add(name, q.ID(), "")
			}
		}
	}
	return list, all || list != nil
}

// parseDescendant reads the scopes of taxonomy-basic: how deep, and below which
// node.
func parseDescendant(scope string) (depth int, id string, err error) {
	if scope == "" {
		scope = "descendant " + root
	}
	word, id, _ := strings.Cut(scope, " ")
	word, id = strings.ToLower(word), strings.TrimSpace(id)
	switch rest, numbered := strings.CutPrefix(word, "descendant/"); {
	case id == "":
		err = badRequest("scope %.60q names no classification", scope)
	case word == "descendant":
		depth = math.MaxInt
	case word == "children", word == "anklebiter":
		depth = 1
	case numbered:
		if depth, err = strconv.Atoi(rest); err != nil || depth < 0 {
			err = badRequest("scope %.60q: %.20q is no depth", scope, rest)
		}
	default:
		err = badRequest("scope %.60q is none of descendant ID, descendant/N ID, children ID, anklebiter ID", scope)
	}
	return depth, id, err
}

// describeStatus answers status-request.
func (x *exchange) describeStatus() error {
	queues, err := x.readable()
	if err != nil {
		return err
	}
	info := x.h.svc.Info()
	var b strings.Builder
	b.WriteString("<UL>\n")
	for _, q := range queues {
		st := q.State()
		fmt.Fprintf(&b, "<LI><A HREF=\"%s\">%s</A>: %d pending, %d consumed, %d deleted", html.EscapeString(x.base.Ref("state", q.ID())),
			html.EscapeString(q.ID()), st.Pending, st.Consumed, st.Deleted)
		if st.Held > 0 {
			fmt.Fprintf(&b, ", %d held", st.Held)
		}
		if !st.Info.Paused.IsZero() {
			b.WriteString(", paused")
		}
		b.WriteString("\n")
	}
	b.WriteString("</UL>\n")
	title := serviceName(&info) + ": running"
	if x.h.svc.Err() != nil {
		title = serviceName(&info) + ": storage failed"
	}
	var head Header
	if x.catalog != nil {
		head.Catalog = x.answered()
	}
	return x.answer(&head, appendStatus(nil, x.base.Ref("state"), page(title, b.String())))
}

// appendStatus appends a status message: facts for programs, as names and values, and a page.
func appendStatus(dst []byte, url, text string, facts ...string) []byte {
	dst = soif.AppendHead(dst, statusObject, url)
	dst = appendPairs(dst, "Content-Type", "text/html")
	dst = appendPairs(dst, facts...)
	return soif.AppendEnd(appendPairs(dst, "Status-Message", text))
}

// retrieve answers rd-request and rd-request-deleted.
func (x *exchange) retrieve() error {
	since, err := parseSince(x.scope)
	if err != nil {
		return err
	}
	if err := x.open(web.Read); err != nil {
		return err
	}
	st := x.catalog.State()
	x.w.Header().Set("Last-Modified", httpDate(st.LastEvent))
	n, err := x.h.names(x.catalog)
	if err != nil {
		return err
	}
	f := &finder{q: x.catalog, names: n, since: since, until: st.LastEvent, deleted: x.typ == RDRequestDeleted}
	if f.deleted && x.view.attributes == nil {
		x.view.attributes = []string{"Status", changedField}
	}
	found, hits := f.all(), int64(0)
	if len(x.view.order) > 0 {
		list, err := x.sorted(f)
		if err != nil {
			return err
		}
		found, hits = slices.Values(list), int64(len(list))
	} else {
		for range found {
			if hits++; hits == x.view.last {
				break
			}
		}
	}
	hits = x.view.hits(hits)
	head := Header{Catalog: x.answered(), Interpret: fmt.Sprintf("%d %s objects", hits, documentObject)}
	if hits == 0 {
		head.Interpret, head.Error = "", "0 results"
	}
	if err := x.answer(&head, nil); err != nil || hits == 0 {
		return cmp.Or(err, f.err)
	}
	var buf []byte
	hit := int64(0)
	held := x.memory.Held()
	for s := range found {
		if hit++; x.view.past(hit) || x.started && x.r.Method == http.MethodHead {
			break
		}
		if !x.view.wants(hit) {
			continue
		}
		x.memory.Return(held) // of the last one
		o, ok, err := x.describe(&s)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		x.view.keep(&o)
		buf = o.Append(buf[:0])
		if _, err := x.out.Write(buf); err != nil {
			return err
		}
		if err := x.r.Context().Err(); err != nil {
			return err
		}
	}
	return f.err
}

// A finder goes through a queue as it was at an instant.
type finder struct {
	q       *queuefs.Queue
	names   *names
	since   time.Time // nothing changed before
	until   time.Time // nothing changed after: this is left to the next answer
	deleted bool
	err     error
}

// all yields the jobs, in the order of the queue, then the culled jobs. It
// keeps one page of the index in memory.
func (f *finder) all() iter.Seq[resource] {
	return func(yield func(resource) bool) {
		var entries []ledger.Entry
		for n := range f.q.Pages() {
			if _, at, _, total := f.q.PageVersion(n); total == 0 || at.Before(f.since) {
				continue
			}
			entries, _, _ = f.q.Page(n, entries[:0])
			for j := range entries {
				e := &entries[j]
				if f.within(e.File.Modified) && f.names.wanted(e, f.deleted) &&
					!yield(resource{id: e.Job, status: e.Status, changed: e.File.Modified}) {
					return
				}
			}
		}
		if f.deleted {
			f.culled(yield)
		}
	}
}

func (f *finder) within(t time.Time) bool { return !t.Before(f.since) && !t.After(f.until) }

// culled goes through the tombstones.
func (f *finder) culled(yield func(resource) bool) {
	const many = 10_000
	// The index gives jobs after an instant; those of the instant belong to
	// them here.
	for after := f.since.Add(-time.Microsecond); ; {
		stones, err := f.q.Tombstones(after, many)
		if err != nil {
			f.err = err
			return
		}
		for i := range stones {
			if t := &stones[i]; f.within(t.Culled) && !yield(resource{id: t.Job, status: job.Deleted, changed: t.Culled, culled: true}) {
				return
			}
		}
		if len(stones) < many {
			return
		}
		after = stones[len(stones)-1].Culled
	}
}

// A ranked resource has a place in an order.
type ranked struct {
	resource
	keys []rank
}

// rankedBytes are those of a ranked resource with one key, in a list that grows.
const rankedBytes = 256

// A rank is a value for comparison: number for dates and integers, else the
// text in lower case. Missing values come first.
type rank struct {
	number int64
	text   string
}

// sorted returns the first hits of a finder in the order of the view.
func (x *exchange) sorted(f *finder) ([]resource, error) {
	most := x.h.o.MaxOrdered
	partly := x.view.last > 0 && x.view.last <= int64(most)
	if partly {
		most = int(x.view.last)
	}
	var list []ranked
	first := func() { // the order of the queue decides between equals
		slices.SortStableFunc(list, x.view.compare)
		clear(list[min(most, len(list)):])
		list = list[:min(most, len(list))]
	}
	held := x.memory.Held()
	for s := range f.all() {
		o, ok, err := x.describe(&s)
		if err != nil {
			return nil, err
		}
		r, size := ranked{resource: s}, rankedBytes
		for _, k := range x.view.order {
			key := rankOf(k.name, strings.Join(o.Values(k.name), "\n"))
			r.keys, size = append(r.keys, key), size+len(key.text)
		}
		x.memory.Return(held) // of the description
		if !ok {
			continue
		}
		if err := cmp.Or(x.memory.Take(size), x.r.Context().Err()); err != nil {
			return nil, err
		}
		held = x.memory.Held()
		list = append(list, r)
		switch {
		case len(list) > most && !partly:
			return nil, badRequest("more than %d descriptions are not put in order; %s asks for the first of them", most, nameViewHits)
		case len(list) >= 2*most:
			first()
		}
	}
	first()
	all := make([]resource, len(list))
	for i := range list {
		all[i] = list[i].resource
	}
	return all, f.err
}

func rankOf(name, value string) (k rank) {
	typ := ""
	if i := slices.IndexFunc(fields[:], func(f field) bool { return strings.EqualFold(f.name, name) }); i >= 0 {
		typ = fields[i].typ
	}
	switch typ {
	case "date":
		if t, err := http.ParseTime(value); err == nil {
			k.number = t.Unix()
		}
	case "int":
		k.number, _ = strconv.ParseInt(value, 10, 64)
	default:
		k.text = strings.ToLower(value)
	}
	return k
}

// compare puts ranked resources in the order of the view.
func (v *view) compare(a, b ranked) int {
	for i, k := range v.order {
		c := cmp.Or(cmp.Compare(a.keys[i].number, b.keys[i].number), strings.Compare(a.keys[i].text, b.keys[i].text))
		if k.descending {
			c = -c
		}
		if c != 0 {
			return c
		}
	}
	return 0
}
