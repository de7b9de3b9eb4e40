package documents

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

	"cutie/wellknown"
)

// stateFile says what the directory of a [Mirror] has:
//
//	cutie export 1 FROM TO FLAGS [WEB]
//	TAG LENGTH SHA256 FLAGS PATH
//
// FROM and TO are the base URIs of the Source and of the references here. With
// the tag "-" the document may be any, or absent. Flags are letters, or "-": r
// for resources, u for unfinished, i for immutable. WEB is the URL of a [Web] that has the
// same files.
const stateFile = ".cutie-export"

const stateTitle = "cutie export 1"

type state struct {
	from, to   string
	web        string // "": there is none
	resources  bool
	unfinished bool // a run did not end: there may be files not named here
	docs       map[string]doc
}

// A doc is one file of the tree; path is that of its reference.
type doc struct {
	path   string
	tag    string // entity tag at the Source; "-" if unknown
	length int64  // bytes of the file here
	sha256 string // of a package here; otherwise "-"
	final  bool   // never changes
}

// forget makes the next run get all documents again.
func (s *state) forget() {
	s.unfinished = true
	for path, d := range s.docs {
		d.tag, d.final = "-", false
		s.docs[path] = d
	}
}

func (s *state) equal(t *state) bool {
	return s.from == t.from && s.to == t.to && s.web == t.web && s.resources == t.resources && s.unfinished == t.unfinished && maps.Equal(s.docs, t.docs)
}

// until returns the state of the directory while s becomes t.
func (s *state) until(t *state) *state {
	b := &state{from: t.from, to: t.to, web: t.web, resources: t.resources, unfinished: true, docs: maps.Clone(s.docs)}
	for _, docs := range []map[string]doc{s.docs, t.docs} {
		for path := range docs {
			if had, ok := s.docs[path]; !ok || had != t.docs[path] {
				b.docs[path] = doc{path: path, tag: "-", sha256: "-"}
			}
		}
	}
	return b
}

func (s *state) append(dst []byte) []byte {
	flags := ""
	if s.resources {
		flags = "r"
	}
	if s.unfinished {
		flags += "u"
	}
	dst = fmt.Appendf(dst, "%s %s %s %s", stateTitle, cmp.Or(s.from, "-"), cmp.Or(s.to, "-"), cmp.Or(flags, "-"))
	if s.web != "" {
		dst = append(append(dst, ' '), s.web...)
	}
	dst = append(dst, '\n')
	for _, path := range slices.Sorted(maps.Keys(s.docs)) {
		d, final := s.docs[path], "-"
		if d.final {
			final = "i"
		}
		dst = fmt.Appendf(dst, "%s %d %s %s %s\n", d.tag, d.length, d.sha256, final, path)
	}
	return dst
}

// parseState accepts only what append prints.
func parseState(text string) (*state, error) {
	first, rest, ok := strings.Cut(text, "\n")
	head := strings.Split(first, " ")
	if !ok || len(head) != 6 && len(head) != 7 || strings.Join(head[:3], " ") != stateTitle {
		return nil, fmt.Errorf("line 1 is %.200q", first)
	}
	uri := func(word string) string { return strings.TrimPrefix(word, "-") }
	s := &state{from: uri(head[3]), to: uri(head[4]), docs: make(map[string]doc),
		resources: strings.Contains(head[5], "r"), unfinished: strings.Contains(head[5], "u")}
	if len(head) == 7 {
		s.web = head[6]
	}
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
		s.docs[w[4]] = doc{path: w[4], tag: w[0], length: length, sha256: w[2], final: w[3] == "i"}
	}
	if !bytes.Equal(s.append(nil), []byte(text)) {
		return nil, errors.New("it is not as it was written")
	}
	return s, nil
}

// maxState bounds the file: a million documents.
const maxState = 256 << 20

// readState reads the state. A directory with neither state nor documents has
// an empty one.
func (t *tree) readState() (*state, error) {
	data, err := t.root.ReadFile(stateFile, nil, maxState)
	if err == nil {
		s, err := parseState(string(data))
		if err != nil {
			return nil, fmt.Errorf("%s: %w; remove it and what was exported", stateFile, err)
		}
		return s, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, path := range []string{wellknown.Path, "/queues"} {
		dir, name, err := t.find(path, false)
		if err == nil {
			_, err = dir.Stat(name)
		}
		if err == nil {
			return nil, fmt.Errorf("%s is there, but not by an export; remove it or take another directory", path[1:])
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	t.fresh = true
	return &state{docs: make(map[string]doc)}, nil
}

// own writes a state before the first directory is made: a first run that is killed can
// be run again.
func (t *tree) own() error {
	if !t.fresh {
		return nil
	}
	return t.writeState(&state{unfinished: true})
}

func (t *tree) writeState(s *state) error {
	t.fresh = false
	return t.root.Replace(stateFile, s.append(nil))
}
