package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"cutie/queuefs"
)

// Manual pages are made of the same table as help, in the man macros that
// groff and mandoc both understand. A text is escaped word by word, and so has
// no requests of its own.

// overviewPage is cutie(1).
func overviewPage(table []verb) []byte {
	var p roff
	p.head("cutie", "durable queues in a directory")
	p.section("SYNOPSIS")
	p.line(".B cutie", roffText("[OPTION…] COMMAND [ARGUMENT…]"))
	p.section("DESCRIPTION")
	p.paragraphs(summary)
	p.paragraphs(where)
	p.section("COMMANDS")
	for i := range table {
		v := &table[i]
		about := v.about
		if len(v.aliases) > 0 {
			about += " (" + strings.Join(v.aliases, ", ") + ")"
		}
		p.tagged(`\fB`+roffText(v.name)+`\fR`, about)
	}
	p.exits()
	p.section("SEE ALSO")
	p.line(roffText("cutie-COMMAND(1) for each command"))
	return p.bytes()
}

// page is cutie-VERB(1).
func (v *verb) page() []byte {
	var p roff
	p.head("cutie-"+v.name, v.about)
	p.section("SYNOPSIS")
	p.line(".B cutie", roffText(v.name))
	p.line(roffText(strings.TrimSpace("[OPTION…] " + v.args)))
	p.section("DESCRIPTION")
	if len(v.aliases) > 0 {
		p.paragraphs("Also: " + strings.Join(v.aliases, ", ") + ".")
	}
	if v.manual == "" {
		p.paragraphs(v.about)
	}
	p.paragraphs(v.manual)
	p.section("OPTIONS")
	o := options{home: defaultHome} // of the page, not of who makes it
	fs, _ := v.flags(&o)
	fs.VisitAll(func(f *pflag.Flag) { p.option(f) })
	if v.examples != "" {
		p.section("EXAMPLES")
		p.verbatim(strings.Split(v.examples, "\n"))
	}
	p.exits()
	p.section("SEE ALSO")
	p.line(roffText("cutie(1)"))
	return p.bytes()
}

// A roff is a page being written.
type roff struct {
	strings.Builder
	begun bool // the section has a paragraph
}

func (p *roff) bytes() []byte { return []byte(p.String()) }

func (p *roff) line(parts ...string) { p.WriteString(strings.Join(parts, " ") + "\n") }

func (p *roff) head(name, about string) {
	p.line(fmt.Sprintf(`.TH "%s" "1" "%s" "cutie %s" "Cutie 0.3"`, roffText(strings.ToUpper(name)), setting("vcs.time", 10), queuefs.Version))
	p.section("NAME")
	p.line(roffText(name), `\-`, roffText(about))
}

func (p *roff) section(name string) {
	p.line(".SH", name)
	p.begun = false
}

// paragraph begins one; the heading of a section has begun the first.
func (p *roff) paragraph() {
	if p.begun {
		p.line(".PP")
	}
	p.begun = true
}

func (p *roff) tagged(tag, text string) {
	p.line(".TP")
	p.line(tag)
	p.line(roffText(text))
}

func (p *roff) option(f *pflag.Flag) {
	value, usage := pflag.UnquoteUsage(f)
	tag := `\fB` + roffText("--"+f.Name) + `\fR`
	if f.Shorthand != "" {
		tag = `\fB` + roffText("-"+f.Shorthand) + `\fR, ` + tag
	}
	switch {
	case value != "" && f.NoOptDefVal != "":
		tag += roffText("[=") + `\fI` + roffText(value) + `\fR]`
	case value != "":
		tag += ` \fI` + roffText(value) + `\fR`
	}
	switch f.DefValue {
	case "", "0", "false", "[]", "0s":
	default:
		usage += fmt.Sprintf(" (default %s)", f.DefValue)
	}
	p.tagged(tag, usage)
}

func (p *roff) exits() {
	p.section(`"EXIT STATUS"`)
	for code, text := range exitTexts {
		p.tagged(fmt.Sprint(code), text)
	}
}

// paragraphs writes text whose paragraphs empty lines divide. Lines that begin
// with blanks stay as they are.
func (p *roff) paragraphs(text string) {
	for para := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if para == "" {
			continue
		}
		all := strings.Split(para, "\n")
		if strings.HasPrefix(para, " ") {
			p.verbatim(all)
			continue
		}
		p.paragraph()
		for _, l := range all {
			p.line(roffText(l))
		}
	}
}

func (p *roff) verbatim(all []string) {
	p.paragraph()
	p.line(".nf")
	p.line(".RS 4")
	for _, l := range all {
		p.line(roffText(strings.TrimPrefix(l, "  ")))
	}
	p.line(".RE")
	p.line(".fi")
}

// roffText escapes what is not to be understood as a request.
func roffText(s string) string {
	var b strings.Builder
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		b.WriteString(`\&`)
	}
	for _, r := range s {
		switch {
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case r == '"':
			b.WriteString(`\(dq`)
		case r == '\'':
			b.WriteString(`\(aq`)
		case r >= 0x80:
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
