package descriptions

import (
	"bytes"
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
check reads files, or standard input, and reports where one is not SOIF (RFC
2655). cat prints the objects in the form of -t. fix mends SOIF written by hand,
prints it in the right form, and reports its changes on standard error: wrong or
open sizes, as in {x}, and blanks in place of the TAB after the colon. A size that
fits counts; with any other, the value ends before the next line that begins with
an attribute or with "}".

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
		each := func(*objectPrinter) error {
			return eachFile(c, files, func(name string, in io.Reader) error { return checkSoif(c, name, in) })
		}
		switch word {
		case "check":
			return each(nil)
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

func checkSoif(c *call.Call, name string, in io.Reader) error {
	n := 0
	err := eachObject(in, func(*soif.Object) error {
		n++
		return nil
	})
	if err == nil {
		c.Sayf("%s: %d objects", name, n)
	}
	return err
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
	for r := soif.NewReader(in); ; {
		o, err := r.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fixHint(err)
		}
		if err := do(&o); err != nil {
			return err
		}
	}
}

func fixSoif(c *call.Call, p *objectPrinter, name string, in io.Reader) error {
	var text bytes.Buffer
	if n, err := io.Copy(&text, io.LimitReader(in, maxFix+1)); err != nil {
		return err
	} else if n > maxFix {
		return fmt.Errorf("more than %d octets are not written by hand", maxFix)
	}
	objects, mends, err := soif.Repair(text.Bytes())
	if err != nil {
		return err
	}
	for _, m := range mends {
		c.Warnf("%s: %v", name, m)
	}
	for i := range objects {
		if err := p.print(&objects[i]); err != nil {
			return err
		}
	}
	return nil
}
