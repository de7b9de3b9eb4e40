// Package fetch gets documents and resources of a Source over HTTP, politely: over few
// connections, within a rate, again after errors that pass, and never without an end.
//
// A request is tried again after a broken connection and after the statuses 408, 429, 500,
// 502, 503 and 504, at the time in Retry-After or after a growing pause. A server gets
// credentials only if it is the one of the Source.
package fetch
