package publisher

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

// Everything published is found from the Source Description, document by
// document. What a document names is put in place before it.

// A node is a document of the Source, or a package.
type node struct {
	exported
	rank    int
	about   content
	changed bool           // it is not what was there
	dump    *pendingDump   // waits for its packages
	listed  int64          // octets of a package, as the document that names it says; -1 if it does not
	sums    []sitemap.Hash // of a package
}

// A pendingDump is a document that names packages, which may become others.
type pendingDump struct {
	text     []byte
	modified time.Time
}

// content is what a document is, by its root element and capability.
type content struct {
	root       sitemap.Root
	capability sitemap.Capability
	refs       []reference
}

// A reference is from one document to another.
type reference struct {
	path   string
	length int64
	sums   []sitemap.Hash
}

// crawl looks at all documents and gets those that have changed.
func (r *run) crawl(ctx context.Context) error {
	r.nodes = make(map[string]*node)
	r.base, r.tree = r.old.from, strings.TrimRight(r.BaseURI, "/")
	if r.tree == "" {
		r.tree = r.base
	}
	r.done = Exported{}
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
		n := &node{exported: exported{path: ref.path, tag: "-", sha256: "-"}, listed: ref.length, sums: ref.sums}
		r.nodes[ref.path] = n
		r.queue = append(r.queue, n)
	}
}

// Kinds of documents by their names: what is neither is text about the Source.
func isPackage(path string) bool  { return strings.HasSuffix(path, ".zip") }
func isDocument(path string) bool { return path == wellknown.Path || strings.HasSuffix(path, ".xml") }

// visit gets a document unless that which is there is the same, and finds what
// it names.
func (r *run) visit(ctx context.Context, n *node) error {
	had, ok := r.old.docs[n.path]
	if ok && had.tag != "-" {
		size, _, err := r.dir.stat(n.path)
		ok = err == nil && size == had.length
	} else {
		ok = false
	}
	if ok && had.final { // what it names is named by others
		n.exported = had
		return nil
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
	resp, err := r.get(ctx, r.source+n.path, tag)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotModified && ok:
		return r.keep(n, had)
	case resp.StatusCode == http.StatusNotFound && n.path != wellknown.Path:
		return fmt.Errorf("%s: %s: %w", n.path, resp.Status, ErrMoving) // it was named a moment ago
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s", resp.Request.URL, resp.Status)
	}
	n.tag = "-"
	if tag := resp.Header.Get("ETag"); tag != "" && !strings.ContainsAny(tag, " \n") {
		n.tag = tag
	}
	n.final = n.tag != "-" && strings.Contains(resp.Header.Get("Cache-Control"), "immutable")
	modified, _ := http.ParseTime(resp.Header.Get("Last-Modified")) // none is none
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

// maxDocument is more octets than a document may have.
const maxDocument = sitemap.MaxOctets + 1<<20

// get asks the Source, which may answer 304 for a tag.
func (r *run) get(ctx context.Context, uri, tag string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, nil)
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
func (r *run) keep(n *node, had exported) (err error) {
	n.exported = had
	if isDocument(n.path) {
		f, err := r.dir.openFile(n.path)
		if err != nil {
			return err
		}
		defer f.Close()
		if n.about, err = r.contents(f); err != nil {
			return fmt.Errorf("%s: %w", f.Name(), err)
		}
	}
	n.rank = rankOf(n.path, &n.about)
	return nil
}

// take stages a document that has changed.
func (r *run) take(n *node, text []byte, modified time.Time) (err error) {
	if n.path == wellknown.Path {
		if err := r.learn(text); err != nil {
			return fmt.Errorf("%s: %w", n.path, err)
		}
	}
	if r.base != r.tree {
		text = r.rebase(withoutHubs(text, n.path), n.path)
	}
	if isDocument(n.path) {
		if n.about, err = r.contents(bytes.NewReader(text)); err != nil {
			return fmt.Errorf("%s: %w", n.path, err)
		}
	}
	n.rank = rankOf(n.path, &n.about)
	if r.base != r.tree && n.about.isDump() {
		n.changed, n.dump = true, &pendingDump{text, modified}
		return nil
	}
	return r.stage(n, text, &modified)
}

// stage writes a document beside what is there.
func (r *run) stage(n *node, text []byte, modified *time.Time) error {
	n.changed, n.length = true, int64(len(text))
	if modified == nil {
		modified = new(time.Time)
	}
	r.done.Documents++
	r.done.Octets += n.length
	s, err := r.dir.write(n.path, n.rank, *modified, true, func(f *os.File) error {
		_, err := f.Write(text)
		return err
	})
	if err == nil {
		r.dir.staged = append(r.dir.staged, s)
	}
	return err
}

// contents reads what a document names below the path of the documents. What
// names resources is read no further than its head.
func (r *run) contents(in io.Reader) (c content, err error) {
	rd := sitemap.NewReader(in)
	var head sitemap.Head
	if c.root, head, err = rd.ReadHead(); err != nil {
		return c, err
	}
	c.capability = head.Capability
	for _, l := range head.Links {
		c.refer(r.tree, l.Href, -1, nil)
	}
	for !c.isLeaf() {
		e, err := rd.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return c, err
		}
		c.refer(r.tree, e.Loc, e.Length, e.Hashes)
		for _, l := range e.Links {
			c.refer(r.tree, l.Href, -1, nil)
		}
	}
	return c, nil
}

func (c *content) refer(tree, uri string, length int64, sums []sitemap.Hash) {
	path, ok := strings.CutPrefix(uri, tree)
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

// isChangeIndex reports whether the entries are Change Lists.
func (c *content) isChangeIndex() bool {
	return c.root == sitemap.SitemapIndex && c.capability == sitemap.ChangeList
}

// rankRoot is that of the Source Description, which everything is found from.
const rankRoot = 11

// rankOf orders documents such that what one names has a lower rank.
func rankOf(path string, c *content) int {
	switch {
	case path == wellknown.Path:
		return rankRoot
	case path == robotsPath:
		return rankRoot - 1
	case path == wellknown.Path+"/"+aboutPage, path == wellknown.Path+"/"+aboutData:
		return 8
	case strings.HasSuffix(path, "/"+aboutPage), strings.HasSuffix(path, "/"+aboutData):
		return 6
	case !isDocument(path), strings.HasSuffix(string(c.capability), "-manifest"):
		return 0
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

// confirm tells whether the indexes of Change Lists are still what they were
// when the open lists had been got: else a list may have been closed between
// that no index names.
func (r *run) confirm(ctx context.Context) error {
	changed := false
	for _, n := range r.nodes {
		changed = changed || n.changed && n.about.capability == sitemap.ChangeList
	}
	for path, n := range r.nodes {
		if !changed || !n.about.isChangeIndex() || n.tag == "-" {
			continue
		}
		resp, err := r.get(ctx, r.source+path, n.tag)
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
