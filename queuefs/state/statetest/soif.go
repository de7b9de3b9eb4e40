package statetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"cutie/publisher/soif"

	"cutie/queuefs/state"
)

// decodeSOIF reads the one object there is. The items of a list are put in the
// order of their numbers; items without a number come first.
func decodeSOIF(c *state.Class, data []byte) (values, error) {
	r := soif.NewReader(bytes.NewReader(data))
	r.Limit = soif.DefaultLimit + 16*len(data) // the input is the limit
	o, err := r.Read()
	if err == io.EOF {
		return nil, fmt.Errorf("no %s", c.Root)
	}
	if err != nil {
		return nil, err
	}
	if !o.Is(c.Root) {
		return nil, fmt.Errorf("unexpected %.60q, want %s", o.Type, c.Root)
	}
	if _, err := r.Read(); err != io.EOF {
		return nil, errors.New("text behind the state")
	}
	v := make(values, len(c.Terms))
	items := make([][]numbered, len(c.Terms))
	for _, a := range o.Attributes {
		base, n := soif.Base(a.Name)
		for i := range c.Terms {
			t := &c.Terms[i]
			if t.Item != "" && strings.EqualFold(t.Item, base) {
				items[i] = append(items[i], numbered{n, a.Value})
			} else if t.Item == "" && strings.EqualFold(t.Name, a.Name) {
				if v[i].set {
					return nil, fmt.Errorf("%s: repeated", a.Name)
				}
				v[i].set, v[i].text = true, a.Value
			}
		}
	}
	for i, list := range items {
		slices.SortStableFunc(list, func(a, b numbered) int { return a.n - b.n })
		for j, item := range list {
			if j > 0 && item.n > 0 && item.n == list[j-1].n {
				return nil, fmt.Errorf("%s-%d: repeated", c.Terms[i].Item, item.n)
			}
			v[i].set, v[i].items = true, append(v[i].items, item.text)
		}
	}
	return v, nil
}

// numbered is an item of a list with its number, 0 if it has none.
type numbered struct {
	n    int
	text string
}
