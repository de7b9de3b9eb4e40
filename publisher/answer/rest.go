package answer

import (
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"cutie/publisher/compose"
)

// rest returns the request for a resource that grows at its end; tag is its entity
// tag now. A Range without a validator is ignored. An If-Range with the tag of
// an earlier state holds if the range begins where that state and this one are
// the same: the client then has the whole of this one. This is more than RFC 9110,
// 13.1.5 grants, which knows no resources of this kind. Compressed forms do not
// grow in this way.
func (s *Server) rest(r *http.Request, res *Resource, tag string, c compose.Coding) *http.Request {
	if r.Header.Get("Range") == "" || r.Header.Get("If-Match") != "" {
		return r
	}
	condition := textproto.TrimString(r.Header.Get("If-Range"))
	if condition == "" {
		return whole(r)
	}
	if condition == tag || c != compose.Identity {
		return r
	}
	earlier, ours := strings.CutPrefix(condition, `"`+s.Salt+res.Born+"-")
	earlier, closed := strings.CutSuffix(earlier, `"`)
	first, ok := firstByte(r.Header.Get("Range"))
	if !ours || !closed || !ok || first > res.Grown(earlier) {
		return whole(r)
	}
	r = r.Clone(r.Context())
	r.Header.Set("If-Range", tag)
	return r
}

// firstByte returns where the only range of a header begins. A suffix begins
// nowhere.
func firstByte(header string) (int64, bool) {
	unit, set, _ := strings.Cut(header, "=")
	first, _, ok := strings.Cut(set, "-")
	n, err := strconv.ParseInt(textproto.TrimString(first), 10, 64)
	return n, ok && err == nil && n >= 0 && strings.EqualFold(textproto.TrimString(unit), "bytes") && !strings.Contains(set, ",")
}
