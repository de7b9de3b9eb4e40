// Package source reads what a ResourceSync Source publishes (ANSI/NISO Z39.99-2017,
// versions 1.1, 1.0, 0.9 and the form of January 2013): its sets, the resources of a set,
// and the changes after a point in time.
//
// A Source is found by its well-known URI, a Capability List, any of its lists, a link in a
// page or a header, or robots.txt (6.3). Plain Sitemaps, all that
// robots.txt names, are a set with Resource Lists and nothing else.
//
// Documents are limited to 50 MB and 50,000 entries each, as the standard has it, and a
// list to 50,000 documents; an index may be in four others. References are resolved against the URI of their document.
//
// A [Client] makes its requests politely: over few connections, within a rate, and never
// without an end. A request is tried again after a broken connection and after the statuses
// 408, 429, 500, 502, 503 and 504, at the time in Retry-After or after a growing pause. A
// server gets credentials only if it is the one of the Source.
package source
