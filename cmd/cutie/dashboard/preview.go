package dashboard

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Preview shows the beginning of a payload: as text of the page, in hexadecimal digits,
// or as an image at the URL of the payload. The payload itself is never a part of a page:
// HTML and SVG are text here.
type Preview struct {
	Text, Image, Note string
	Hex               bool // Text is a table of digits
}

// PreviewOctets is how many octets of a payload a [Preview] needs.
const PreviewOctets = 16 << 10

const (
	hexOctets   = 512
	imageOctets = 8 << 20
)

// images are the types that browsers draw without running anything.
var images = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// NewPreview returns the preview of a payload of a media type and a size, which begins
// with head, and stands at a URL.
func NewPreview(mediaType string, size int64, head []byte, url string) *Preview {
	media, _, _ := mime.ParseMediaType(mediaType)
	p := &Preview{}
	switch whole := size <= int64(len(head)); {
	case size == 0:
		p.Note = "It is empty."
		return p
	case slices.Contains(images, media) && http.DetectContentType(head) == media && size <= imageOctets:
		p.Image = url
		return p
	case whole && (media == "application/json" || strings.HasSuffix(media, "+json") || bytes.HasPrefix(bytes.TrimSpace(head), []byte("{"))):
		var b bytes.Buffer
		if utf8.Valid(head) && json.Indent(&b, head, "", "  ") == nil && b.Len() < 4*PreviewOctets {
			p.Text, p.Note = clean(b.String()), "JSON, with line ends added."
			return p
		}
	}
	if text, ok := asText(head, size > int64(len(head))); ok {
		p.Text = text
		if size > int64(len(head)) {
			p.Note = fmt.Sprintf("The first %d of %s octets.", len(head), grouped(fmt.Sprint(size)))
		}
		return p
	}
	part := head[:min(len(head), hexOctets)]
	p.Text, p.Hex = hex.Dump(part), true
	if size > int64(len(part)) {
		p.Note = fmt.Sprintf("The first %d of %s octets.", len(part), grouped(fmt.Sprint(size)))
	}
	return p
}

// asText returns the octets as text, false if they are none. A character cut at the end is
// left out if more follows.
func asText(head []byte, more bool) (string, bool) {
	for cut := 1; more && cut < utf8.UTFMax && len(head) > 0 && !utf8.Valid(head); cut++ {
		head = head[:len(head)-1]
	}
	if !utf8.Valid(head) || bytes.ContainsFunc(head, func(r rune) bool { return !inXML(r) }) {
		return "", false
	}
	return string(head), true
}
