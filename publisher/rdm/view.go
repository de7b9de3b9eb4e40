package rdm

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"cutie/publisher/soif"
)

// A view is the part of a result to send, and its order (RDM View
// Specification). The zero view is everything.
type view struct {
	attributes []string // nil: all; the URL is always sent
	order      []sortKey
	first      int64 // hit, from 1 on; 0 is 1
	last       int64 // 0: no end
}

type sortKey struct {
	name       string
	descending bool
}

const (
	maxViewNames = 100
	maxViewText  = 8 << 10 // octets
)

func parseView(attributes, order, hits string) (v view, err error) {
	if len(attributes) > maxViewText || len(order) > maxViewText {
		return v, badRequest("view has more than %d octets", maxViewText)
	}
	if strings.TrimSpace(attributes) != "" {
		v.attributes = listed(attributes)
	}
	for _, name := range listed(order) {
		// A plus sign in a URL arrives as a blank.
		k := sortKey{name: strings.TrimSpace(strings.TrimPrefix(name, "+"))}
		if rest, ok := strings.CutPrefix(name, "-"); ok {
			k = sortKey{strings.TrimSpace(rest), true}
		}
		if k.name == "" {
			return v, badRequest("%s %.80q names no attribute", nameViewOrder, order)
		}
		v.order = append(v.order, k)
	}
	if len(v.attributes) > maxViewNames || len(v.order) > maxViewNames {
		return v, badRequest("view names more than %d attributes", maxViewNames)
	}
	return v, v.parseHits(strings.TrimSpace(hits))
}

// listed splits a list; empty parts do not count.
func listed(list string) (all []string) {
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part != "" {
			all = append(all, part)
		}
	}
	return all
}

// parseHits reads N, A..B and A.. .
func (v *view) parseHits(hits string) error {
	if hits == "" {
		return nil
	}
	first, last, ranged := strings.Cut(hits, "..")
	if !ranged {
		first, last = "1", hits
	}
	var err1, err2 error
	v.first, err1 = strconv.ParseInt(strings.TrimSpace(first), 10, 64)
	if last = strings.TrimSpace(last); last != "" || !ranged {
		if v.last, err2 = strconv.ParseInt(last, 10, 64); v.last < v.first {
			err2 = strconv.ErrRange
		}
	}
	if err1 != nil || err2 != nil || v.first < 1 {
		return badRequest("%s %.40q is none of 10, 11..20, 11..", nameViewHits, hits)
	}
	return nil
}

// hits returns how many of n results are wanted.
func (v *view) hits(n int64) int64 {
	if v.last > 0 {
		n = min(n, v.last)
	}
	return max(0, n-max(v.first, 1)+1)
}

// wants reports whether hit number n is in the view.
func (v *view) wants(n int64) bool { return n >= v.first && !v.past(n) }

// past reports whether hit number n comes after the view.
func (v *view) past(n int64) bool { return v.last > 0 && n > v.last }

// has reports whether an attribute is in the view: by its name, or by its name
// without the number of a value.
func (v *view) has(name string) bool {
	if v.attributes == nil {
		return true
	}
	for _, want := range v.attributes {
		if strings.EqualFold(want, name) {
			return true
		}
		if base, n := soif.Base(name); n > 0 && strings.EqualFold(want, base) {
			return true
		}
	}
	return false
}

// keep removes attributes outside of the view.
func (v *view) keep(o *soif.Object) {
	kept := o.Attributes[:0]
	for _, a := range o.Attributes {
		if v.has(a.Name) {
			kept = append(kept, a)
		}
	}
	o.Attributes = kept
}

// parseSince reads the scopes of the query language gatherer: since when things
// are wanted, the zero time for all of them.
func parseSince(scope string) (time.Time, error) {
	word, rest, _ := strings.Cut(scope, " ")
	switch {
	case scope == "", strings.EqualFold(scope, "all"):
		return time.Time{}, nil
	case strings.EqualFold(word, "since"):
		t, err := http.ParseTime(strings.TrimSpace(rest))
		if err != nil {
			return t, badRequest("scope: date %.60q is not like %s", strings.TrimSpace(rest), http.TimeFormat)
		}
		return t, nil
	}
	return time.Time{}, badRequest("scope %.60q is neither all nor since DATE", scope)
}
