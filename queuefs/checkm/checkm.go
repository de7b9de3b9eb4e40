// Package checkm reads Checkm manifests: lists of files, each with
// its digest, length and name (Checkm 2009-10-30, and 0.7 as Merritt uses it).
// A batch of jobs is submitted as one (Cutie 0.3, 5.5).
//
//	#%checkm_0.7
//	http://example.org/a.bin md5 b1946ac92492d2347c6235b4d2611184 6 - a.bin
//	http://example.org/b.bin | SHA-256 | 5891b5…be03 |  |  | b.bin
//	#%eof
//
// A line has up to six columns: source, digest type, digest, length, time of
// modification, target. Those at the end may be left out. A line with a bar has
// columns between bars, another has them between blanks and TABs. "-" or
// nothing stands for what is not specified.
//
// Between bars "%20" is a blank and "%7c" a bar, and no other "%" has a
// meaning; between blanks the target is percent-encoded as a URL is. The source
// is never decoded. A source behind "@" is itself a manifest, which continues
// this one. "url - - name" is read as Cutie 5.5 prints it, without the columns
// of length and time.
//
// Lines end with LF or CRLF; blank lines and those that begin with "#" are
// skipped, but for these, whose case does not count:
//
//	#%checkm…           the manifest has a mark at its end, else it was cut
//	#%fields, #%columns names and order of the columns, behind bars or blanks;
//	                    prefixes and case of the names do not count
//	#%eof               the mark; only white space may follow
//
// A byte order mark is skipped. Text is UTF-8 without control characters.
package checkm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// An Entry is a line of a manifest.
type Entry struct {
	Line     int    // of the manifest, from 1; ignored when written
	Include  bool   // the source is a manifest and continues this one
	Source   string // URL or file name, as it stands
	Alg      string // type of the digest, or "dir" for a directory; "" if not specified
	Digest   string // "" if not specified
	Length   int64  // octets; below 0 if not specified
	Modified string // as it stands; "" if not specified
	Target   string // name for the file; "" if not specified
	Extra    []Column
}

// A Column is a column besides the six known ones.
type Column struct {
	Name  string // as it stands in #%fields, such as "mrt:title"
	Value string // never ""
}

// Value returns the column of the given name, prefix and case aside, or "".
func (e *Entry) Value(name string) string {
	for _, c := range e.Extra {
		if plainName(c.Name) == plainName(name) {
			return c.Value
		}
	}
	return ""
}

// Name returns the name of the file: the last element of the target or else,
// decoded, of the path of the source. It is a label and never a path; "" if
// there is none.
func (e *Entry) Name() string {
	if name := last(e.Target); name != "" {
		return name
	}
	s, _, _ := strings.Cut(e.Source, "#")
	s, _, _ = strings.Cut(s, "?")
	if _, path, ok := strings.Cut(s, "://"); ok {
		if _, s, ok = strings.Cut(path, "/"); !ok {
			return ""
		}
	}
	name := last(s)
	if d := strings.ReplaceAll(unescape(name), "/", "_"); checkText(d) == nil {
		return last(d)
	}
	return name
}

// last returns the last element of a path, "" for "." and the like.
func last(path string) string {
	path = strings.TrimRight(path, "/")
	name := path[strings.LastIndexByte(path, '/')+1:]
	if name == "." || name == ".." {
		return ""
	}
	return name
}

// A ParseError names a line with an error.
type ParseError struct {
	Line int // of the input, from 1
	Err  error
}

func (e *ParseError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns e.Err.
func (e *ParseError) Unwrap() error { return e.Err }

// Errors within a [*ParseError].
var (
	ErrTooLarge  = errors.New("manifest too large")
	ErrTruncated = errors.New("truncated manifest: #%eof is missing")
)

// The six columns in their order.
const (
	source = iota
	alg
	digest
	length
	modified
	target
	known
)

// names are the names of the columns: by Merritt, and by Checkm 2009.
var names = [known][]string{
	source:   {"nfo:fileUrl", "SourceFileOrURL", "Source"},
	alg:      {"nfo:hashAlgorithm", "Alg", "Algorithm"},
	digest:   {"nfo:hashValue", "Digest"},
	length:   {"nfo:fileSize", "Length"},
	modified: {"nfo:fileLastModified", "ModTime"},
	target:   {"nfo:fileName", "TargetFileOrURL", "Target"},
}

// columnOf returns the number of a column by its name, -1 for another name.
func columnOf(name string) int {
	return slices.IndexFunc(names[:], func(all []string) bool {
		return slices.ContainsFunc(all, func(n string) bool { return plainName(n) == plainName(name) })
	})
}

func plainName(name string) string {
	return strings.ToLower(name[strings.LastIndexByte(name, ':')+1:])
}

const blanks = " \t"

// checkText refuses characters that no column may have.
func checkText(s string) error {
	if !utf8.ValidString(s) {
		return errors.New("text is not UTF-8")
	}
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] == 0x7f {
			return fmt.Errorf("text has the control character %#02x", s[i])
		}
	}
	return nil
}
