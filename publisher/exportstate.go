package publisher

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"cutie/queuefs/durable"
	"cutie/wellknown"
)

// exportFile stands in the directory of an Export and remembers what is there:
//
//	cutie export 1 FROM TO FLAGS
//	TAG LENGTH SHA256 FLAGS PATH
//
// FROM and TO are the base URIs of the Source and of the references here. A
// tag of "-" says that the document may be any, or none. Flags are a letter
// each, or "-": r for resources, u for unfinished, i for immutable.
const exportFile = ".cutie-export"

const exportTitle = "cutie export 1"

type exportState struct {
	from, to   string
	resources  bool
	unfinished bool // a Run did not come to its end: there may be more files than are named
	docs       map[string]exported
}

// An exported is one file of the tree, by the path that references have.
type exported struct {
	path   string
	tag    string // of the Source's document; "-" if unknown
	length int64  // of the file here
	sha256 string // of a package here, "-" else
	final  bool   // it never changes
}

// forget makes all documents to be got again.
func (s *exportState) forget() {
	s.unfinished = true
	for path, d := range s.docs {
		d.tag, d.final = "-", false
		s.docs[path] = d
	}
}

func (s *exportState) equal(t *exportState) bool {
	return s.from == t.from && s.to == t.to && s.resources == t.resources && s.unfinished == t.unfinished && maps.Equal(s.docs, t.docs)
}

// beginning is what may be there while s becomes t.
func (s *exportState) beginning(t *exportState) *exportState {
	b := &exportState{from: t.from, to: t.to, resources: t.resources, unfinished: true, docs: maps.Clone(s.docs)}
	for path, d := range t.docs {
		if s.docs[path] != d {
			b.docs[path] = exported{path: path, tag: "-", sha256: "-"}
		}
	}
	for path := range s.docs {
		if _, ok := t.docs[path]; !ok {
			b.docs[path] = exported{path: path, tag: "-", sha256: "-"}
		}
	}
	return b
}

func (s *exportState) append(dst []byte) []byte {
	dst = fmt.Appendf(dst, "%s %s %s %s\n", exportTitle, cmp.Or(s.from, "-"), cmp.Or(s.to, "-"), letters(s.resources, 'r', s.unfinished, 'u'))
	for _, path := range slices.Sorted(maps.Keys(s.docs)) {
		d := s.docs[path]
		dst = fmt.Appendf(dst, "%s %d %s %s %s\n", d.tag, d.length, d.sha256, letters(d.final, 'i', false, 0), path)
	}
	return dst
}

func letters(a bool, x byte, b bool, y byte) string {
	var s []byte
	if a {
		s = append(s, x)
	}
	if b {
		s = append(s, y)
	}
	return cmp.Or(string(s), "-")
}

func parseExportState(text string) (*exportState, error) {
	first, rest, ok := strings.Cut(text, "\n")
	head := strings.Split(first, " ")
	if !ok || len(head) != 6 || strings.Join(head[:3], " ") != exportTitle {
		return nil, fmt.Errorf("line 1 is %.200q", first)
	}
	s := &exportState{docs: make(map[string]exported)}
	uri := func(word string) string {
		if word == "-" {
			return ""
		}
		return word
	}
	s.from, s.to = uri(head[3]), uri(head[4])
	s.resources, s.unfinished = strings.Contains(head[5], "r"), strings.Contains(head[5], "u")
	n := 1
	for line := range strings.Lines(rest) {
		n++
		w := strings.Split(strings.TrimSuffix(line, "\n"), " ")
		if len(w) != 5 {
			return nil, fmt.Errorf("line %d is %.200q", n, line)
		}
		length, err := strconv.ParseInt(w[1], 10, 64)
		if _, _, ok := splitPath(w[4]); err != nil || length < 0 || !ok {
			return nil, fmt.Errorf("line %d is %.200q", n, line)
		}
		s.docs[w[4]] = exported{path: w[4], tag: w[0], length: length, sha256: w[2], final: w[3] == "i"}
	}
	if got := s.append(nil); !bytes.Equal(got, []byte(text)) {
		return nil, errors.New("it is not as it was written")
	}
	return s, nil
}

// maxExportState bounds the file: a million documents.
const maxExportState = 256 << 20

// readState reads the state, which is empty for a directory that has none.
func (d *exportDir) readState() (*exportState, error) {
	data, err := d.root.ReadFile(exportFile, nil, maxExportState)
	if err == nil {
		s, err := parseExportState(string(data))
		if err != nil {
			return nil, fmt.Errorf("%s: %w; remove it and what was exported", exportFile, err)
		}
		return s, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, tree := range []string{wellknown.Path, "/queues"} {
		dir, name, err := d.find(tree, false)
		if err == nil {
			_, err = dir.Stat(name)
		}
		if err == nil {
			return nil, fmt.Errorf("%s is there, but not by an export; remove it or take another directory", tree[1:])
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return &exportState{docs: make(map[string]exported)}, nil
}

func (d *exportDir) writeState(s *exportState) error {
	return d.root.Replace(exportFile, s.append(nil))
}

// sweep removes what a crash left unfinished.
func (d *exportDir) sweep() error {
	var stale []string
	if err := d.root.Names(func(name string) {
		if strings.HasPrefix(name, durable.TempPrefix) {
			stale = append(stale, name)
		}
	}); err != nil {
		return err
	}
	for _, name := range stale {
		if err := d.root.Remove(name); err != nil {
			return err
		}
	}
	return d.root.RemoveTree(stageName)
}
