package rdm

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"cutie/publisher/soif"
	"cutie/queuefs"
	"cutie/queuefs/web"
)

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
	nodes := x.nodes(queues, depth, id)
	if nodes == nil {
		return fmt.Errorf("%w", web.Errorf(404, "classification not found: %.200s", id))
	}
	x.expires(0)
	var shown []soif.Object
	for i := range nodes {
		if x.view.wants(int64(i) + 1) {
			x.view.keep(&nodes[i])
			shown = append(shown, nodes[i])
		}
	}
	info := x.h.svc.Info()
	head := Header{Type: TaxonomyResponse, Interpret: fmt.Sprintf("1 %s objects, %d %s objects", taxonomyObject, len(shown), classificationObject)}
	b := soif.AppendHead(nil, taxonomyObject, "")
	b = soif.AppendAttribute(b, "Id", taxonomyID(&info))
	if info.Description != "" {
		b = soif.AppendAttribute(b, "Description", info.Description)
	}
	b = soif.AppendEnd(b)
	for i := range shown {
		b = shown[i].Append(b)
	}
	return x.answer(&head, b)
}

func taxonomyID(info *queuefs.ServiceInfo) string {
	if info.Name != "" {
		return info.Name
	}
	return info.Identifier
}

// root is the identifier of the top of the taxonomy.
const root = "ROOT"

// nodes returns a classification, unless it is the root, and all below it; nil
// for an unknown identifier.
func (x *exchange) nodes(queues []*queuefs.Queue, depth int, id string) []soif.Object {
	info := x.h.svc.Info()
	taxonomy := taxonomyID(&info)
	node := func(id, parent, about string) soif.Object {
		o := soif.Object{Type: classificationObject}
		o.Add("Id", id)
		o.Add("Parent-Id", parent)
		o.Add("Taxonomy-Id", taxonomy)
		if about != "" {
			o.Add("Description", about)
		}
		return o
	}
	var list []soif.Object
	all := strings.EqualFold(id, root)
	if all {
		list = []soif.Object{}
		depth--
	}
	for _, q := range queues {
		here := all || id == q.ID()
		if here && depth >= 0 {
			list = append(list, node(q.ID(), root, q.Info().Description))
		}
		for st := queuefs.Pending; st <= queuefs.Deleted; st++ {
			if name := q.ID() + ":" + st.String(); here && depth >= 1 || id == name {
				list = append(list, node(name, q.ID(), ""))
			}
		}
	}
	return list
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
