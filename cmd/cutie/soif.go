package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"cutie/publisher/soif"
)

var soifVerb = verb{
	name:  "soif",
	args:  "check|cat|fix [FILE…|-]",
	min:   1,
	max:   -1,
	about: "check, print or mend resource descriptions in SOIF",
	manual: `
check reads files, or standard input, and says where one is not SOIF (RFC 2655).
cat prints their objects in the form of -t. fix mends what was written by hand,
prints it as it should be, and says on standard error what it changed: sizes that
are wrong or left open, as in {x}, and blanks in place of the TAB behind the
colon. A size that fits is believed; of another the value ends before the next
line that begins with an attribute or with "}".

What the lines of json cannot hold, octets that are no UTF-8, is replaced there.`,
	examples: `printf '@DOCUMENT { http://example.org/\nTitle{x}: Hello\n}\n' | cutie soif fix -o fixed.soif
cutie soif check fixed.soif
cutie soif cat fixed.soif -t json`,
	takes: toOutput | verbose,
	setup: setupSoif,
}

// maxFix is how many octets fix takes; what people write is less.
const maxFix = 16 << 20

func setupSoif(fs *pflag.FlagSet) action {
	form := fs.StringP("form", "t", soifForm, "print objects as `"+objectForms+"`")
	return func(_ context.Context, c *call) error {
		word, files := c.args[0], c.args[1:]
		if len(files) == 0 {
			files = []string{"-"}
		}
		if *form != soifForm && word == "check" || c.output != "" && word == "check" {
			return usagef("check prints no objects")
		}
		switch word {
		case "check":
			return c.eachFile(files, c.checkSoif)
		case "cat", "fix":
			p, commit, err := c.objectPrinter(*form, nil)
			if err != nil {
				return err
			}
			return commit(c.eachFile(files, func(name string, in io.Reader) error {
				if word == "fix" {
					return c.fixSoif(p, name, in)
				}
				return printSoif(p, in)
			}))
		}
		return withHint(usagef("%.40q is none of check, cat, fix", word), "cutie help soif")
	}
}

// eachFile calls do with each file; "-" is standard input.
func (c *call) eachFile(names []string, do func(name string, in io.Reader) error) error {
	for _, name := range names {
		if name == "-" {
			if err := do("standard input", c.stdin); err != nil {
				return about("standard input", err)
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
			return about(name, err)
		}
	}
	return nil
}

func (c *call) checkSoif(name string, in io.Reader) error {
	n := 0
	for r := soif.NewReader(in); ; n++ {
		if _, err := r.Read(); err == io.EOF {
			break
		} else if err != nil {
			return fixHint(err)
		}
	}
	c.sayf("%s: %d objects", name, n)
	return nil
}

// fixHint adds the way out to an error of the format.
func fixHint(err error) error {
	if at := (*soif.ParseError)(nil); errors.As(err, &at) {
		return withHint(err, "cutie soif fix mends sizes")
	}
	return err
}

func printSoif(p *objectPrinter, in io.Reader) error {
	r := soif.NewReader(in)
	for {
		o, err := r.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fixHint(err)
		}
		if err := p.print(&o); err != nil {
			return err
		}
	}
}

func (c *call) fixSoif(p *objectPrinter, name string, in io.Reader) error {
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
		c.warnf("%s: %v", name, m)
	}
	for i := range objects {
		if err := p.print(&objects[i]); err != nil {
			return err
		}
	}
	return nil
}
