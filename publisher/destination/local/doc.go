// Package local keeps the files of a Destination: copies of resources in a directory,
// each under a path made of its URI.
//
// # Paths
//
// A resource below the base URI of the Source has the rest of its URI as its path; any
// other one begins with the name ^SCHEME+HOST or ^SCHEME+HOST+PORT. The escape ^ cannot
// stand in a URI, so that each path leads back to its URI:
//
//	^2f   the octet 2f, where a file system or a shell would stumble over it
//	^     alone: an empty segment; at the end: of a URI with a slash there
//	NAME^ the file or the directory NAME, where the other one has that name
//	NAME^-/REST   a segment of more than 200 octets
//
// Where the file system does not tell a from A, capital letters are escaped as well.
//
// # Files
//
// A resource gets its path when its length and all its digests were verified. Until then
// its file has no name, or where a file system has no such files it is in .cutie-sync/:
// new-N is removed by the next run, part-DIGEST goes on with its rest as long as
// part-DIGEST.tag, a validator, names its octets; changes-N only grow. A file has the time
// of its resource, so that a later run knows a copy by length and time. All access is below
// the directory: symbolic links that lead out of it are refused.
package local
