package state

import "unicode/utf8"

// appendXML appends d as an XML document, laid out as Merritt did.
func appendXML(dst []byte, d *Document) []byte {
	c := d.Class
	dst = append(dst, `<?xml version="1.0" encoding="UTF-8"?>`+"\n<"...)
	dst = append(appendPrefixed(dst, c.Prefix, c.Root), " xmlns:"...)
	dst = append(append(dst, c.Prefix...), `="`...)
	dst = append(append(dst, c.Namespace...), "\">\n"...)
	for i := range d.Properties {
		p := &d.Properties[i]
		if p.Item == "" {
			dst = appendElement(append(dst, "    "...), c.Prefix, p.Name, p.Text)
			continue
		}
		dst = append(appendPrefixed(append(dst, "    <"...), c.Prefix, p.Name), ">\n"...)
		for _, item := range p.Items {
			dst = appendElement(append(dst, "        "...), c.Prefix, p.Item, item)
		}
		dst = append(appendPrefixed(append(dst, "    </"...), c.Prefix, p.Name), ">\n"...)
	}
	dst = appendPrefixed(append(dst, "</"...), c.Prefix, c.Root)
	return append(dst, ">\n"...)
}

func appendPrefixed(dst []byte, prefix, name string) []byte {
	dst = append(append(dst, prefix...), ':')
	return append(dst, name...)
}

func appendElement(dst []byte, prefix, name, text string) []byte {
	dst = append(appendPrefixed(append(dst, '<'), prefix, name), '>')
	dst = appendEscaped(dst, text, true)
	return append(appendPrefixed(append(dst, "</"...), prefix, name), ">\n"...)
}

// appendEscaped appends text for content or for an attribute in double quotes.
// Line feeds and tabs become references if blanks is set: attributes need this,
// and it keeps them when a document is laid out anew.
func appendEscaped(dst []byte, s string, blanks bool) []byte {
	start := 0 // of the part not yet appended
	for i := 0; i < len(s); {
		c := s[i]
		ref, size := "", 1
		switch {
		case c >= utf8.RuneSelf:
			var r rune
			if r, size = utf8.DecodeRuneInString(s[i:]); !isChar(r) || r == utf8.RuneError && size == 1 {
				ref = "\ufffd"
			}
		case c == '<':
			ref = "&lt;"
		case c == '>':
			ref = "&gt;"
		case c == '&':
			ref = "&amp;"
		case c == '"':
			ref = "&quot;"
		case c == '\r':
			ref = "&#13;"
		case c == '\n' && blanks:
			ref = "&#10;"
		case c == '\t' && blanks:
			ref = "&#9;"
		case !isChar(rune(c)):
			ref = "\ufffd"
		}
		if ref != "" {
			dst = append(append(dst, s[start:i]...), ref...)
			start = i + size
		}
		i += size
	}
	return append(dst, s[start:]...)
}
