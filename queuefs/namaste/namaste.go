// Package namaste forms and reads Namaste tags, the files by which a directory
// names its kind: a Cutie home holds the file "0=cutie_0.3" with the content
// "Cutie/0.3" (Cutie 6). The package works on names and contents; it touches no
// file system.
//
// The content of a tag is its value. The file name is the tag's number, "=",
// and the value made fit for a file name. The name can lose something of the
// value, and never adds anything. There are two forms. The type tag, number 0,
// is formed as UC3 services do: in lower case, every run of characters but
// ASCII letters, digits, "-", "." and "_" made one "_", cut to 255 octets. The
// others are formed as File::Namaste does on Unix: "/" made "=", a run of white
// space one blank, a control character "?", cut to 16 characters.
//
// Left out are tags without a number, and transliteration to ASCII.
package namaste

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The numbers of the kernel tags.
const (
	Type = iota
	Who
	What
	When
	Where
)

// A Tag is one statement about the directory it stands in.
type Tag struct {
	Number int // Type to Where, or one of the reader's own; not negative
	Value  string
}

// FileName returns the name for the file of the tag.
func (t Tag) FileName() string {
	n := strconv.Itoa(t.Number) + "="
	if t.Number != Type {
		return n + Elide(fileValue(t.Value), 16, End, "..")
	}
	name := n + unfit.ReplaceAllString(strings.ToLower(t.Value), "_")
	if len(name) > 255 {
		name = name[:252] + "..."
	}
	return name
}

var unfit = regexp.MustCompile(`[^a-z0-9._-]+`)

// fileValue returns the value in the spelling of File::Namaste for file names.
func fileValue(value string) string {
	value = blanks.ReplaceAllString(strings.ReplaceAll(value, "/", "="), " ")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, value)
}

var blanks = regexp.MustCompile(`\s+`)

// Content returns the content for the file of the tag: the value and LF.
func (t Tag) Content() string { return t.Value + "\n" }

// Parse reads a tag from the name of its file and its content. The value is the
// content without the LF, CR or CRLF at its end, or if there is nothing else,
// the value in the file name. The two are not compared, since programs form the
// name in different ways; compare with [Tag.FileName].
func Parse(fileName, content string) (Tag, error) {
	m := tagName.FindStringSubmatch(fileName)
	if m == nil {
		return Tag{}, fmt.Errorf("%q is not the name of a Namaste tag", fileName)
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return Tag{}, fmt.Errorf("%q: number of the Namaste tag out of range", fileName)
	}
	value := strings.TrimSuffix(strings.TrimSuffix(content, "\n"), "\r")
	if value == "" {
		value = m[2]
	}
	return Tag{Number: n, Value: value}, nil
}

// A number has one spelling, so Find and Parse agree.
var tagName = regexp.MustCompile(`^(0|[1-9][0-9]*)=([^/]*)$`)

// Find returns the file names of tags with the given number, in their order. A
// home has exactly one of the number [Type].
func Find(fileNames []string, number int) []string {
	var found []string
	for _, name := range fileNames {
		if m := tagName.FindStringSubmatch(name); m != nil && m[1] == strconv.Itoa(number) {
			found = append(found, name)
		}
	}
	return found
}

// A Version is the value of a type tag: "Cutie/0.3" is the name "Cutie", Major
// 0 and Minor 3.
type Version struct {
	Name         string
	Major, Minor int
}

// ParseVersion reads the value of a type tag, with "/" or, as in file names,
// with "_". Versions of other than two numbers are refused.
func ParseVersion(value string) (Version, error) {
	m := version.FindStringSubmatch(value)
	if m == nil {
		return Version{}, fmt.Errorf("%q is not a type and version", value)
	}
	major, err1 := strconv.Atoi(m[2])
	minor, err2 := strconv.Atoi(m[3])
	if err := errors.Join(err1, err2); err != nil {
		return Version{}, fmt.Errorf("%q: version out of range", value)
	}
	return Version{Name: m[1], Major: major, Minor: minor}, nil
}

var version = regexp.MustCompile(`^([^_/]+)[_/](\d+)\.(\d+)$`)

// String returns the value of the type tag, such as "Cutie/0.3".
func (v Version) String() string {
	return fmt.Sprintf("%s/%d.%d", v.Name, v.Major, v.Minor)
}

// A Side is the part of a string to leave out.
type Side int

// The letters after the length in the arguments of File::Namaste.
const (
	End    Side = iota // "e", the default there
	Middle             // "m"
	Start              // "s"
)

// Elide cuts s to limit characters, if it has more, by leaving out the given
// side. The ellipsis takes the place of the missing part and counts too;
// without room for more, it stands alone. Around a missing middle the second
// half is the longer one.
func Elide(s string, limit int, side Side, ellipsis string) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	left := max(0, limit-utf8.RuneCountInString(ellipsis))
	r := []rune(s)
	head := left
	switch side {
	case Middle:
		head = left / 2
	case Start:
		head = 0
	}
	return string(r[:head]) + ellipsis + string(r[len(r)-(left-head):])
}
