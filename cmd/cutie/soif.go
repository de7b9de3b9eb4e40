package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/fault"
	"cutie/publisher/soif"
)

// inSOIF says what is read of files of SOIF.
const inSOIF = `
Text as people write it and as it is printed is read as it is meant, and each change
is named on standard error: sizes that do not fit, as in {x}, and blanks in place of
the TAB after the colon. A size that fits counts; with any other, the value ends before
the next attribute, or the end of the object.`

func soifCheckVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [FILE…|-]",
		Short: "check descriptions in files of SOIF",
		Long: `
Reads files, or standard input, and prints how many objects (RFC 2655) each has and what
was skipped between them, or where it is not SOIF. Input without an object is an error,
except an empty one.
` + inSOIF,
	}
	return c.Verb(cmd, optVerbose, func(context.Context) error {
		return c.Out.Text(func(w io.Writer) error {
			return eachFile(c, c.Args, func(name string, in io.Reader) error { return checkSoif(c, w, name, in) })
		})
	})
}

func soifCatVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cat [FILE…|-]",
		Short: "print descriptions in files of SOIF, in the right form or as JSON",
		Long: `
Reads files, or standard input, and prints the objects (RFC 2655) in the form of -t. JSON
replaces octets that are no UTF-8. Input without an object is an error, except an empty
one.
` + inSOIF,
	}
	form := cmd.Flags().StringP("form", "t", soifForm, "print objects as `"+objectForms+"`")
	return c.Verb(cmd, optOutput|optVerbose, func(context.Context) error {
		return printObjects(c, *form, func(print func(*soif.Object) error) error {
			return eachFile(c, c.Args, func(name string, in io.Reader) error {
				_, err := readObjects(c, name, soif.NewReader(in), print)
				return err
			})
		})
	})
}

// eachFile calls do with each file; "-", or no file, is standard input.
func eachFile(c *call, names []string, do func(name string, in io.Reader) error) error {
	if len(names) == 0 {
		names = []string{"-"}
	}
	for _, name := range names {
		if name == "-" {
			if err := do("standard input", c.Stdin); err != nil {
				return fault.About("standard input", err)
			}
			continue
		}
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		err = do(name, f)
		f.Close()
		if err != nil {
			return fault.About(name, err)
		}
	}
	return nil
}

// checkSoif prints what is in a file, up to a mistake.
func checkSoif(c *call, w io.Writer, name string, in io.Reader) error {
	r := soif.NewReader(in)
	n, err := readObjects(c, name, r, func(*soif.Object) error { return nil })
	line := fmt.Sprintf("%s: %d objects", name, n)
	if n == 1 {
		line = name + ": 1 object"
	}
	if skipped := r.Skipped().String(); skipped != "" {
		line += ", skipped: " + skipped
	}
	if at := (*soif.ParseError)(nil); errors.As(err, &at) {
		line += ", then a mistake"
	}
	_, bad := fmt.Fprintln(w, line)
	return cmp.Or(err, bad)
}

// readObjects calls do with each object, and counts them. It says what was mended. Octets
// without an object are no SOIF.
func readObjects(c *call, name string, r *soif.Reader, do func(*soif.Object) error) (n int, err error) {
	for ; ; n++ {
		var o soif.Object
		if o, err = r.Read(); err != nil {
			break
		}
		if err = do(&o); err != nil {
			break
		}
	}
	said, all := r.Mended()
	for _, text := range said {
		c.Warnf("%s: %s", name, text)
	}
	if all > len(said) {
		c.Warnf("%s: %d more mistakes of this kind", name, all-len(said))
	}
	if err != io.EOF {
		return n, err
	}
	if n == 0 && r.Offset() > 0 {
		return n, fault.Hint(errors.New("no object is in it"), "an object begins with @TYPE { URL, in UTF-8 or ASCII")
	}
	return n, nil
}

// Forms of printed objects.
const (
	soifForm = "soif"
	jsonForm = "json" // an object a line
)

const objectForms = soifForm + "|" + jsonForm

// printObjects gives each a function that prints an object to the output file or to
// standard output.
func printObjects(c *call, form string, each func(print func(*soif.Object) error) error) error {
	var print func(w io.Writer, o *soif.Object) error
	switch strings.ToLower(form) {
	case soifForm:
		print = func(w io.Writer, o *soif.Object) error { return soif.NewWriter(w).Write(*o) }
	case jsonForm:
		print = objectLine
	default:
		return fault.Usagef("form %.40q is neither soif nor json", form)
	}
	return c.Out.Text(func(w io.Writer) error {
		return each(func(o *soif.Object) error { return print(w, o) })
	})
}

// objectLine prints a line. A repeated name has a list of values.
func objectLine(w io.Writer, o *soif.Object) error {
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
