package descriptions

import (
	"encoding/json"
	"io"
	"strings"

	"cutie/cmd/cutie/call"
	"cutie/cmd/cutie/fault"
	"cutie/publisher/soif"
)

// Forms of printed objects.
const (
	soifForm = "soif"
	jsonForm = "json" // an object a line
)

const objectForms = soifForm + "|" + jsonForm

// printObjects gives each a function that prints an object to the output file or to
// standard output.
func printObjects(c *call.Call, form string, each func(print func(*soif.Object) error) error) error {
	var print func(w io.Writer, o *soif.Object) error
	switch strings.ToLower(form) {
	case soifForm:
		print = func(w io.Writer, o *soif.Object) error { return soif.NewWriter(w).Write(*o) }
	case jsonForm:
		print = printJSON
	default:
		return fault.Usagef("form %.40q is neither soif nor json", form)
	}
	return c.Out.Text(func(w io.Writer) error {
		return each(func(o *soif.Object) error { return print(w, o) })
	})
}

// printJSON prints a line. A repeated name has a list of values.
func printJSON(w io.Writer, o *soif.Object) error {
	attributes := map[string]any{}
	for _, a := range o.Attributes {
		switch had := attributes[a.Name].(type) {
		case nil:
			attributes[a.Name] = a.Value
		case string:
			attributes[a.Name] = []string{had, a.Value}
		case []string:
			attributes[a.Name] = append(had, a.Value)
		}
	}
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false)
	return lines.Encode(struct {
		Type       string         `json:"type"`
		URL        string         `json:"url,omitempty"`
		Attributes map[string]any `json:"attributes"`
	}{o.Type, o.URL, attributes})
}
