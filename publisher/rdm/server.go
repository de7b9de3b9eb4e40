package rdm

import (
	"strconv"
	"strings"

	"cutie/publisher/soif"
	"cutie/queuefs"
	"cutie/queuefs/web"
)

// samples is how many descriptions the description of a catalog has.
const samples = 3

// describeServer answers server-description-request (Server Descriptions).
func (x *exchange) describeServer() error {
	if err := x.open(web.Read); err != nil {
		return err
	}
	q, service := x.catalog, x.h.svc.Info()
	info := q.Info()
	x.expires(holds)
	head := Header{Type: ServerResponse}
	b := soif.AppendHead(nil, serverObject, catalogID(x.base, q.ID()))
	if info.Description != "" {
		b = soif.AppendAttribute(b, "Description", info.Description)
	}
	b = soif.AppendAttribute(b, "Supported-RDM-Type", supported)
	b = soif.AppendAttribute(b, "Supported-RDM-Query-Language",
		strings.Join([]string{languages[RDRequest], languages[SchemaRequest], languages[TaxonomyRequest]}, ","))
	var catalogs []string
	for _, q := range x.h.svc.Queues() {
		if x.may(web.Read, q.ID()) {
			catalogs = append(catalogs, catalogID(x.base, q.ID()))
		}
	}
	b = soif.AppendAttribute(b, "Supported-Catalog-Service-ID", strings.Join(catalogs, ","))
	b = appendMaintainer(b, &service)
	short, n := &view{attributes: []string{"Title", "Status"}}, 0
	for _, id := range q.IDs(queuefs.ListOptions{Status: queuefs.Pending, Limit: samples}) {
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
	b = soif.AppendAttribute(b, "SD-Last-Modified", httpDate(file.Modified))
	b = soif.AppendAttribute(b, "SD-Expires", httpDate(x.h.o.Now().Add(holds)))
	for _, limit := range [...]struct {
		name string
		most int64
	}{{"Max-Message-Size", x.h.o.MaxBody}, {"Max-Object-Size", int64(x.h.o.MaxObject)},
		{"Max-Objects", int64(x.h.o.MaxObjects)}, {"Max-Ordered", int64(x.h.o.MaxOrdered)}} {
		b = soif.AppendAttribute(b, limit.name, number(limit.most))
	}
	return x.answer(&head, soif.AppendEnd(b))
}

// supported are the types of messages taken here.
var supported = strings.Join([]string{RDRequest.String(), RDRequestDeleted.String(), RDResponse.String(), RDResponseDeleted.String(),
	SchemaRequest.String(), ServerRequest.String(), TaxonomyRequest.String(), StatusRequest.String()}, ",")
