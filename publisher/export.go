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
	"mime/multipart"
	"net/http"
	"net/textproto"
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

	Resources bool                `json:"resources,omitempty"` // references to files of queues begin with it, too
	Robots    bool                `json:"robots,omitempty"`    // robots.txt, with a line for each Resource List
	Has       map[string]Exported `json:"has,omitempty"`       // what there is by an earlier Export, by path
}

// An Exported is one file of an export.
type Exported struct {
	Path     string    `json:"path"`              // below the base URI, not escaped
	Tag      string    `json:"tag,omitempty"`     // differs for each state; "" if unknown
	Length   int64     `json:"length,omitempty"`  // bytes; known once it was written
	SHA256   string    `json:"sha256,omitempty"`  // likewise
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
	done   map[string]Exported // by path of the reference
	begun  map[string]bool     // documents that wait for those they name, likewise
}

// Export calls put with every published document and package, each after all that it
// names. write writes the bytes; it is nil if the receiver has them already. A document
// that changes meanwhile may come again.
func (p *Publisher) Export(ctx context.Context, e Export, put func(f Exported, write func(io.Writer) error) error) error {
	x := &export{Publisher: p, Export: e, done: make(map[string]Exported), begun: make(map[string]bool)}
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
	if err := x.emit(wellknown.Path); err != nil || !e.Robots {
		return err
	}
	return x.robots()
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
		for _, r := range missing {
			if _, done := x.done[r]; done {
				continue // another one names it, too
			}
			if err := x.emit(r); errors.Is(err, errUnnamed) {
				break
			} else if err != nil {
				return err
			}
		}
	}
	return ErrMoving
}

// compose puts a document if everything that it names was put, and returns what is missing
// otherwise. If that is so a second time, a list was closed: what was put of the open one
// may overlap with it, so documents that change are put again, too.
func (x *export) compose(ref string, again bool) (missing []string, err error) {
	open := uses{p: x.Publisher}
	defer open.release()
	res, err := x.resource(ref, &open)
	if own := (*web.Error)(nil); err == nil && res == nil || errors.As(err, &own) && own.Status == http.StatusGone {
		err = errUnnamed
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ref, err)
	}
	f := Exported{Tag: x.tag(res, res.Tag), Final: res.Final && res.Named}
	if f.Path, err = url.PathUnescape(ref[1:]); err != nil {
		return nil, err
	}
	if had := x.Has[f.Path]; had.Tag != "" && had.Tag == f.Tag && had.Height == 0 {
		return nil, x.finish(ref, f, nil)
	}
	doc, err := x.server.Document(ref, res, identity)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ref, err)
	}
	defer doc.Close()
	f.Tag, f.Modified = x.tag(res, doc.Tag), x.server.Stable(doc.Modified)
	if res.File != nil {
		return nil, x.finish(ref, f, func(w io.Writer) error { return x.pack(w, res, doc) })
	}
	text, err := io.ReadAll(doc)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ref, err)
	}
	if cmp.Or(res.Type, typeXML) == typeXML {
		var refs []string
		if text, refs, err = x.render(text); err != nil {
			return nil, fmt.Errorf("%s: %w", ref, err)
		}
		ready := func(r string) bool { _, done := x.done[r]; return done || x.begun[r] }
		if slices.ContainsFunc(refs, func(r string) bool { return !ready(r) }) {
			for _, r := range refs {
				if again && !x.done[r].Final {
					delete(x.done, r)
				}
			}
			missing = slices.DeleteFunc(refs, ready)
			slices.SortStableFunc(missing, func(a, b string) int { return strings.Compare(path.Ext(b), path.Ext(a)) }) // texts name lists
			return missing, nil
		}
		for _, r := range refs {
			if done, ok := x.done[r]; ok {
				f.Height = max(f.Height, done.Height+1)
			}
		}
	}
	return nil, x.finish(ref, f, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// resource returns the document at a path; nil if there is none.
func (x *export) resource(ref string, open *uses) (res *resource, err error) {
	if x.src.Closed() {
		return nil, ledger.ErrClosed
	}
	parts := strings.Split(strings.TrimPrefix(ref, wellknown.Path), "/")
	name := parts[len(parts)-1]
	switch len(parts) {
	case 1:
		res = x.description()
	case 2:
		res = x.findPart(name)
	case 4:
		var id string
		if id, err = url.PathUnescape(parts[1]); err != nil {
			return nil, err
		}
		res, err = x.find(id, parts[2], name, open)
		if t := x.topics.Load(); t != nil && res == nil && err == nil {
			if body, err := t.Newest(x.Publisher.BaseURI() + ref); err == nil {
				res = textDocument("n-"+names.Salt(string(body)), func() []byte { return body })
			}
		}
	}
	if res != nil && res.About != nil && x.moved != nil {
		x.moveAbout(res.About)
		at := *res
		res = x.aboutDocument(res.About, name)
		res.Events, res.Born = at.Events, at.Born
	}
	return res, err
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
		if had := x.Has[f.Path]; had.Tag != "" && had.Tag == f.Tag {
			f, f.Same = had, true
			err = x.put(f, nil)
		} else {
			sum := sha256.New()
			size := counter{w: sum}
			err = x.put(f, func(w io.Writer) error { return write(io.MultiWriter(w, &size)) })
			f.Length, f.SHA256 = size.n, hex.EncodeToString(sum.Sum(nil))
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
	f := Exported{Path: robotsPath}
	var lists []string
	for ref, list := range x.done {
		if strings.HasSuffix(ref, "/resourcelist.xml") {
			lists = append(lists, x.target+ref)
			f.Height = max(f.Height, list.Height+1)
		}
	}
	slices.Sort(lists)
	text := wellknown.Robots(lists)
	f.Tag = names.Salt(text)
	return x.finish("/"+robotsPath, f, func(w io.Writer) error {
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

// moveAbout moves the references of a text about the Source or a set.
func (x *export) moveAbout(a *names.About) {
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
		if e.Type == typeZIP && x.moved != nil { // the one that was put has another manifest
			f, done := x.done[strings.TrimPrefix(e.Loc, x.Publisher.BaseURI())]
			for i := range e.Hashes {
				if h := &e.Hashes[i]; h.Alg == "sha-256" && done {
					e.Length, h.Value = f.Length, f.SHA256
				}
			}
		}
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

// pack writes a package. For another target its manifest is rendered anew, and all other
// files are copied as they are: the same package gives the same bytes.
func (x *export) pack(w io.Writer, res *resource, doc *document) error {
	if x.moved == nil {
		_, err := io.Copy(w, doc)
		return err
	}
	size, err := doc.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	file, err := res.File()
	if err != nil {
		return err
	}
	defer file.Close()
	zr, err := zip.NewReader(file, size)
	if err != nil {
		return fmt.Errorf("%s: %w", file.Name(), err)
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

// maxManifest bounds a manifest in memory.
const maxManifest = sitemap.MaxOctets + 1<<20

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

// An Export is asked for at exportPath. The answer is multipart/mixed (RFC 2046, 5.1): a part
// for each file, with an [Exported] in JSON in its head, and a last one without: its text says
// why the export ended early, and is empty otherwise.
const (
	exportPath   = "/publish/export"
	exportedBase = "Cutie-Base" // field of the answer: what begins the references
	exportedFile = "Cutie-File" // field of a part

	maxExport = 128 << 20 // bytes of the body of a request: some hundred thousand documents
)

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
	parts := multipart.NewWriter(w)
	w.Header().Set("Content-Type", "multipart/mixed; boundary="+parts.Boundary())
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set(exportedBase, base)
	err = p.Export(r.Context(), e, func(f Exported, write func(io.Writer) error) error {
		line, err := json.Marshal(f)
		if err != nil {
			return err
		}
		part, err := parts.CreatePart(textproto.MIMEHeader{exportedFile: {string(line)}})
		if err == nil && write != nil {
			err = write(part)
		}
		return err
	})
	if part, gone := parts.CreatePart(nil); gone == nil && err != nil {
		io.WriteString(part, err.Error())
	}
	parts.Close() // if the client is gone, nobody reads that
	return nil
}
