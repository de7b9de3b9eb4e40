package descriptions

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/call"
	"cutie/cmd/cutie/fault"
	"cutie/publisher/soif"
)

// SOIF checks, prints or mends descriptions.
func SOIF(c *call.Call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "soif check|cat|fix [FILE…|-]",
		Short: "check, print or mend resource descriptions in SOIF",
		Long: `
check reads files, or standard input, and prints how many objects (RFC 2655) each
has and what was skipped between them, or where it is not SOIF. cat prints the
objects in the form of -t. Input without an object is an error, except an empty one.

fix mends SOIF written by hand, prints it in the right form, and reports each
change on standard error: wrong or open sizes, as in {x}, blanks in place of the
TAB after the colon, a missing URL or "}". A size that fits counts; with any
other, the value ends before the next line that begins with an attribute, with "}"
or with an object. fix fails rather than lose an object or an attribute.

json replaces octets that are no UTF-8.`,
		Example: `printf '@DOCUMENT { http://example.org/\nTitle{x}: Hello\n}\n' | cutie soif fix -o fixed.soif
cutie soif check fixed.soif
cutie soif cat fixed.soif -t json`,
	}
	form := cmd.Flags().StringP("form", "t", soifForm, "print objects as `"+objectForms+"`")
	return c.Verb(cmd, call.Output|call.Verbose, func(context.Context) error {
		word, files := c.Args[0], c.Args[1:]
		if len(files) == 0 {
			files = []string{"-"}
		}
		if *form != soifForm && word == "check" || c.Out.Name != "" && word == "check" {
			return fault.Usagef("check prints no objects")
		}
		var each func(*objectPrinter) error
		switch word {
		case "check":
			return c.Out.Text(func(w io.Writer) error {
				return eachFile(c, files, func(name string, in io.Reader) error { return checkSoif(w, name, in) })
			})
		case "cat":
			each = func(p *objectPrinter) error {
				return eachFile(c, files, func(_ string, in io.Reader) error { return eachObject(in, p.print) })
			}
		case "fix":
			each = func(p *objectPrinter) error {
				return eachFile(c, files, func(name string, in io.Reader) error { return fixSoif(c, p, name, in) })
			}
		default:
			return fault.Hint(fault.Usagef("%.40q is none of check, cat, fix", word), "cutie help soif")
		}
		return printObjects(c, *form, nil, each)
	})
}

// maxFix is the most octets for fix; people write less.
const maxFix = 16 << 20

// eachFile calls do with each file; "-" is standard input.
func eachFile(c *call.Call, names []string, do func(name string, in io.Reader) error) error {
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
func checkSoif(w io.Writer, name string, in io.Reader) error {
	r := soif.NewReader(in)
	n, err := readObjects(r, func(*soif.Object) error { return nil })
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

// fixHint adds the way out to an error in the format.
func fixHint(err error) error {
	if at := (*soif.ParseError)(nil); errors.As(err, &at) {
		return fault.Hint(err, "cutie soif fix mends sizes")
	}
	return err
}

// eachObject calls do with each object of a file.
func eachObject(in io.Reader, do func(*soif.Object) error) error {
	_, err := readObjects(soif.NewReader(in), do)
	return err
}

// readObjects calls do with each object, and counts them.
func readObjects(r *soif.Reader, do func(*soif.Object) error) (n int, err error) {
	for ; ; n++ {
		o, err := r.Read()
		if err == io.EOF {
			return n, hasObject(n, r.Offset())
		}
		if err != nil {
			return n, fixHint(err)
		}
		if err := do(&o); err != nil {
			return n, err
		}
	}
}

var errNoObject = fault.Hint(errors.New("no object is in it"), "an object begins with @TYPE { URL, in UTF-8 or ASCII")

// hasObject refuses octets without an object: they are no SOIF.
func hasObject(objects int, octets int64) error {
	if objects == 0 && octets > 0 {
		return errNoObject
	}
	return nil
}

func fixSoif(c *call.Call, p *objectPrinter, name string, in io.Reader) error {
	var text bytes.Buffer
	if n, err := io.Copy(&text, io.LimitReader(in, maxFix+1)); err != nil {
		return err
	} else if n > maxFix {
		return fmt.Errorf("more than %d octets are not written by hand", maxFix)
	}
	fixed, err := soif.Repair(text.Bytes())
	if err == nil {
		err = hasObject(len(fixed.Objects), int64(text.Len()))
	}
	if err != nil {
		return err
	}
	for _, m := range fixed.Mends {
		c.Warnf("%s: %v", name, m)
	}
	if skipped := fixed.Skipped.String(); skipped != "" {
		c.Warnf("%s: left out: %s", name, skipped)
	}
	for i := range fixed.Objects {
		if err := p.print(&fixed.Objects[i]); err != nil {
			return err
		}
	}
	return nil
}
