package digest

import (
	"fmt"
	"strings"
)

// A Set is a set of types. The zero Set is empty.
type Set uint16

// SetOf returns the set of the types.
func SetOf(types ...Type) (s Set) {
	for _, t := range types {
		s |= 1 << t
	}
	return s
}

// Has reports whether t is in the set.
func (s Set) Has(t Type) bool { return s>>t&1 != 0 }

// Types returns the types of the set in the order of Cutie 5.5.
func (s Set) Types() []Type {
	if s == 0 {
		return nil
	}
	var types []Type
	for _, t := range Types() {
		if s.Has(t) {
			types = append(types, t)
		}
	}
	return types
}

// String returns the names of the types with a blank between them, such as
// "MD5 SHA-256", and "" for the empty set.
func (s Set) String() string {
	var names []string
	for _, t := range s.Types() {
		names = append(names, t.String())
	}
	return strings.Join(names, " ")
}

// ParseSet reads names of types, as [Parse] does, with blanks or commas between
// them.
func ParseSet(names string) (s Set, err error) {
	for _, name := range strings.FieldsFunc(names, func(r rune) bool { return strings.ContainsRune(" ,\t\r\n", r) }) {
		t, err := Parse(name)
		if err != nil {
			return 0, fmt.Errorf("digests %.80q: %w", names, err)
		}
		s |= 1 << t
	}
	return s, nil
}
