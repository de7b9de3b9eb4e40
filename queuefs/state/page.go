package state

import (
	"crypto/sha256"
	_ "embed" // the style sheet
	"encoding/base64"
	"strconv"
	"strings"
	"time"
)

// appendXHTML appends d as a plain page of XHTML 1.0 Strict.
func appendXHTML(dst []byte, d *Document) []byte {
	dst = AppendXHTMLHead(dst, d.Class.Prefix+":"+d.Class.Root)
	return AppendXHTMLFoot(AppendTable(dst, d, nil))
}

// XHTMLHead is the beginning of every page, up to its title.
const XHTMLHead = `<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "http://www.w3.org/TR/xhtml1/DTD/xhtml1-strict.dtd">
<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="en" lang="en">
<head>
<meta http-equiv="Content-Type" content="text/html; charset=utf-8" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
`

// AppendXHTMLHead appends the part of a plain page before its tables.
func AppendXHTMLHead(dst []byte, title string) []byte {
	dst = append(append(dst, XHTMLHead...), "<title>"...)
	return append(xmlEscapes.append(dst, validText(title)), "</title>\n</head>\n<body>\n"...)
}

// AppendXHTMLFoot appends the part of a plain page after its tables.
func AppendXHTMLFoot(dst []byte) []byte { return append(dst, "</body>\n</html>\n"...) }

// AppendTable appends d as a table of XHTML: a row for every property, with its
// name and exactly its text, and no blanks between the tags of a cell. note
// returns class and title of an element around a value, "" for none; it can be
// nil.
func AppendTable(dst []byte, d *Document, note func(*Property) (class, title string)) []byte {
	dst = append(dst, "<div class=\"scroll\"><table class=\"state\" summary=\""...)
	dst = appendPrefixed(dst, d.Class.Prefix, d.Class.Root)
	dst = append(dst, "\">\n<tr><th scope=\"col\">Name</th><th scope=\"col\">Value</th></tr>\n"...)
	for i := range d.Properties {
		p := &d.Properties[i]
		dst = append(append(dst, `<tr><th scope="row">`...), p.Name...)
		dst = append(dst, "</th><td>"...)
		switch {
		case p.Item == "":
			dst = d.appendValue(dst, p, note)
		case len(p.Items) > 0:
			dst = append(dst, "<ul>"...)
			for _, item := range p.Items {
				dst = append(d.appendText(append(dst, "<li>"...), p.Type, item), "</li>"...)
			}
			dst = append(dst, "</ul>"...)
		}
		dst = append(dst, "</td></tr>\n"...)
	}
	return append(dst, "</table></div>\n"...)
}

// appendValue appends the text of a property, not a list.
func (d *Document) appendValue(dst []byte, p *Property, note func(*Property) (class, title string)) []byte {
	class, title := "", ""
	if note != nil {
		class, title = note(p)
	}
	if class == "" {
		return d.appendText(dst, p.Type, p.Text)
	}
	dst = append(append(append(dst, `<span class="`...), class...), '"')
	if title != "" {
		dst = append(attributeEscapes.append(append(dst, ` title="`...), validText(title)), '"')
	}
	return append(d.appendText(append(dst, '>'), p.Type, p.Text), "</span>"...)
}

// appendText appends a value, as a link if it is a reference for browsers.
func (d *Document) appendText(dst []byte, t Type, text string) []byte {
	link := strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://") || strings.HasPrefix(text, "mailto:")
	if t != Reference || !link {
		return xmlEscapes.append(dst, text)
	}
	ref := text
	if d.Base != "" && strings.HasPrefix(text, string(d.Base)+"/state") {
		ref = XHTML.Ask(text)
	}
	dst = attributeEscapes.append(append(dst, `<a href="`...), ref)
	dst = xmlEscapes.append(append(dst, `">`...), text)
	return append(dst, "</a>"...)
}

// Ask returns ref with a parameter for the form.
func (f Form) Ask(ref string) string {
	if strings.Contains(ref, "?") {
		return ref + "&t=" + f.String()
	}
	return ref + "?t=" + f.String()
}

// Ago returns how far a date is from now, such as "3 minutes ago" and "in 2
// days".
func Ago(now, t time.Time) string {
	d := now.Sub(t)
	before, after := "", " ago"
	if d < 0 {
		d, before, after = -d, "in ", ""
	}
	if d < time.Second {
		return "just now"
	}
	n, unit := int64(d/time.Second), "second"
	for _, u := range [...]struct {
		name string
		size time.Duration
	}{{"minute", time.Minute}, {"hour", time.Hour}, {"day", 24 * time.Hour}, {"year", 365 * 24 * time.Hour}} {
		if d >= 2*u.size || d >= u.size && u.name == "minute" {
			n, unit = int64(d/u.size), u.name
		}
	}
	if n != 1 {
		unit += "s"
	}
	return before + strconv.FormatInt(n, 10) + " " + unit + after
}

// PageStyle is the sheet of every page. It has no character with another
// meaning in HTML than in XHTML, so it has one hash. Text has a contrast of at
// least 4.5 to 1, by day and by night.
//
//go:embed page.css
var PageStyle string

// StyleHash is the source expression of PageStyle for a
// Content-Security-Policy.
var StyleHash = func() string {
	sum := sha256.Sum256([]byte(PageStyle))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}()

// PagePolicy is the Content-Security-Policy of a page: no scripts, no
// resources, forms to its own origin.
var PagePolicy = "default-src 'none'; style-src " + StyleHash +
	"; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
