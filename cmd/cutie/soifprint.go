package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"

	"cutie/publisher/soif"
	"cutie/queuefs/anvl"
)

// Forms in which objects are printed.
const (
	soifForm  = "soif"
	jsonForm  = "json" // an object a line
	anvlForm  = "anvl" // a record each
	tableForm = "table"
)

const objectForms = soifForm + "|" + jsonForm + "|" + anvlForm + "|" + tableForm

// tableRows is how many rows of a table are lined up with each other.
const tableRows = 1000

// An objectPrinter prints objects as they come.
type objectPrinter struct {
	w       io.Writer
	form    string
	columns []string // of a table, behind the URL; nil: a row for each attribute
	rows    *listing
	screen  *os.File
	buf     []byte
}

// objectPrinter prints to the output file or to standard output; commit ends it.
func (c *call) objectPrinter(form string, columns []string) (p *objectPrinter, commit func(error) error, err error) {
	form = strings.ToLower(form)
	if !slices.Contains(strings.Split(objectForms, "|"), form) {
		return nil, nil, usagef("form %.40q is none of %s", form, strings.ReplaceAll(objectForms, "|", ", "))
	}
	p = &objectPrinter{w: screenOf(c.stdout), form: form, columns: columns, screen: c.stdout}
	commit = func(err error) error {
		if err == nil {
			err = p.flush()
		}
		return err
	}
	if c.output != "" {
		out, err := createResult(c.output)
		if err != nil {
			return nil, nil, err
		}
		p.w = out
		commit = func(err error) error {
			if err == nil {
				err = p.flush()
			}
			if err != nil {
				out.Discard()
				return err
			}
			return out.Commit()
		}
	}
	p.rows = c.listing()
	if form != tableForm {
		return p, commit, nil
	}
	if columns == nil {
		p.rows.heading("TYPE", "ATTRIBUTE", "VALUE")
	} else {
		p.rows.heading(append([]string{"URL"}, columns...)...)
	}
	return p, commit, nil
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

// printJSON prints a line. A name that repeats has a list of values.
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
	if p.columns == nil {
		for _, a := range o.Attributes {
			p.rows.row(o.Type, a.Name, a.Value)
		}
	} else {
		row := []string{o.URL}
		for _, name := range p.columns {
			value := strings.Join(o.Values(name), ", ")
			if value == "" {
				value = "-"
			}
			row = append(row, value)
		}
		p.rows.row(row...)
	}
	if len(p.rows.rows) < tableRows {
		return nil
	}
	return p.flush()
}

// flush prints the rows that are held back.
func (p *objectPrinter) flush() error {
	var b bytes.Buffer
	if p.rows.people {
		align(&b, p.rows.rows, width(p.screen))
	} else {
		for _, r := range p.rows.rows {
			b.WriteString(strings.Join(r, "\t") + "\n")
		}
	}
	p.rows.rows = nil
	_, err := p.w.Write(b.Bytes())
	return err
}
