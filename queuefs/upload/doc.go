// Package upload has the payload of a job on its way: hashed once, in memory up to a
// limit, and above the limit in a temporary file. It knows no queue and no journal:
// committing or removing the file is the work of the caller.
package upload
