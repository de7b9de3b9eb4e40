package descriptions

import (
	"cmp"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"cutie/cmd/cutie/call"
	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/output"
	"cutie/publisher/soif"
	"cutie/queuefs/anvl"
)

// Forms of printed objects.
const (
	soifForm  = "soif"
	jsonForm  = "json" // an object a line
	anvlForm  = "anvl" // a record each
	tableForm = "table"
)

const objectForms = soifForm + "|" + jsonForm + "|" + anvlForm + "|" + tableForm

// An objectPrinter prints objects as they come.
type objectPrinter struct {
	w       io.Writer
	form    string
	columns []string      // of a table, after the URL; nil for a row for each attribute
	rows    *output.Table // of a table
	buf     []byte
}

// printObjects prints objects to the output file or to standard output.
func printObjects(c *call.Call, form string, columns []string, each func(*objectPrinter) error) error {
	form = strings.ToLower(form)
	if !slices.Contains(strings.Split(objectForms, "|"), form) {
		return fault.Usagef("form %.40q is none of %s", form, strings.ReplaceAll(objectForms, "|", ", "))
	}
	return c.Out.Text(func(w io.Writer) error {
		p := &objectPrinter{w: w, form: form, columns: columns}
		if form != tableForm {
			return each(p)
		}
		heading := []string{"TYPE", "ATTRIBUTE", "VALUE"}
		if columns != nil {
			heading = append([]string{"URL"}, columns...)
		}
		p.rows = c.Out.TableTo(w, heading...)
		if err := each(p); err != nil {
			return err
		}
		return p.rows.End()
	})
}

func (p *objectPrinter) print(o *soif.Object) error {
	switch p.form {
	case jsonForm:
		return p.printJSON(o)
	case tableForm:
		return p.tabulate(o)
	case anvlForm:
		record := anvl.Record{{Name: "type", Value: o.Type}, {Name: "url", Value: o.URL}}
		for _, a := range o.Attributes {
			record.Add(a.Name, a.Value)
		}
		p.buf = append(anvl.AppendRecord(p.buf[:0], record), '\n')
	default:
		if err := o.Check(); err != nil {
			return err
		}
		p.buf = o.Append(p.buf[:0])
	}
	_, err := p.w.Write(p.buf)
	return err
}

// printJSON prints a line. A repeated name has a list of values.
func (p *objectPrinter) printJSON(o *soif.Object) error {
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
	lines := json.NewEncoder(p.w)
	lines.SetEscapeHTML(false)
	return lines.Encode(struct {
		Type       string         `json:"type"`
		URL        string         `json:"url,omitempty"`
		Attributes map[string]any `json:"attributes"`
	}{o.Type, o.URL, attributes})
}

func (p *objectPrinter) tabulate(o *soif.Object) error {
	if p.columns != nil {
		row := []any{o.URL}
		for _, name := range p.columns {
			row = append(row, cmp.Or(strings.Join(o.Values(name), ", "), "-"))
		}
		return p.rows.Row(row...)
	}
	for _, a := range o.Attributes {
		if err := p.rows.Row(o.Type, a.Name, a.Value); err != nil {
			return err
		}
	}
	return nil
}
