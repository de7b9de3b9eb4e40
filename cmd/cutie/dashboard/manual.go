package dashboard

import (
	"html/template"
	"regexp"
	"strings"

	"cutie/cmd/cutie/topics"
	"cutie/queuefs/state"
)

// ManualDir is the first segment of the URLs of the manual.
const ManualDir = "manual"

type manualPage struct {
	head
	First   []link // answers to the first questions of operators
	Topics  []manualTopic
	Methods string // URL of the methods of the protocol
	Text    []block
}

type manualTopic struct {
	link
	Summary string
}

// A block is a part of a text: a heading, a paragraph, or lines to be left as they are.
type block struct {
	ID, Heading string
	Paragraph   template.HTML
	Lines       template.HTML
}

// Manual returns the page with the topics of the manual.
func Manual(v Site) []byte {
	p := &manualPage{head: v.head("Manual", crumb{Class: "step", Text: "Manual"}), Methods: v.page("help")}
	for _, t := range topics.All() {
		p.Topics = append(p.Topics, manualTopic{link{v.Base.Ref(ManualDir, t.Name), t.Name}, t.Summary})
	}
	for _, at := range [][2]string{{"What to do when", "operating#what-to-do-when"}, {"Is all well?", "operating#is-all-well"}, {"Is a mirror true?", "mirrors"}, {"Write a worker", "workers"}} {
		p.First = append(p.First, link{v.Base.Ref(ManualDir) + "/" + at[1], at[0]})
	}
	return v.write("manual", p)
}

// Topic returns the page of a topic.
func Topic(v Site, t *topics.Topic) []byte {
	p := &manualPage{head: v.head(strings.ToUpper(t.Summary[:1])+t.Summary[1:], crumb{"step", v.Base.Ref(ManualDir), "Manual"}, crumb{Class: "step", Text: t.Name}),
		Text: blocks(t.Text, v.Base)}
	return v.write("topic", p)
}

// blocks cuts a text for terminals into parts at blank lines. Indented parts stay as they
// are, and a short line without an end of a sentence is a heading.
func blocks(text string, base state.Base) (all []block) {
	for part := range strings.SplitSeq(strings.Trim(text, "\n"), "\n\n") {
		switch {
		case strings.HasPrefix(part, " "):
			lines := linked(dedented(part), base)
			if n := len(all); n > 0 && all[n-1].Lines != "" {
				all[n-1].Lines += "\n\n" + lines
			} else {
				all = append(all, block{Lines: lines})
			}
		case !strings.Contains(part, "\n") && len(part) < 60 && !strings.ContainsAny(part[len(part)-1:], ".:!)"):
			all = append(all, block{ID: anchor(part), Heading: part})
		default:
			all = append(all, block{ID: anchor(opening(part)), Paragraph: linked(part, base)})
		}
	}
	return all
}

// dedented takes the blanks that all lines of a part begin with away.
func dedented(part string) string {
	lines := strings.Split(strings.TrimRight(part, "\n"), "\n")
	least := len(part)
	for _, l := range lines {
		least = min(least, len(l)-len(strings.TrimLeft(l, " ")))
	}
	for i := range lines {
		lines[i] = lines[i][least:]
	}
	return strings.Join(lines, "\n")
}

// opening returns the short sentence that a paragraph begins with, up to a bracket in it; ""
// without one. Links lead to a paragraph by it.
func opening(part string) string {
	first, _, more := strings.Cut(part, ". ")
	if !more || strings.Contains(first, "\n") {
		return ""
	}
	first, _, _ = strings.Cut(first, " (")
	if len(first) > 30 {
		return ""
	}
	return first
}

// anchor is the name of a heading or a paragraph in URLs.
func anchor(heading string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(heading), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }), "-")
}

// helpOf finds the topics and examples named in a text, over the end of a line too.
var helpOf = regexp.MustCompile(`cutie help\s+([a-z]+)\b(\.[a-z]+)?`)

// linked returns a text with links to the topics and examples named in it.
func linked(text string, base state.Base) template.HTML {
	var b strings.Builder
	last := 0
	for _, m := range helpOf.FindAllStringSubmatchIndex(text, -1) {
		name := text[m[2]:m[1]]
		if _, is := topics.Worker(name); !is {
			name = text[m[2]:m[3]]
			if _, is := topics.Find(name); !is {
				continue
			}
		}
		b.WriteString(template.HTMLEscapeString(text[last:m[0]]))
		last = m[2] + len(name)
		b.WriteString(`<a href="` + template.HTMLEscapeString(base.Ref(ManualDir, name)) + `">` + template.HTMLEscapeString(text[m[0]:last]) + `</a>`)
	}
	b.WriteString(template.HTMLEscapeString(text[last:]))
	return template.HTML(b.String())
}
