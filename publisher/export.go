package publisher

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"cutie/publisher/hub"
	"cutie/publisher/names"
	"cutie/publisher/set"
	"cutie/queuefs/ledger"
	"cutie/queuefs/web"
	"cutie/sitemap"
	"cutie/wellknown"
)

// An Export asks for everything published, as files for a server of static files.
type Export struct {
	// BaseURI begins references to documents instead of the base URI of the Source; empty
	// keeps that. At another base URI packages get other bytes, because their manifests have
	// references, and hubs are left out: a hub serves the topics of the Source alone.
	BaseURI string `json:"baseURI,omitempty"`

	Resources bool       `json:"resources,omitempty"` // references to files of queues begin with it, too
	Robots    bool       `json:"robots,omitempty"`    // robots.txt, with a line for each Resource List
	Has       []Exported `json:"has,omitempty"`       // what there is by an earlier Export
}

// An Exported is one file of an export.
type Exported struct {
	Path     string    `json:"path"`              // below the base URI, not escaped
	Tag      string    `json:"tag,omitempty"`     // differs for each state; "" if unknown
	Type     string    `json:"type,omitempty"`    // media type
	Length   int64     `json:"length"`            // bytes
	SHA256   string    `json:"sha256,omitempty"`  // of a package
	Final    bool      `json:"final,omitempty"`   // it never changes
	Height   int       `json:"height,omitempty"`  // above those of all documents that it names
	Modified time.Time `json:"modified,omitzero"` // zero if unknown
	Same     bool      `json:"same,omitempty"`    // it is among the files of an earlier Export
}

// ErrMoving says that the Source changes faster than its documents can be exported.
var ErrMoving = errors.New("the source changes faster than it can be exported")

// exportTries is how often a document is composed again because meanwhile it names others.
const exportTries = 20

// An export is one use of [Publisher.Export].
type export struct {
	*Publisher
	Export
	put    func(Exported, func(io.Writer) error) error
	target string   // begins references; without a slash at the end
	moved  []string // paths below which references get the target; none if it is the base URI
	salt   string
	has    map[string]Exported // by path
	named  map[string]string   // SHA-256 of packages, by path of the reference
	done   map[string]Exported // likewise
	begun  map[string]bool     // documents that wait for those they name, likewise
}

// Export calls put with every published document and package, each after all that it
// names. write writes the bytes; it is nil if the receiver has them already. A document
// that changes meanwhile may come again.
func (p *Publisher) Export(ctx context.Context, e Export, put func(f Exported, write func(io.Writer) error) error) error {
	x := &export{Publisher: p, Export: e, has: make(map[string]Exported),
		named: make(map[string]string), done: make(map[string]Exported), begun: make(map[string]bool)}
	x.put = func(f Exported, write func(io.Writer) error) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return put(f, write)
	}
	var err error
	if x.target, err = p.exportBase(e.BaseURI); err != nil {
		return err
	}
	if x.target != p.BaseURI() {
		x.moved = []string{wellknown.Path}
		if e.Resources {
			x.moved = append(x.moved, "/queues/")
		}
	}
	x.salt = p.server.Salt + names.Salt(x.target, x.moved)
	for _, f := range e.Has {
		x.has[f.Path] = f
	}
	if err := x.emit(wellknown.Path); err != nil {
		return err
	}
	if e.Robots {
		return x.robots()
	}
	return nil
}

// exportBase returns what begins the references of an Export.
func (p *Publisher) exportBase(uri string) (string, error) {
	u, err := url.Parse(uri)
	if err != nil || uri != "" && (u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" || u.User != nil) {
		return "", web.Errorf(http.StatusBadRequest, "%q is not an absolute http or https URI", uri)
	}
	return cmp.Or(strings.TrimRight(uri, "/"), p.BaseURI()), nil
}

// errUnnamed says that a document is gone; those that named it no longer do.
var errUnnamed = errors.New("gone meanwhile")

// emit puts everything that a document names, and then the document.
func (x *export) emit(ref string) error {
	x.begun[ref] = true
	defer delete(x.begun, ref)
	for n := range exportTries {
		missing, err := x.compose(ref, n > 0)
		if err != nil || len(missing) == 0 {
			return err
		}
		for i := 0; i < len(missing) && err == nil; i++ {
			err = x.emit(missing[i])
		}
		if err != nil && !errors.Is(err, errUnnamed) {
			return err
		}
	}
	return ErrMoving
}

// compose puts a document if everything that it names was put, and returns what is missing
// otherwise. If that is so a second time, a list was closed: what was put of the open one
// may overlap with it, so documents that change are put again, too.
func (x *export) compose(ref string, again bool) (missing []string, err error) {
	open := uses{p: x.Publisher, edit: x.edit}
	defer open.release()
	res, err := x.resource(ref, &open)
	if own := (*web.Error)(nil); err == nil && res == nil || errors.As(err, &own) && own.Status == http.StatusGone {
		err = errUnnamed
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ref, err)
	}
	f, err := x.file(ref, res)
	if err != nil {
		return nil, err
	}
	if had, ok := x.has[f.Path]; ok && had.Height == 0 && had.Tag == f.Tag && f.Tag != "" {
		return nil, x.finish(ref, had, nil)
	}
	doc, err := x.server.Document(ref, res, identity)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ref, err)
	}
	defer doc.Close()
	f.Tag, f.Modified = x.tag(res, doc.Tag), x.server.Stable(doc.Modified)
	if res.File != nil {
		return nil, x.pack(ref, f, res, doc)
	}
	text, err := io.ReadAll(doc)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ref, err)
	}
	if f.Type == typeXML {
		var refs []string
		if text, refs, err = x.render(text); err != nil {
			return nil, fmt.Errorf("%s: %w", ref, err)
		}
		ready := func(r string) bool { _, done := x.done[r]; return done || x.begun[r] }
		if slices.IndexFunc(refs, func(r string) bool { return !ready(r) }) >= 0 && again {
			for _, r := range refs {
				if !x.done[r].Final {
					delete(x.done, r)
				}
			}
		}
		for _, r := range refs {
			if done, ok := x.done[r]; ok {
				f.Height = max(f.Height, done.Height+1)
			}
		}
		if missing = slices.DeleteFunc(refs, ready); len(missing) > 0 {
			slices.SortStableFunc(missing, func(a, b string) int { return strings.Compare(path.Ext(b), path.Ext(a)) }) // texts name lists
			return missing, nil
		}
	}
	f.Length = int64(len(text))
	return nil, x.finish(ref, f, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// resource returns the document at a path; nil if there is none.
func (x *export) resource(ref string, open *uses) (*resource, error) {
	if x.src.Closed() {
		return nil, ledger.ErrClosed
	}
	if ref == wellknown.Path {
		return x.description(), nil
	}
	parts := strings.Split(strings.TrimPrefix(ref, wellknown.Path+"/"), "/")
	id, err := url.PathUnescape(parts[0])
	switch {
	case err != nil:
		return nil, err
	case len(parts) == 1:
		return x.findPart(id, open), nil
	case len(parts) != 3:
		return nil, nil
	}
	res, err := x.find(id, parts[1], parts[2], open)
	if t := x.topics.Load(); t != nil && res == nil && err == nil {
		if body, err := t.Newest(x.Publisher.BaseURI() + ref); err == nil {
			return textDocument("n-"+names.Salt(string(body)), func() []byte { return body }), nil
		}
	}
	return res, err
}

// file describes a document before it is composed.
func (x *export) file(ref string, res *resource) (f Exported, err error) {
	f = Exported{Tag: x.tag(res, res.Tag), Type: res.Type, Final: res.Final && res.Named}
	if f.Type == "" {
		f.Type = typeXML
	}
	f.Path, err = url.PathUnescape(ref[1:])
	return f, err
}

func (x *export) tag(res *resource, tag string) string {
	if tag == "" {
		return ""
	}
	return x.salt + res.Born + "-" + tag
}

// Names of the Source Description, whose reference has the name of a directory: most web
// servers serve the second one for that.
const (
	descriptionFile = "/index.xml"
	descriptionPage = "/index.html"
)

// finish puts a document.
func (x *export) finish(ref string, f Exported, write func(io.Writer) error) error {
	paths := []string{f.Path}
	if ref == wellknown.Path {
		paths = []string{f.Path + descriptionPage, f.Path + descriptionFile}
	}
	for _, f.Path = range paths {
		var err error
		if had, ok := x.has[f.Path]; ok && had.Tag == f.Tag && f.Tag != "" {
			f, had.Same = had, true
			err = x.put(had, nil)
		} else {
			err = x.put(f, write)
		}
		if err != nil {
			return err
		}
	}
	x.done[ref] = f
	return nil
}

// robots puts robots.txt.
func (x *export) robots() error {
	f := Exported{Path: "robots.txt", Type: "text/plain; charset=utf-8"}
	var lists []string
	for ref, list := range x.done {
		if strings.HasSuffix(ref, "/resourcelist.xml") {
			lists = append(lists, x.target+ref)
			f.Height = max(f.Height, list.Height+1)
		}
	}
	slices.Sort(lists)
	text := wellknown.Robots(lists)
	f.Tag, f.Length = names.Salt(text), int64(len(text))
	return x.finish("/robots.txt", f, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}

// move returns a reference for the target.
func (x *export) move(uri string) string {
	for _, below := range x.moved {
		if rest, ok := strings.CutPrefix(uri, x.Publisher.BaseURI()+below); ok {
			return x.target + below + rest
		}
	}
	return uri
}

// edit moves the references of a text about the Source or a set.
func (x *export) edit(a *names.About) {
	if x.moved == nil {
		return
	}
	a.About = x.move(a.About)
	if a.AboutSet != nil {
		a.Queue.Info = x.move(a.Queue.Info)
	}
	a.Documents = slices.DeleteFunc(a.Documents, func(d names.AboutDocument) bool {
		_, ours := names.ParseDoc(path.Base(d.URI)) // else it is a topic of a hub
		return !ours
	})
	for _, docs := range [][]names.AboutDocument{a.Documents, a.Sets} {
		for i := range docs {
			docs[i].URI, docs[i].About = x.move(docs[i].URI), x.move(docs[i].About)
		}
	}
}

// render returns a document with its references for the target, and the paths of the
// documents it names.
func (x *export) render(text []byte) (out []byte, refs []string, err error) {
	rd := sitemap.NewReader(bytes.NewReader(text))
	root, head, err := rd.ReadHead()
	if err != nil {
		return nil, nil, err
	}
	leaf := isLeaf(root, head.Capability)
	refer := func(uri *string) {
		if ref, ok := strings.CutPrefix(*uri, x.Publisher.BaseURI()); ok && (ref == wellknown.Path || strings.HasPrefix(ref, wellknown.Path+"/")) {
			refs = append(refs, ref)
		}
		*uri = x.move(*uri)
	}
	for i := range head.Links {
		refer(&head.Links[i].Href)
	}
	if leaf && x.moved == nil {
		return text, refs, nil
	}
	named := len(refs)
	out = x.src.Dialect.AppendHead(nil, root, head)
	for {
		e, err := rd.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		if x.moved != nil && e.Link(hub.RelHub) != "" {
			continue
		}
		x.repackaged(&e)
		refer(&e.Loc)
		for i := range e.Links {
			refer(&e.Links[i].Href)
		}
		out = x.src.Dialect.AppendEntry(out, root, &e)
	}
	if leaf {
		refs = refs[:named]
	}
	if x.moved == nil {
		return text, refs, nil
	}
	return sitemap.AppendFoot(out, root), refs, nil
}

// isLeaf reports whether the entries of a document are resources.
func isLeaf(root sitemap.Root, c sitemap.Capability) bool {
	switch c {
	case sitemap.ResourceList, sitemap.ChangeList:
		return root == sitemap.URLSet
	case sitemap.ResourceDumpManifest, sitemap.ChangeDumpManifest:
		return true
	}
	return false
}

// repackaged keeps the digest of a package named by an entry, and gives the entry length and
// digest of the one that was put.
func (x *export) repackaged(e *sitemap.Entry) {
	ref, ok := strings.CutPrefix(e.Loc, x.Publisher.BaseURI())
	if !ok || e.Type != typeZIP {
		return
	}
	for i := range e.Hashes {
		if h := &e.Hashes[i]; h.Alg == "sha-256" {
			x.named[ref] = h.Value
			if f, done := x.done[ref]; done {
				e.Length, h.Value = f.Length, f.SHA256
			}
		}
	}
}

// pack puts a package. For another target its manifest is rendered anew, and all other
// files are copied as they are: the same package gives the same bytes.
func (x *export) pack(ref string, f Exported, res *resource, doc *document) (err error) {
	f.SHA256 = x.named[ref]
	if f.Length, err = doc.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	if x.moved == nil {
		return x.finish(ref, f, func(w io.Writer) error {
			_, err := doc.Seek(0, io.SeekStart)
			if err == nil {
				_, err = io.Copy(w, doc)
			}
			return err
		})
	}
	file, err := res.File()
	if err != nil {
		return err
	}
	defer file.Close()
	in := io.NewSectionReader(file, 0, f.Length)
	sum := sha256.New()
	size := counter{w: sum}
	if err := x.repack(&size, in); err != nil {
		return fmt.Errorf("%s: %w", ref, err)
	}
	f.Length, f.SHA256 = size.n, hex.EncodeToString(sum.Sum(nil))
	return x.finish(ref, f, func(w io.Writer) error { return x.repack(w, in) })
}

func (x *export) repack(w io.Writer, in *io.SectionReader) error {
	zr, err := zip.NewReader(in, in.Size())
	if err != nil {
		return err
	}
	zw := set.NewZip(w)
	for _, file := range zr.File {
		if file.Name == set.ManifestName {
			err = x.addManifest(zw, file)
		} else {
			err = zw.Copy(file)
		}
		if err != nil {
			return err
		}
	}
	return zw.Close()
}

func (x *export) addManifest(zw *zip.Writer, file *zip.File) error {
	r, err := file.Open()
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(r, maxManifest+1))
	if err = errors.Join(err, r.Close()); err == nil && len(text) > maxManifest {
		err = fmt.Errorf("the manifest is larger than %d bytes", maxManifest)
	}
	if err != nil {
		return err
	}
	if text, _, err = x.render(text); err != nil {
		return err
	}
	w, err := zw.CreateHeader(set.Header(file.Name, zip.Deflate))
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}

// maxManifest bounds a manifest in memory.
const maxManifest = sitemap.MaxOctets + 1<<20

// An exportLine is a line in JSON of the answer to an Export. The first has Base, and the
// last End; without that the answer was cut off.
type exportLine struct {
	Base  string    `json:"base,omitempty"` // begins the references
	File  *Exported `json:"file,omitempty"` // its bytes follow, unless it is the same
	End   bool      `json:"end,omitempty"`
	Error string    `json:"error,omitempty"` // why there is no end
}

// exportPath is where an Export is asked for.
const exportPath = "/publish/export"

// maxExport bounds the body of an Export: some hundred thousand documents.
const maxExport = 128 << 20

// serveExport answers an Export in JSON.
func (p *Publisher) serveExport(w http.ResponseWriter, r *http.Request) error {
	body, err := web.NewBodyReader(w, r, maxExport, web.BodyIdle)
	if err != nil {
		return err
	}
	text, err := body.All()
	if err != nil {
		return err
	}
	var e Export
	if err := json.Unmarshal(text, &e); err != nil {
		return web.Errorf(http.StatusBadRequest, "no export in JSON: %v", err)
	}
	base, err := p.exportBase(e.BaseURI)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	lines := json.NewEncoder(w)
	lines.Encode(exportLine{Base: base})
	whole := true
	err = p.Export(r.Context(), e, func(f Exported, write func(io.Writer) error) error {
		if err := lines.Encode(exportLine{File: &f}); err != nil || f.Same {
			return err
		}
		body := counter{w: w}
		err := write(&body)
		whole = err == nil && body.n == f.Length
		if err == nil && !whole {
			err = fmt.Errorf("%s has %d bytes, and not %d", f.Path, body.n, f.Length)
		}
		return err
	})
	switch {
	case err == nil:
		lines.Encode(exportLine{End: true})
	case whole:
		lines.Encode(exportLine{Error: err.Error()})
	default:
		panic(http.ErrAbortHandler) // the reader waits for the rest of a file
	}
	return nil
}
