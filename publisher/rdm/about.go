package rdm

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"cutie/publisher/soif"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/web"
)

// holds is how long a description of the service or of its schema holds.
const holds = 24 * time.Hour

func maintainer(info *home.ServiceInfo) string {
	return strings.TrimPrefix(info.SupportURI, "mailto:")
}

// serviceName names the service, and its taxonomy.
func serviceName(info *home.ServiceInfo) string { return cmp.Or(info.Name, info.Identifier) }

// describeServer answers server-description-request (Server Descriptions).
func (x *exchange) describeServer() error {
	if err := x.open(web.Read); err != nil {
		return err
	}
	q, service := x.catalog, x.h.svc.Info()
	x.expires(holds)
	var catalogs, types, languages []string
	for _, q := range x.readable() {
		catalogs = append(catalogs, x.catalogID(q.ID()))
	}
	for _, k := range kinds() {
		types = append(types, k.name)
		if k.language != "" && !k.deleted() { // the language of rd-request is that of rd-request-deleted
			languages = append(languages, k.language)
		}
	}
	o := object(serverObject, x.answered(), "Description", q.Info().Description,
		"Supported-RDM-Type", strings.Join(types, ","), "Supported-RDM-Query-Language", strings.Join(languages, ","),
		"Supported-Catalog-Service-ID", strings.Join(catalogs, ","), "Maintainer", maintainer(&service))
	short, n := &view{attributes: []string{"Title", "Status"}}, 0
	for _, id := range q.IDs(index.Filter{Status: job.Pending, Limit: 3}) {
		status, changed := q.Status(id)
		sample, ok, err := x.describe(resource{id: id, status: status, changed: changed})
		if err != nil {
			return err
		}
		if ok {
			short.keep(&sample)
			n++
			o.Add("Sample-RD-"+strconv.Itoa(n), string(sample.Append(nil)))
		}
	}
	_, file := q.InfoFile()
	add(&o, "SD-Last-Modified", httpDate(file.Modified), "SD-Expires", httpDate(x.h.o.Now().Add(holds)),
		"Max-Message-Size", fmt.Sprint(x.h.o.MaxBody), "Max-Object-Size", fmt.Sprint(soif.DefaultLimit),
		"Max-Objects", fmt.Sprint(x.h.o.MaxObjects), "Max-Ordered", fmt.Sprint(x.h.o.MaxOrdered))
	return x.answer("", "", o)
}

// describeSchema answers schema-description-request (Schema Description). Its scope
// is "defined X": the fields with the attribute X of the schema language in their
// entries, or with the name X.
func (x *exchange) describeSchema() error {
	scope := cmp.Or(x.said(nameScope), "defined SOIF-Attribute")
	word, name, _ := strings.Cut(scope, " ")
	if name = strings.TrimSpace(name); !strings.EqualFold(word, "defined") || name == "" {
		return badRequest("scope %.60q is not defined ATTRIBUTE", scope)
	}
	if len(x.view.order) > 0 {
		return badRequest("the entries of a schema have numbers, and stay in their order")
	}
	if err := x.open(web.Read); err != nil {
		return err
	}
	x.expires(holds)
	var entries soif.Object
	found, shown := int64(0), 0
	for i := range fields {
		e := fields[i].entry(i + 1)
		if _, has := e.Lookup(name); !has && !strings.EqualFold(fields[i].name, name) {
			continue
		}
		if found++; !x.view.wants(found) {
			continue
		}
		shown++
		for _, a := range e.Attributes {
			if x.view.has(a.Name) {
				entries.Add(a.Name+"-"+strconv.Itoa(i+1), a.Value)
			}
		}
	}
	failure := ""
	if shown == 0 {
		failure = "0 results"
	}
	info := x.h.svc.Info()
	modified := info.Modified
	if modified.IsZero() {
		modified = info.Created
	}
	o := object(schemaObject, x.base.Ref("rdm", "incoming")+"?type="+x.kind.name+"&csid="+url.QueryEscape(x.answered()),
		"Schema-Definition-Language-Version", "1.0", "Schema-Name", documentObject, "Last-Modified", httpDate(modified),
		"Number-of-Entries", strconv.Itoa(shown), "Maintainer", maintainer(&info))
	o.Attributes = append(o.Attributes, entries.Attributes...)
	return x.answer("", failure, o)
}

// entry returns the schema entry of a field, without its number behind the names.
func (f *field) entry(number int) soif.Object {
	e := object(schemaObject, "", "SOIF-Attribute", f.name, "Description", f.about, "Data-Type", f.typ,
		"Content-Type", "text/plain")
	if f.flag != "" {
		e.Add(f.flag, "1")
	}
	// Requests without a view get all fields, in this order, and jobs as they were
	// submitted: that is the default view.
	e.Add("Default-View-Attribute", strconv.Itoa(number))
	if f.name == "Submitted" {
		e.Add("Default-View-Order", "1")
	}
	column := strings.ReplaceAll(strings.ToLower(f.name), "-", "_")
	add(&e, "Table-Name", "job", "Column-Name", column, "In-Root-Table", "1")
	return e
}

// root is the identifier of the top of the taxonomy.
const root = "ROOT"

// describeTaxonomy answers taxonomy-description-request (Taxonomy Description):
// below the service its queues, below each the statuses of jobs.
func (x *exchange) describeTaxonomy() error {
	depth, id, err := parseDescendant(x.said(nameScope))
	if err != nil {
		return err
	}
	if len(x.view.order) > 0 {
		return badRequest("a taxonomy is in the order of its tree")
	}
	queues, err := x.named()
	if err != nil {
		return err
	}
	info := x.h.svc.Info()
	taxonomy := serviceName(&info)
	nodes := []soif.Object{object(taxonomyObject, "", "Id", taxonomy, "Description", info.Description)}
	all, found := strings.EqualFold(id, root), int64(0)
	node := func(id, parent, about string) {
		if found++; x.view.wants(found) {
			o := object(classificationObject, "", "Id", id, "Parent-Id", parent, "Taxonomy-Id", taxonomy, "Description", about)
			x.view.keep(&o)
			nodes = append(nodes, o)
		}
	}
	if all {
		depth--
	}
	for _, q := range queues {
		here := all || id == q.ID()
		if here && depth >= 0 {
			node(q.ID(), root, q.Info().Description)
		}
		for st := job.Pending; st <= job.Deleted; st++ {
			if name := q.ID() + ":" + st.String(); here && depth >= 1 || id == name {
				node(name, q.ID(), "")
			}
		}
	}
	if found == 0 && !all {
		return web.Errorf(404, "classification not found: %.200s", id)
	}
	interpret := fmt.Sprintf("1 %s objects, %d %s objects", taxonomyObject, len(nodes)-1, classificationObject)
	return x.answer(interpret, "", nodes...)
}

// parseDescendant reads the scopes of taxonomy-basic: how deep, and below which
// node.
func parseDescendant(scope string) (depth int, id string, err error) {
	scope = cmp.Or(scope, "descendant "+root)
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
	queues, err := x.named()
	if err != nil {
		return err
	}
	info := x.h.svc.Info()
	var b strings.Builder
	b.WriteString("<UL>\n")
	for _, q := range queues {
		st := q.State()
		fmt.Fprintf(&b, "<LI><A HREF=\"%s\">%s</A>: %d pending, %d consumed, %d deleted",
			html.EscapeString(x.base.Ref("state", q.ID())), html.EscapeString(q.ID()), st.Pending, st.Consumed, st.Deleted)
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
	return x.answer("", "", statusOf(x.base.Ref("state"), title, b.String()))
}

// statusOf makes a status message (Status Message): facts for programs, as names and
// values, and a page of HTML 2.0. text is HTML.
func statusOf(url, title, text string, facts ...string) soif.Object {
	title = html.EscapeString(title)
	o := object(statusObject, url, "Content-Type", "text/html")
	add(&o, facts...)
	o.Add("Status-Message", "<!DOCTYPE HTML PUBLIC \"-//IETF//DTD HTML 2.0//EN\">\n<HTML><HEAD><TITLE>"+title+
		"</TITLE></HEAD>\n<BODY><H1>"+title+"</H1>\n"+text+"</BODY></HTML>\n")
	return o
}
