// Package wellknown lets a ResourceSync Source be found, and finds one
// (ANSI/NISO Z39.99-2017, 6.3): by the well-known URI, by links in HTTP
// headers (RFC 8288) and HTML pages, and by robots.txt.
//
// [Handler] is the Source's side, [Discover] the Destination's; the rest are
// the small formats they meet in.
package wellknown

import "net/http"

// Path is where a site has its Source Description (RFC 8615).
const Path = "/.well-known/resourcesync"

// Rel is the link relation from a resource to its Capability List. It is not a
// relation between ResourceSync documents.
const Rel = "resourcesync"

// Handler makes a Source discoverable.
type Handler struct {
	// Description serves the Source Description. It is asked for Path alone,
	// with GET or HEAD, and the content type is set to application/xml before.
	Description http.Handler

	// Resources serves every other path.
	Resources http.Handler

	// CapabilityList returns the absolute URL of the Capability List for the
	// resource of a request, empty if there is none. The response then carries
	// a link to it.
	CapabilityList func(*http.Request) string
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != Path {
		if list := h.CapabilityList(r); list != "" {
			w.Header().Add("Link", Link(list, Rel))
		}
		h.Resources.ServeHTTP(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "application/xml")
	h.Description.ServeHTTP(w, r)
}
