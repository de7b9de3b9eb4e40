package state

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const xmlSchema = "http://www.w3.org/2001/XMLSchema#"

// appendTurtle appends d as RDF in Turtle. The subject is the URL of the state,
// or nobody if it has none. A list is one RDF collection; the lists of the specification
// have their items by the inner name, too.
func appendTurtle(dst []byte, d *Document) []byte {
	c := d.Class
	dst = append(append(dst, "@prefix "...), c.Prefix...)
	dst = append(append(dst, ": <"...), c.Namespace...)
	dst = append(dst, "/> .\n@prefix xsd: <"+xmlSchema+"> .\n\n"...)
	if isIRI(d.Subject) {
		dst = append(append(append(dst, '<'), d.Subject...), '>')
	} else {
		dst = append(dst, "[]"...)
	}
	dst = appendPrefixed(append(dst, " a "...), c.Prefix, c.Root)
	for i := range d.Properties {
		p := &d.Properties[i]
		dst = appendPrefixed(append(dst, " ;\n    "...), c.Prefix, p.Name)
		dst = append(dst, ' ')
		if p.Item == "" {
			dst = appendObject(dst, p.Type, p.Text)
			continue
		}
		dst = append(dst, '(')
		for i, item := range p.Items {
			if i > 0 {
				dst = append(dst, ' ')
			}
			dst = appendObject(dst, p.Type, item)
		}
		dst = append(dst, ')')
		for i, item := range p.Items {
			if !p.Always {
				break
			}
			if i == 0 {
				dst = appendPrefixed(append(dst, " ;\n    "...), c.Prefix, p.Item)
			} else {
				dst = append(dst, ',')
			}
			dst = appendObject(append(dst, ' '), p.Type, item)
		}
	}
	return append(dst, " .\n"...)
}

func appendObject(dst []byte, t Type, text string) []byte {
	switch t {
	case Integer, Boolean:
		return append(dst, text...)
	case Date:
		return append(appendString(dst, text), "^^xsd:dateTime"...)
	case Reference:
		if isIRI(text) {
			return append(append(append(dst, '<'), text...), '>')
		}
		return append(appendString(dst, text), "^^xsd:anyURI"...)
	}
	return appendString(dst, text)
}

// isIRI reports whether s is absolute and may stand between < and >. References
// entered by operators can be anything.
func isIRI(s string) bool {
	scheme, _, ok := strings.Cut(s, ":")
	if !ok || scheme == "" {
		return false
	}
	for i := 0; i < len(scheme); i++ {
		c := scheme[i] | 0x20
		if !(c >= 'a' && c <= 'z') && (i == 0 || !(scheme[i] >= '0' && scheme[i] <= '9' || strings.IndexByte("+-.", scheme[i]) >= 0)) {
			return false
		}
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; c <= ' ' || strings.IndexByte("<>\"{}|^`\\", c) >= 0 {
			return false
		}
	}
	return utf8.ValidString(s)
}

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
	if t != Reference || !strings.HasPrefix(text, "http://") && !strings.HasPrefix(text, "https://") && !strings.HasPrefix(text, "mailto:") {
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
const PageStyle = `:root{color-scheme:light dark;--back:#f5f6f8;--card:#fff;--text:#1c232b;--dim:#55606d;--line:#d9dee4;--edge:#7d8894;--link:#0b55a0;--fill:#0b55a0;--on:#fff;--good:#17612f;--goodback:#e0f2e6;--bad:#a01f17;--badback:#fbe5e3;--warn:#744b00;--warnback:#fcefcf;--cool:#0b4f94;--coolback:#e1edf9;--flat:#49535f;--flatback:#e8ebef}
@media screen and (prefers-color-scheme:dark){:root{--back:#12161b;--card:#1a2027;--text:#e3e7ec;--dim:#9da8b4;--line:#303842;--edge:#76828f;--link:#82b8f2;--fill:#2a6cb5;--good:#84d6a0;--goodback:#17321f;--bad:#ff9d94;--badback:#431d1a;--warn:#f0c465;--warnback:#3a2c0c;--cool:#92c3f7;--coolback:#172f49;--flat:#b4bdc8;--flatback:#2a323b}}
*{box-sizing:border-box}
body{margin:0 auto;padding:0 1.25rem 3rem;max-width:80rem;background:var(--back);color:var(--text);font:1rem/1.5 system-ui,-apple-system,"Segoe UI",sans-serif;overflow-wrap:anywhere}
a{color:var(--link);text-underline-offset:.15em}
a:focus-visible,button:focus-visible,input:focus-visible,textarea:focus-visible,select:focus-visible,pre:focus-visible,summary:focus-visible{outline:3px solid var(--link);outline-offset:2px}
.skip{position:absolute;left:1rem;top:-5rem;z-index:2;padding:.4rem 1rem;border-radius:.35rem;background:var(--fill);color:var(--on)}
.skip:focus{top:.4rem}
.path{display:flex;flex-wrap:wrap;gap:.25rem .6rem;margin:0 0 1.5rem;padding:.8rem 0;border-bottom:1px solid var(--line);list-style:none;font-size:.9375rem}
.path a,.list a,.state a,.ids a,.foot a{padding:.2rem 0}
.path .step::before{content:"/";margin-right:.6rem;color:var(--dim)}
.path .side{margin-left:auto}
:target{scroll-margin-top:1rem}
h1{margin:0 0 .5rem;font-size:1.625rem;line-height:1.25;font-weight:650}
h1 .badge{font-size:.875rem;vertical-align:.2em}
h2{margin:2rem 0 .6rem;font-size:1.125rem;line-height:1.3;font-weight:650}
p{margin:.5rem 0}
.lead{white-space:pre-wrap;max-width:48rem}
.dim{color:var(--dim)}
.badge{display:inline-block;padding:.1rem .55rem;border-radius:1rem;background:var(--flatback);color:var(--flat);font-size:.8125rem;line-height:1.4;font-weight:600;white-space:nowrap}
.note{margin:.75rem 0;padding:.6rem .9rem;border-radius:.4rem;background:var(--flatback);white-space:pre-wrap;max-height:16rem;overflow:auto}
.good{background:var(--goodback);color:var(--good)}
.seen,.saved:not(:target){display:none}
.saved{scroll-margin-top:100vh}
.bad{background:var(--badback);color:var(--bad)}
.warn{background:var(--warnback);color:var(--warn)}
.cool{background:var(--coolback);color:var(--cool)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(6.8rem,1fr));gap:.6rem;margin:1.25rem 0;padding:0;list-style:none}
.tiles a,.tiles span{display:block;padding:.6rem .9rem;border:1px solid var(--line);border-radius:.5rem;background:var(--card);color:var(--text);text-decoration:none}
.tiles a:hover{border-color:var(--link)}
.tiles .here{border-color:var(--link);box-shadow:inset 0 0 0 1px var(--link)}
.tiles b{display:block;font-size:1.5rem;line-height:1.3;font-weight:600;font-variant-numeric:tabular-nums;white-space:nowrap}
.tiles em{font-style:normal;font-size:.875rem;color:var(--dim)}
.tiles .stop b{color:var(--bad)}
.scroll{overflow-x:auto;border:1px solid var(--line);border-radius:.5rem;background:var(--card)}
table{border-collapse:collapse;width:100%;font-size:.9375rem}
th,td{padding:.45rem .9rem;border-top:1px solid var(--line);text-align:left;vertical-align:top}
tr:first-child th{border-top:0;color:var(--dim);font-size:.8125rem;font-weight:600;white-space:nowrap}
.list td,.list th{overflow-wrap:normal}
.list .text{overflow-wrap:anywhere;min-width:9rem}
.list .url{min-width:14rem}
.list .tag{display:none}
.list tr:hover td{background:var(--back)}
.wrap tr:first-child th{white-space:normal;min-width:5.2rem}
.list .n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.t{font-variant-numeric:tabular-nums;white-space:nowrap}
.t .dim{display:block;font-size:.8125rem}
.state{table-layout:fixed}
.state th{width:14rem;color:var(--dim);font-weight:500;overflow-wrap:normal}
.state th+th{width:auto}
.state td{white-space:pre-wrap;font-variant-numeric:tabular-nums}
.state ul{margin:0;padding:0;list-style:none;max-height:15rem;overflow:auto}
.state li{padding:.1rem 0}
.state .long{display:block;max-height:15rem;overflow:auto}
.state .said::after{content:" (" attr(title) ")";color:var(--dim)}
.mono{font-family:ui-monospace,"Liberation Mono",Menlo,Consolas,monospace;font-size:.875rem}
.ids{display:grid;grid-template-columns:repeat(auto-fill,minmax(9rem,1fr));gap:.2rem 1rem;margin:0;padding:.7rem .9rem;list-style:none;border:1px solid var(--line);border-radius:.5rem;background:var(--card);font-variant-numeric:tabular-nums}
.none{margin:0;padding:.9rem;border:1px dashed var(--line);border-radius:.5rem;color:var(--dim)}
.forms{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,19rem),1fr));gap:.9rem;align-items:start}
fieldset{margin:0;padding:.4rem 1rem 1rem;min-width:0;border:1px solid var(--line);border-radius:.5rem;background:var(--card)}
legend{padding:0 .35rem;font-weight:600}
label{display:block;margin:.5rem 0}
input,textarea,button{font:inherit;max-width:100%}
input[type=text],textarea{display:block;width:100%;margin-top:.2rem;padding:.4rem .6rem;border:1px solid var(--edge);border-radius:.35rem;background:var(--card);color:var(--text)}
input[type=file]{display:block;margin-top:.2rem}
::file-selector-button{font:inherit;margin-right:.6rem;padding:.3rem .8rem;border:1px solid var(--edge);border-radius:.35rem;background:var(--card);color:var(--text);cursor:pointer}
input[type=checkbox]{display:block;width:1.5rem;height:1.5rem;margin:0}
button{padding:.4rem 1rem;border:1px solid var(--fill);border-radius:.35rem;background:var(--fill);color:var(--on);font-weight:600;cursor:pointer}
button+a{margin-left:.6rem}
button.danger{border-color:var(--bad);background:transparent;color:var(--bad)}
.foot{margin:2rem 0 0;padding-top:.8rem;border-top:1px solid var(--line);color:var(--dim);font-size:.875rem}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,17rem),1fr));gap:.6rem;margin:1.25rem 0 .5rem}
.chart{margin:0;padding:.6rem .9rem;min-width:0;border:1px solid var(--line);border-radius:.5rem;background:var(--card)}
.chart figcaption{min-height:3rem;font-size:.875rem;line-height:1.4}
.chart figcaption span{color:var(--dim);white-space:nowrap}
.chart figcaption b{color:var(--text);font-variant-numeric:tabular-nums}
.chart figcaption .line0::before,.chart figcaption .line1::before{content:"";display:inline-block;width:.9rem;margin:0 .25rem .2em .3rem;border-top:2px solid var(--link)}
.chart figcaption .line1::before{border-top:2px dashed var(--warn)}
.chart .dim{margin:0;font-size:.8125rem}
.chart svg{display:block;width:100%;max-width:22rem;margin:.3rem 0}
.chart path{fill:none;stroke:var(--link);stroke-width:2;vector-effect:non-scaling-stroke;stroke-linejoin:round}
.chart path.line1{stroke:var(--warn);stroke-dasharray:4 3}
.chart path.axis,.chart path.grid{stroke:var(--line);stroke-width:1}
.chart path.most{stroke:var(--text);stroke-width:6;stroke-linecap:round}
.chart path.back{stroke:none}
.chart text{fill:var(--dim);font-size:22px;font-variant-numeric:tabular-nums}
.manual p{max-width:48rem}
.manual pre.preview{margin:.7rem 0;max-width:60rem;max-height:none;white-space:pre}
.list button{white-space:nowrap}
.list form p{margin:0}
.more a{display:inline-block;margin-right:1rem}
.live{float:right;margin:.3rem 0 0 .6rem;padding:.1rem .6rem;border-radius:1rem;border:1px solid var(--line);background:var(--card);color:var(--dim);font-size:.8125rem}
.live:empty{display:none}
.live.bad{float:none;position:sticky;top:0;z-index:1;margin:0 0 .6rem;padding:.4rem .9rem;border-radius:0 0 .4rem .4rem;background:var(--badback);color:var(--bad)}
.over fieldset{border-color:var(--link);box-shadow:0 0 0 2px var(--link)}
form.find,.ids+form,.scroll+form{margin-top:1.25rem}
.find p{display:flex;flex-wrap:wrap;gap:.4rem .6rem;align-items:center}
.find input[type=text]{width:auto;flex:1 1 12rem;margin:0}
.fields{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,9rem),1fr));gap:0 .9rem;align-items:end}
.fields input[type=text],select{display:block;width:100%;margin-top:.2rem}
.fields input[type=text]{padding:.4rem .5rem;font-size:.875rem;line-height:1.5rem}
select{font:inherit;padding:.4rem .6rem;border:1px solid var(--edge);border-radius:.35rem;background:var(--card);color:var(--text)}
.timeline{margin:0;padding:.4rem .9rem;list-style:none;border:1px solid var(--line);border-radius:.5rem;background:var(--card)}
.timeline li{padding:.2rem 0;background:none}
.timeline .t{display:inline-block;min-width:11rem;color:var(--dim)}
pre.preview{max-height:30rem;overflow:auto;margin:0;padding:.7rem .9rem;border:1px solid var(--line);border-radius:.5rem;background:var(--card);font:.875rem/1.45 ui-monospace,"Liberation Mono",Menlo,Consolas,monospace;white-space:pre-wrap}
pre.hex{white-space:pre}
img.preview{max-width:100%;max-height:30rem;border:1px solid var(--line);background:var(--card)}
@media (max-width:56rem){.wide{display:none}.jobs tr{display:flex;flex-wrap:wrap;gap:.1rem .7rem;padding:.5rem .6rem;border-top:1px solid var(--line)}.jobs tr:first-child,.jobs .n{display:none}.jobs td{display:block;padding:0;border:0}.jobs .text{flex:1 1 55%;min-width:0}.jobs .wide{display:block}.jobs td:empty{display:none}.list .tag{display:inline;color:var(--dim)}.jobs .t .dim{display:inline}}
@media (min-width:42.01rem) and (max-width:74.99rem){.charts{grid-template-columns:1fr 1fr}.chart figcaption{min-height:0}.chart svg{max-width:28rem}}
@media (min-width:75rem){.jobs .t .dim{display:inline;margin-left:.4rem}}
@media (max-width:42rem){body{padding:0 .9rem 2rem}.chart figcaption{min-height:0}.path .side{margin-left:0;padding-left:.6rem;border-left:1px solid var(--edge)}.tiles{grid-template-columns:repeat(auto-fit,minmax(6.5rem,1fr));gap:.4rem}.tiles a,.tiles span{padding:.4rem .6rem}.tiles b{font-size:1.125rem}th,td{padding:.4rem .5rem}.list .text{min-width:6.5rem}.minor{display:none}.list tr:first-child th{white-space:normal}.jobs .minor{display:block}.state th,.state td{display:block;width:auto;border:0;padding:.1rem .7rem}.state th{padding-top:.5rem;font-size:.8125rem}.state td{padding-bottom:.5rem;border-bottom:1px solid var(--line)}.state tr:first-child{display:none}}
@media print{h2:has(+.forms),.forms,.find,.live,.skip,.foot,.more,.path .side,.path .side~li{display:none}body{max-width:none;background:none}.scroll,.note,pre.preview,.state ul,.state .long{overflow:visible;max-height:none}pre.hex,.manual pre.preview{white-space:pre-wrap}.minor,.wide{display:table-cell}.list tr,.chart,.timeline li{break-inside:avoid}h2{break-after:avoid}html{font-size:12px}.wrap tr:first-child th{min-width:0}.wrap th,.wrap td{padding:.2rem .35rem;font-size:.75rem}}
`

// StyleHash is the source expression of PageStyle for a
// Content-Security-Policy.
const StyleHash = "'sha256-yZoWxXcy6dNZepe36gerFhe/a/3lRuqNKDkRUyAYeqE='"

// PagePolicy is the Content-Security-Policy of a page: no scripts, no
// resources, forms to its own origin.
const PagePolicy = "default-src 'none'; style-src " + StyleHash + "; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
