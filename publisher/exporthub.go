package publisher

import (
	"bytes"
	"strings"

	"cutie/publisher/websub"
)

// withoutHubs takes out of a document what it says of notifications. A hub
// distributes the topics of its Source: those of a copy at another place would
// be none that it knows.
func withoutHubs(text []byte, name string) []byte {
	hub := `<rs:ln rel="` + websub.RelHub + `" `
	topics := []string{"/" + changeTopic + `"`, "/" + frameworkTopic + `"`}
	switch {
	case strings.HasSuffix(name, "/"+docName{kind: capabilityList}.String()):
		return without(text, "<url>", "</url>\n", hub)
	case strings.HasSuffix(name, "/"+aboutPage):
		return without(text, "<tr>", "</tr>\n", topics...)
	case strings.HasSuffix(name, "/"+aboutData): // they are never the first
		return without(text, ",\n    {\n", "\n    }", topics...)
	}
	return text
}

// without takes out of a text the parts from open to end that contain one of
// some words.
func without(text []byte, open, end string, words ...string) []byte {
	var out []byte
	for {
		i := bytes.Index(text, []byte(open))
		n := bytes.Index(text[max(i, 0):], []byte(end))
		if i < 0 || n < 0 {
			return append(out, text...)
		}
		part := text[i : i+n+len(end)]
		out = append(out, text[:i]...)
		gone := false
		for _, word := range words {
			gone = gone || bytes.Contains(part, []byte(word))
		}
		if !gone {
			out = append(out, part...)
		}
		text = text[i+len(part):]
	}
}
