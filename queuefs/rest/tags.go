package rest

import (
	"net/http"
	"strconv"
	"strings"

	"cutie/queuefs"
	"cutie/queuefs/home"
	"cutie/queuefs/web"
)

// A version is the part of entity tags for the queue: the beginning of all tags
// of its states. Their ends tell forms and pages apart. Every event of the
// queue makes another version.
type version string

func (h *Handler) versionOf(r *request, s *queuefs.QueueState) version {
	hash := newTagHash()
	hash.add(string(h.base(r.Request)), strconv.FormatInt(s.Oldest.UnixMicro(), 10)) // a job being taken is no longer the oldest, before its event
	var text []byte
	for i := range home.Properties {
		text = home.Properties[i].Append(text[:0], &s.Info)
		hash.add(string(text))
	}
	return version(strings.TrimSuffix(hash.tag(uint64(s.Seq)), `"`))
}

// tag returns the entity tag of a view.
func (v version) tag(view tagHash) string {
	return string(v) + "-" + strconv.FormatUint(uint64(view), 36) + `"`
}

// names reports whether a tag is one of this version.
func (v version) names(tag string) bool {
	return strings.HasPrefix(tag, string(v)+"-") && strings.HasSuffix(tag, `"`)
}

// precondition checks If-Match and If-None-Match of a change against the
// present state of a queue (RFC 9110, 13.1): 412 if it is another. A tag of any
// form and page of the state will do.
func (h *Handler) precondition(r *request, q *queuefs.Queue) error {
	match, none := r.Header["If-Match"], r.Header["If-None-Match"]
	if match == nil && none == nil {
		return nil
	}
	s := q.State()
	v := h.versionOf(r, &s)
	switch {
	case match != nil && !web.AnyTag(match, v.names):
		return web.Errorf(http.StatusPreconditionFailed, "queue %s is not in the state that If-Match names", q.ID())
	case web.AnyTag(none, func(string) bool { return false }): // "*", to make queues
		return web.Errorf(http.StatusPreconditionFailed, "%s: %v", q.ID(), queuefs.ErrQueueExists)
	case web.AnyTag(none, func(tag string) bool { return v.names(strings.TrimPrefix(tag, "W/")) }):
		return web.Errorf(http.StatusPreconditionFailed, "queue %s is in the state that If-None-Match names", q.ID())
	}
	return nil
}

// A tagHash is an FNV-1a hash for an entity tag.
type tagHash uint64

func newTagHash() tagHash { return 14695981039346656037 }

func (t *tagHash) add(parts ...string) {
	for _, s := range parts {
		for i := 0; i < len(s); i++ {
			*t = (*t ^ tagHash(s[i])) * 1099511628211
		}
		*t = (*t ^ 0xff) * 1099511628211 // 0xff is no part of UTF-8
	}
}

// tag returns a strong entity tag; n is its growing part.
func (t tagHash) tag(n uint64) string {
	b := append(make([]byte, 0, 40), '"')
	b = append(strconv.AppendUint(b, n, 36), '-')
	return string(append(strconv.AppendUint(b, uint64(t), 36), '"'))
}
