package documents

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"cutie/sitemap"
	"cutie/wellknown"
)

// A node is a document of the Source, or a package.
type node struct {
	doc
	rank    int
	about   content
	changed bool           // differs from the one in the directory
	dump    *waiting       // waits for the new lengths of its packages
	listed  int64          // bytes of a package by the document that names it; -1 if it does not say
	sums    []sitemap.Hash // of a package, likewise
}

// A waiting is a document with packages that may get other bytes.
type waiting struct {
	text     []byte
	modified time.Time
}

// content is what a document says of itself, and its references to documents.
type content struct {
	root       sitemap.Root
	capability sitemap.Capability
	refs       []reference
}

type reference struct {
	path   string
	length int64
	sums   []sitemap.Hash
}

// crawl visits all documents, beginning with the Source Description, and
// stages the changed ones.
func (r *run) crawl(ctx context.Context) error {
	r.nodes = make(map[string]*node)
	r.base, r.target = r.old.from, strings.TrimRight(r.BaseURI, "/")
	if r.target == "" {
		r.target = r.base
	}
	r.done = Result{}
	r.meet(reference{path: wellknown.Path, length: -1})
	for len(r.queue) > 0 {
		n := r.queue[0]
		r.queue = r.queue[1:]
		if err := r.visit(ctx, n); err != nil {
			r.queue = nil
			return err
		}
		for _, ref := range n.about.refs {
			r.meet(ref)
		}
	}
	for _, n := range r.nodes {
		if n.dump != nil {
			if err := r.stage(n, r.repack(n.dump.text), &n.dump.modified); err != nil {
				return err
			}
			n.dump = nil
		}
	}
	return nil
}

func (r *run) meet(ref reference) {
	if r.nodes[ref.path] == nil {
		n := &node{doc: doc{path: ref.path, tag: "-", sha256: "-"}, listed: ref.length, sums: ref.sums}
		r.nodes[ref.path] = n
		r.queue = append(r.queue, n)
	}
}

// isPackage and isDocument tell kinds by their names. Everything else is text
// about the Source.
func isPackage(path string) bool  { return strings.HasSuffix(path, ".zip") }
func isDocument(path string) bool { return path == wellknown.Path || strings.HasSuffix(path, ".xml") }

// visit stages a document if it has changed, and finds its references.
func (r *run) visit(ctx context.Context, n *node) error {
	had, ok := r.old.docs[n.path]
	if ok = ok && had.tag != "-"; ok {
		size, _, err := r.tree.stat(n.path)
		ok = err == nil && size == had.length
	}
	if ok && had.final {
		return r.keep(n, had)
	}
	if isPackage(n.path) {
		if linked, err := r.link(n); linked || err != nil {
			return err
		}
	}
	tag := ""
	if ok {
		tag = had.tag
	}
	resp, err := r.get(ctx, n.path, tag)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotModified && ok:
		return r.keep(n, had)
	case (resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone) && n.path != wellknown.Path:
		return fmt.Errorf("%s: %s: %w", n.path, resp.Status, ErrMoving) // it was named a moment ago
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s", resp.Request.URL, resp.Status)
	}
	n.tag = "-"
	if tag := resp.Header.Get("ETag"); tag != "" && !strings.ContainsAny(tag, " \n") {
		n.tag = tag
	}
	n.final = n.tag != "-" && strings.Contains(resp.Header.Get("Cache-Control"), "immutable")
	modified, _ := http.ParseTime(resp.Header.Get("Last-Modified")) // zero without one
	if isPackage(n.path) {
		return r.unload(n, resp, modified)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	if err != nil {
		return fmt.Errorf("%s: %w", resp.Request.URL, err)
	}
	if len(text) > maxDocument {
		return fmt.Errorf("%s is larger than %d octets", resp.Request.URL, maxDocument)
	}
	return r.take(n, text, modified)
}

// maxDocument bounds the bytes of a document, and of a manifest.
const maxDocument = sitemap.MaxOctets + 1<<20

// get asks the Source; with a tag it may answer 304.
func (r *run) get(ctx context.Context, path, tag string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.source+path, nil)
	if err != nil {
		return nil, err
	}
	if tag != "" {
		req.Header.Set("If-None-Match", tag)
	}
	if r.Client == nil {
		return http.DefaultClient.Do(req)
	}
	return r.Client.Do(req)
}

// keep leaves a document as it is.
func (r *run) keep(n *node, had doc) (err error) {
	n.doc = had
	var known bool
	if n.about, known = r.finals[n.path]; !known && isDocument(n.path) {
		f, err := r.tree.openFile(n.path, false)
		if err != nil {
			return err
		}
		defer f.Close()
		if n.about, err = r.contents(f); err != nil {
			return fmt.Errorf("%s: %w", f.Name(), err)
		}
		if had.final {
			r.finals[n.path] = n.about
		}
	}
	n.rank = rankOf(n.path, &n.about)
	return nil
}

// take stages a changed document.
func (r *run) take(n *node, text []byte, modified time.Time) (err error) {
	if n.path == wellknown.Path {
		if err := r.learn(text); err != nil {
			return fmt.Errorf("%s: %w", n.path, err)
		}
	}
	if r.base != r.target {
		text = r.rebase(withoutHubs(text, n.path), n.path)
	}
	if isDocument(n.path) {
		if n.about, err = r.contents(bytes.NewReader(text)); err != nil {
			return fmt.Errorf("%s: %w", n.path, err)
		}
	}
	n.rank = rankOf(n.path, &n.about)
	if r.base != r.target && n.about.isDump() {
		n.changed, n.dump = true, &waiting{text, modified}
		return nil
	}
	return r.stage(n, text, &modified)
}

// stage writes a document under a temporary name.
func (r *run) stage(n *node, text []byte, modified *time.Time) error {
	n.changed, n.length = true, int64(len(text))
	if modified == nil {
		modified = new(time.Time)
	}
	r.done.Documents++
	r.done.Octets += n.length
	s, err := r.tree.write(n.path, n.rank, *modified, true, func(f *os.File) error {
		_, err := f.Write(text)
		return err
	})
	if s.final = n.final; err == nil {
		r.tree.staged = append(r.tree.staged, s)
	}
	return err
}

// contents reads references to documents. Of a list of resources it reads the
// head only.
func (r *run) contents(in io.Reader) (c content, err error) {
	rd := sitemap.NewReader(in)
	var head sitemap.Head
	if c.root, head, err = rd.ReadHead(); err != nil {
		return c, err
	}
	c.capability = head.Capability
	for _, l := range head.Links {
		c.refer(r.target, l.Href, -1, nil)
	}
	for !c.isLeaf() {
		e, err := rd.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return c, err
		}
		c.refer(r.target, e.Loc, e.Length, e.Hashes)
		for _, l := range e.Links {
			c.refer(r.target, l.Href, -1, nil)
		}
	}
	return c, nil
}

func (c *content) refer(base, uri string, length int64, sums []sitemap.Hash) {
	path, ok := strings.CutPrefix(uri, base)
	if !ok || path != wellknown.Path && !strings.HasPrefix(path, wellknown.Path+"/") {
		return
	}
	if _, _, ok := splitPath(path); ok {
		c.refs = append(c.refs, reference{path, length, sums})
	}
}

// isLeaf reports whether the entries are resources.
func (c *content) isLeaf() bool {
	switch c.capability {
	case sitemap.ResourceList, sitemap.ChangeList, sitemap.ChangeNotification:
		return c.root == sitemap.URLSet
	case sitemap.ResourceDumpManifest, sitemap.ChangeDumpManifest:
		return true
	}
	return false
}

// isDump reports whether the entries are packages.
func (c *content) isDump() bool {
	return c.root == sitemap.URLSet && (c.capability == sitemap.ResourceDump || c.capability == sitemap.ChangeDump)
}

// rankRoot is the rank of the Source Description, where all references begin.
const rankRoot = 11

// rankOf orders documents: one has a higher rank than all it names.
func rankOf(path string, c *content) int {
	source, _ := strings.CutPrefix(path, wellknown.Path+"/")
	switch {
	case path == wellknown.Path:
		return rankRoot
	case path == robotsPath:
		return rankRoot - 1
	case isPackage(path), strings.HasSuffix(string(c.capability), "-manifest"):
		return 0
	case !isDocument(path) && !strings.Contains(source, "/"): // about the Source
		return 8
	case !isDocument(path): // about a set
		return 6
	case c.capability == sitemap.Description:
		return 9
	case c.capability == sitemap.CapabilityList:
		return 7
	case strings.HasSuffix(string(c.capability), "-archive"):
		if c.root == sitemap.SitemapIndex {
			return 5
		}
		return 4
	case c.root == sitemap.SitemapIndex:
		return 3
	case c.isDump():
		return 2
	}
	return 1
}

// confirm checks the indexes of Change Lists after all open lists were read:
// otherwise a list closed meanwhile might be in no index.
func (r *run) confirm(ctx context.Context) error {
	changed := false
	for _, n := range r.nodes {
		changed = changed || n.changed && n.about.capability == sitemap.ChangeList
	}
	for path, n := range r.nodes {
		if !changed || n.about.root != sitemap.SitemapIndex || n.about.capability != sitemap.ChangeList || n.tag == "-" {
			continue
		}
		resp, err := r.get(ctx, path, n.tag)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusNotModified {
			return fmt.Errorf("%s: %w", path, ErrMoving)
		}
	}
	return nil
}

var errNoBase = errors.New("names nothing below " + wellknown.Path)
