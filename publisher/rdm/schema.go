package rdm

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"cutie/publisher/soif"
	"cutie/queuefs"
	"cutie/queuefs/web"
)

// holds is how long a description of the service or of its schema holds.
const holds = 24 * time.Hour

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
	head := Header{Type: SchemaResponse, Catalog: x.answered()}
	shown := entries[:0]
	for i, n := range entries {
		if x.view.wants(int64(i) + 1) {
			shown = append(shown, n)
		}
	}
	if len(shown) == 0 {
		head.Error = "0 results"
	}
	b := soif.AppendHead(nil, schemaObject, x.base.Ref("rdm", "incoming")+"?type="+SchemaRequest.String()+"&csid="+url.QueryEscape(x.answered()))
	b = soif.AppendAttribute(b, "Schema-Definition-Language-Version", "1.0")
	b = soif.AppendAttribute(b, "Schema-Name", documentObject)
	b = soif.AppendAttribute(b, "Last-Modified", httpDate(serviceDate(&info)))
	b = soif.AppendAttribute(b, "Number-of-Entries", strconv.Itoa(len(shown)))
	b = appendMaintainer(b, &info)
	for _, n := range shown {
		for _, a := range entryOf(n) {
			if x.view.has(a.Name) {
				b = soif.AppendAttribute(b, a.Name+"-"+strconv.Itoa(n+1), a.Value)
			}
		}
	}
	return x.answer(&head, soif.AppendEnd(b))
}

// serviceDate is the time of the last change to the facts of the service.
func serviceDate(info *queuefs.ServiceInfo) time.Time {
	if info.Modified.IsZero() {
		return info.Created
	}
	return info.Modified
}

func appendMaintainer(dst []byte, info *queuefs.ServiceInfo) []byte {
	if info.SupportURI == "" {
		return dst
	}
	return soif.AppendAttribute(dst, "Maintainer", strings.TrimPrefix(info.SupportURI, "mailto:"))
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
			// A value of 0 stands for an absent attribute.
			if strings.EqualFold(a.Name, name) && a.Value != "0" {
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
	e = append(e, f.extra...)
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
