package sitemap

import (
	"strconv"
	"time"
)

// The append functions print version 1.1 and check nothing: their documents are
// always well-formed, since characters outside of XML 1.0 become U+FFFD, but
// valid only if the values are. The functions allocate only to grow dst.

// AppendHead appends the document up to its first entry, and a line end.
func AppendHead(dst []byte, root Root, h Head) []byte {
	dst = append(dst, `<?xml version="1.0" encoding="UTF-8"?>`+"\n<"...)
	dst = append(dst, rootNames[root]...)
	dst = append(dst, ` xmlns="`+Namespace+`" xmlns:rs="`+RSNamespace+`" xmlns:cut="`+EventNamespace+`">`+"\n<rs:md"...)
	dst = appendAttr(dst, ` capability="`, string(h.Capability))
	dst = appendTimeAttr(dst, ` at="`, h.At)
	dst = appendTimeAttr(dst, ` completed="`, h.Completed)
	dst = appendTimeAttr(dst, ` from="`, h.From)
	dst = appendTimeAttr(dst, ` until="`, h.Until)
	dst = append(dst, "/>\n"...)
	for i := range h.Links {
		dst = appendLink(dst, &h.Links[i])
		dst = append(dst, '\n')
	}
	return dst
}

// AppendEntry appends one entry of a document of kind root, as one line.
// e is not kept.
func AppendEntry(dst []byte, root Root, e *Entry) []byte {
	dst = append(dst, '<')
	dst = append(dst, entryNames[root]...)
	dst = append(dst, "><loc>"...)
	dst = appendEscaped(dst, e.Loc)
	dst = append(dst, "</loc>"...)
	if !e.LastMod.IsZero() {
		dst = append(dst, "<lastmod>"...)
		dst = AppendTime(dst, e.LastMod)
		dst = append(dst, "</lastmod>"...)
	}
	dst = appendElement(dst, "<changefreq>", e.ChangeFreq, "</changefreq>")
	dst = appendElement(dst, "<priority>", e.Priority, "</priority>")
	dst = appendMetadata(dst, e)
	for i := range e.Links {
		dst = appendLink(dst, &e.Links[i])
	}
	dst = append(dst, "</"...)
	dst = append(dst, entryNames[root]...)
	return append(dst, ">\n"...)
}

// AppendFoot appends the end of the document and a line end.
func AppendFoot(dst []byte, root Root) []byte {
	dst = append(dst, "</"...)
	dst = append(dst, rootNames[root]...)
	return append(dst, ">\n"...)
}

// appendMetadata appends the rs:md of an entry, or nothing if it says nothing.
func appendMetadata(dst []byte, e *Entry) []byte {
	start := len(dst)
	dst = append(dst, "<rs:md"...)
	attrs := len(dst)
	dst = appendAttr(dst, ` capability="`, string(e.Capability))
	dst = appendAttr(dst, ` change="`, string(e.Change))
	dst = appendTimeAttr(dst, ` datetime="`, e.DateTime)
	dst = appendTimeAttr(dst, ` at="`, e.At)
	dst = appendTimeAttr(dst, ` completed="`, e.Completed)
	dst = appendTimeAttr(dst, ` from="`, e.From)
	dst = appendTimeAttr(dst, ` until="`, e.Until)
	dst = appendHashes(dst, e.Hashes)
	if e.Length >= 0 {
		dst = appendLength(dst, e.Length)
	}
	dst = appendAttr(dst, ` type="`, e.Type)
	dst = appendAttr(dst, ` encoding="`, e.Encoding)
	dst = appendAttr(dst, ` path="`, e.Path)
	dst = appendAttr(dst, ` cut:event="`, e.Event)
	if e.Seq != 0 {
		dst = append(dst, ` cut:seq="`...)
		dst = strconv.AppendUint(dst, e.Seq, 10)
		dst = append(dst, '"')
	}
	if len(dst) == attrs {
		return dst[:start]
	}
	return append(dst, "/>"...)
}

func appendLink(dst []byte, l *Link) []byte {
	dst = append(dst, "<rs:ln"...)
	dst = appendAttr(dst, ` rel="`, l.Rel)
	dst = appendAttr(dst, ` href="`, l.Href)
	if l.Pri != 0 {
		dst = append(dst, ` pri="`...)
		dst = strconv.AppendInt(dst, int64(l.Pri), 10)
		dst = append(dst, '"')
	}
	dst = appendTimeAttr(dst, ` modified="`, l.Modified)
	dst = appendHashes(dst, l.Hashes)
	if l.Length > 0 {
		dst = appendLength(dst, l.Length)
	}
	dst = appendAttr(dst, ` type="`, l.Type)
	dst = appendAttr(dst, ` encoding="`, l.Encoding)
	dst = appendAttr(dst, ` path="`, l.Path)
	return append(dst, "/>"...)
}

func appendHashes(dst []byte, hashes []Hash) []byte {
	if len(hashes) == 0 {
		return dst
	}
	dst = append(dst, ` hash="`...)
	for i := range hashes {
		if i > 0 {
			dst = append(dst, ' ')
		}
		if hashes[i].Alg != "" {
			dst = appendEscaped(dst, hashes[i].Alg)
			dst = append(dst, ':')
		}
		dst = appendEscaped(dst, hashes[i].Value)
	}
	return append(dst, '"')
}

func appendLength(dst []byte, n int64) []byte {
	dst = append(dst, ` length="`...)
	dst = strconv.AppendInt(dst, n, 10)
	return append(dst, '"')
}

func appendElement(dst []byte, open, value, end string) []byte {
	if value == "" {
		return dst
	}
	dst = append(dst, open...)
	dst = appendEscaped(dst, value)
	return append(dst, end...)
}

func appendAttr(dst []byte, open, value string) []byte {
	if value == "" {
		return dst
	}
	dst = append(dst, open...)
	dst = appendEscaped(dst, value)
	return append(dst, '"')
}

func appendTimeAttr(dst []byte, open string, t time.Time) []byte {
	if t.IsZero() {
		return dst
	}
	dst = append(dst, open...)
	dst = AppendTime(dst, t)
	return append(dst, '"')
}
