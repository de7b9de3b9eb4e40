// Package statetest reads states in every form, so tests can compare the forms
// with each other. Programs read ANVL or JSON, by package state.
package statetest

import (
	"errors"
	"fmt"
	"slices"

	"cutie/queuefs/anvl"
	"cutie/queuefs/state"
)

// Read reads a document of class c in form f.
func Read(f state.Form, c *state.Class, data []byte) (state.Document, error) {
	var (
		v   values
		err error
	)
	switch f {
	case state.Turtle:
		v, err = decodeTurtle(c, data)
	case state.XHTML, state.HTML:
		v, err = decodePage(c, data)
	case state.XML:
		v, err = decodeXML(c, data)
	case state.SOIF:
		v, err = decodeSOIF(c, data)
	default:
		return f.Decode(c, data)
	}
	if err != nil {
		return state.Document{}, fmt.Errorf("%s:%s: %w", c.Prefix, c.Root, err)
	}
	return state.ANVL.Decode(c, v.anvl(c))
}

// values are the values of each term of a class, in the order of terms.
type values []value

type value struct {
	set   bool
	text  string
	items []string
}

func (v *value) add(text string) error {
	if v.set {
		return errors.New("repeated")
	}
	v.set, v.text = true, text
	return nil
}

func (v *value) list(items []string) error {
	if v.set {
		return errors.New("repeated")
	}
	v.set, v.items = true, items
	return nil
}

// term returns the place of the term of the given name, -1 if there is none.
func term(c *state.Class, name string) int {
	return slices.IndexFunc(c.Terms, func(t state.Term) bool { return t.Name == name })
}

// anvl returns the values as a record; a list is its items.
func (v values) anvl(c *state.Class) (text []byte) {
	for i := range v {
		t := &c.Terms[i]
		for _, item := range v[i].items {
			text = anvl.AppendElement(text, t.Item, item)
		}
		if t.Item == "" && v[i].set {
			text = anvl.AppendElement(text, t.Name, v[i].text)
		}
	}
	return text
}
