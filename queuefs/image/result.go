package image

import "bytes"

// In a page an entry with a small result begins with a zero, as no job file does. Programs
// without small results in images pass over it.

// ResultEntry returns the entry of a result.
func ResultEntry(name string, contents []byte) []byte {
	entry := make([]byte, 0, 2+len(name)+len(contents))
	entry = append(append(append(entry, 0), name...), 0)
	return append(entry, contents...)
}

// ParseResult is the opposite of [ResultEntry]; ok is false for a job file.
func ParseResult(entry []byte) (name string, contents []byte, ok bool) {
	if len(entry) == 0 || entry[0] != 0 {
		return "", nil, false
	}
	of, contents, ok := bytes.Cut(entry[1:], []byte{0})
	return string(of), contents, ok
}
