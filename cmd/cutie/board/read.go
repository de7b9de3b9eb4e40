package board

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"cutie/cmd/cutie/access"
	"cutie/cmd/cutie/dashboard"
	"cutie/queuefs/web"
	"cutie/sitemap"
	"cutie/wellknown"
)

// maxDocument is how many octets of a document are read for a page.
const maxDocument = 2 << 20

// A document is an answer with its first octets.
type document struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (d *document) Header() http.Header { return d.header }

func (d *document) WriteHeader(status int) {
	if d.status == 0 {
		d.status = status
	}
}

func (d *document) Write(p []byte) (int, error) {
	d.WriteHeader(http.StatusOK)
	d.body.Write(p[:min(len(p), maxDocument-d.body.Len())])
	return len(p), nil
}

// read answers with a document of ResourceSync as a page, with links to go on. The octets
// of the document stay as they are, at their own URL.
func (b *Board) read(w http.ResponseWriter, r *http.Request) error {
	_, rest, _ := strings.Cut(r.URL.EscapedPath(), "/read")
	path, err := url.PathUnescape(wellknown.Path + rest)
	if err != nil {
		return web.NotHere
	}
	inner := (&http.Request{Method: http.MethodGet, URL: &url.URL{Path: path, RawPath: wellknown.Path + rest}, Header: http.Header{},
		Host: r.Host, Proto: r.Proto, ProtoMajor: r.ProtoMajor, ProtoMinor: r.ProtoMinor}).WithContext(r.Context())
	d := &document{header: http.Header{}}
	b.Published.ServeHTTP(d, inner)
	if d.status != http.StatusOK {
		return web.Errorf(d.status, "%.300s", strings.TrimSpace(d.body.String()))
	}
	v := b.site(r, "")
	page := &dashboard.Document{URI: string(v.Base) + wellknown.Path + rest, Tree: string(v.Base) + wellknown.Path, Pages: v.Base.Ref("read"), Cut: d.body.Len() == maxDocument}
	reader := sitemap.NewReader(&d.body)
	if _, page.Head, err = reader.ReadHead(); err != nil {
		return web.Errorf(http.StatusNotFound, "%s is no document of ResourceSync", page.URI)
	}
	for {
		e, err := reader.Read()
		if errors.Is(err, io.EOF) || err != nil && page.Cut {
			break
		}
		if err != nil {
			return err
		}
		if len(page.Entries) == dashboard.DocumentEntries {
			page.Cut = true
			break
		}
		if b.mayRead(r, page.Tree, e.Loc) {
			page.Entries = append(page.Entries, e)
		}
	}
	return answer(w, dashboard.Read(v, page))
}

// mayRead reports whether the caller may see a reference: one to the documents of a queue
// needs the right to read it.
func (b *Board) mayRead(r *http.Request, tree, ref string) bool {
	below, ok := strings.CutPrefix(ref, tree+"/")
	if !ok {
		return true
	}
	segment, _, more := strings.Cut(below, "/")
	queue, err := url.PathUnescape(segment)
	return err == nil && (!more || access.CallerOf(r.Context()).May(web.Read, queue))
}
