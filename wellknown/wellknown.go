// Package wellknown lets a ResourceSync Source be found, and finds one
// (ANSI/NISO Z39.99-2017, 6.3): by the well-known URI, by links in HTTP
// headers (RFC 8288) and HTML pages, and by robots.txt.
//
// [Discover] finds a Source; the rest are the small formats in which both sides meet.
package wellknown

// Path is where a site has its Source Description (RFC 8615).
const Path = "/.well-known/resourcesync"

// Rel is the link relation from a resource to its Capability List. It is not a
// relation between ResourceSync documents.
const Rel = "resourcesync"
