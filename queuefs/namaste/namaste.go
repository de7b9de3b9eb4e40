// Package namaste forms and reads Namaste tags, the files by which a directory
// names its kind: a Cutie home holds the file "0=cutie_0.3" with the content
// "Cutie/0.3" (Cutie 6). The package works on names and contents; it touches no
// file system.
//
// The content of a tag is its value. The file name is "0=" and the value made fit for a
// file name, as UC3 services do: in lower case, every run of characters but ASCII
// letters, digits, "-", "." and "_" made one "_", cut to 255 octets. The name can lose
// something of the value, and never adds anything.
//
// Left out are tags of other numbers, and transliteration to ASCII.
package namaste

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A Tag is the type tag, number 0, of the directory it stands in.
type Tag struct{ Value string }

// FileName returns the name for the file of the tag.
func (t Tag) FileName() string {
	name := "0=" + unfit.ReplaceAllString(strings.ToLower(t.Value), "_")
	if len(name) > 255 {
		name = name[:252] + "..."
	}
	return name
}

var unfit = regexp.MustCompile(`[^a-z0-9._-]+`)

// Content returns the content for the file of the tag: the value and LF.
func (t Tag) Content() string { return t.Value + "\n" }

// Parse reads a tag from the name of its file and its content. The value is the
// content without the LF, CR or CRLF at its end, or if there is nothing else,
// the value in the file name. The two are not compared, since programs form the
// name in different ways; compare with [Tag.FileName].
func Parse(fileName, content string) (Tag, error) {
	m := tagName.FindStringSubmatch(fileName)
	if m == nil {
		return Tag{}, fmt.Errorf("%q is not the name of a type tag", fileName)
	}
	value := strings.TrimSuffix(strings.TrimSuffix(content, "\n"), "\r")
	if value == "" {
		value = m[1]
	}
	return Tag{Value: value}, nil
}

var tagName = regexp.MustCompile(`^0=([^/]*)$`)

// Find returns the file names of type tags, in their order. A home has exactly one.
func Find(fileNames []string) []string {
	var found []string
	for _, name := range fileNames {
		if tagName.MatchString(name) {
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
