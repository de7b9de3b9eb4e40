package documents

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"html"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"cutie/publisher/dump"
	"cutie/sitemap"
	"cutie/wellknown"
)

// learn finds the base URI of the Source in its Source Description.
func (r *run) learn(text []byte) error {
	rd := sitemap.NewReader(bytes.NewReader(text))
	_, head, err := rd.ReadHead()
	if err != nil {
		return err
	}
	uris := make([]string, 0, 8)
	for _, l := range head.Links {
		uris = append(uris, l.Href)
	}
	e, err := rd.Read()
	if err == nil {
		uris = append(uris, e.Loc)
	} else if err != io.EOF {
		return err
	}
	for _, uri := range uris {
		if base, _, ok := strings.Cut(uri, wellknown.Path+"/"); ok {
			if r.base != base {
				r.old.forget() // all references may differ
				clear(r.finals)
			}
			r.base = base
			if r.BaseURI == "" {
				r.target = base
			}
			return nil
		}
	}
	if err == nil {
		return errNoBase
	}
	return nil
}

// rebase makes references to files of the tree begin with its base URI. In a
// document references stand where the format has them; in text about the
// Source everything that begins so is one. Other references, such as to the
// state of a job, still lead to the Source.
func (r *run) rebase(text []byte, path string) []byte {
	if r.base == r.target || r.base == "" {
		return text
	}
	spell, before := escaped, []string{"<loc>", `href="`}
	switch {
	case strings.HasSuffix(path, ".html"):
		spell, before = func(uri string) []byte { return []byte(html.EscapeString(uri)) }, []string{""}
	case !isDocument(path):
		spell, before = func(uri string) []byte { return []byte(uri) }, []string{""}
	}
	below := []string{wellknown.Path}
	if r.Resources {
		below = append(below, "/queues/")
	}
	for _, path := range below {
		from, to := spell(r.base+path), spell(r.target+path)
		for _, b := range before {
			text = bytes.ReplaceAll(text, append([]byte(b), from...), append([]byte(b), to...))
		}
	}
	return text
}

// escaped returns a URI as it stands in a document.
func escaped(uri string) []byte {
	e := sitemap.AppendEntry(nil, sitemap.URLSet, &sitemap.Entry{Loc: uri, Length: -1})
	_, e, _ = bytes.Cut(e, []byte("<loc>"))
	e, _, _ = bytes.Cut(e, []byte("</loc>"))
	return e
}

// withoutHubs removes hubs and their topics from a Capability List and from the
// texts about a set.
func withoutHubs(text []byte, path string) []byte {
	topics := []string{`/change-notification.xml"`, `/framework-notification.xml"`}
	switch {
	case strings.HasSuffix(path, "/capabilitylist.xml"):
		return without(text, "<url>", "</url>\n", `<rs:ln rel="hub" `)
	case strings.HasSuffix(path, ".html"):
		return without(text, "<tr>", "</tr>\n", topics...)
	case strings.HasSuffix(path, ".json"): // topics are never the first
		return without(text, ",\n    {\n", "\n    }", topics...)
	}
	return text
}

// without removes the parts of a text from open to end that contain one of the
// words.
func without(text []byte, open, end string, words ...string) []byte {
	var out []byte
	for {
		i := bytes.Index(text, []byte(open))
		n := bytes.Index(text[max(i, 0):], []byte(end))
		if i < 0 || n < 0 {
			return append(out, text...)
		}
		part := text[i : i+n+len(end)]
		out = append(out, text[:i]...)
		gone := false
		for _, word := range words {
			gone = gone || bytes.Contains(part, []byte(word))
		}
		if !gone {
			out = append(out, part...)
		}
		text = text[i+len(part):]
	}
}

// link makes a package a hard link to the one in the home, if that has the
// right length and the file system allows it.
func (r *run) link(n *node) (bool, error) {
	path, ok := strings.CutPrefix(n.path, wellknown.Path+"/")
	if r.Home == "" || r.base != r.target || n.listed < 0 || !ok {
		return false, nil
	}
	home, err := openTree(r.Home, nil)
	if err != nil {
		return false, err
	}
	defer home.close()
	from, name, err := home.find("/resourcesync/"+digest.ReplaceAllString(path, "$1"), false)
	if err != nil {
		return false, nil
	}
	if st, err := from.Stat(name); err != nil || st.Size != n.listed {
		return false, nil
	}
	dir, to, err := r.tree.find(n.path, true)
	if err != nil {
		return false, err
	}
	stage, err := r.tree.staging()
	if err != nil {
		return false, err
	}
	tmp, err := from.LinkTemp(name, stage)
	if err != nil {
		return false, nil // on another file system, or gone: it is copied
	}
	r.tree.staged = append(r.tree.staged, staged{tmp: tmp, dir: dir, name: to, final: true})
	n.changed, n.final = true, true
	n.length, n.tag, n.sha256 = n.listed, "linked", sumOf(n.sums)
	r.done.Documents++
	r.done.Octets += n.listed
	return true, nil
}

// digest is the digest in the URI of a package, which the name of its file is without.
var digest = regexp.MustCompile(`-[0-9a-f]{8}(\.zip)$`)

// sumOf returns the SHA-256 in hexadecimal, "-" if there is none.
func sumOf(sums []sitemap.Hash) string {
	for _, h := range sums {
		if h.Alg == "sha-256" {
			return strings.ToLower(h.Value)
		}
	}
	return "-"
}

// unload stages a package from the Source and checks its length and digest.
func (r *run) unload(n *node, resp *http.Response, modified time.Time) error {
	n.changed = true
	sum := sha256.New()
	s, err := r.tree.write(n.path, n.rank, modified, true, func(f *os.File) (err error) {
		in := io.Reader(resp.Body)
		if n.listed >= 0 {
			in = io.LimitReader(in, n.listed+1)
		}
		if r.base != r.target {
			return r.repackage(f, in, sum, n)
		}
		n.length, err = io.Copy(io.MultiWriter(f, sum), in)
		want := sumOf(n.sums)
		if err == nil && (n.listed >= 0 && n.length != n.listed || want != "-" && want != hex.EncodeToString(sum.Sum(nil))) {
			err = errors.New("the package is not what the document that names it says")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", n.path, err)
	}
	s.final = n.final
	r.tree.staged = append(r.tree.staged, s)
	n.sha256 = hex.EncodeToString(sum.Sum(nil))
	r.done.Documents++
	r.done.Octets += n.length
	return nil
}

// repackage writes a package with a manifest for the tree. All other files are
// copied as they are: the same package gives the same bytes.
func (r *run) repackage(f *os.File, in io.Reader, sum hash.Hash, n *node) error {
	// Reading a package begins at its end.
	spool, name, err := r.tree.stage.Temp()
	if err != nil {
		return err
	}
	defer spool.Close()
	if err := r.tree.stage.Remove(name); err != nil {
		return err
	}
	size, err := io.Copy(spool, in)
	if err != nil {
		return err
	}
	zr, err := zip.NewReader(spool, size)
	if err != nil {
		return err
	}
	zw := dump.NewWriter(io.MultiWriter(f, sum))
	for _, file := range zr.File {
		if file.Name != dump.ManifestName {
			err = zw.Copy(file)
		} else {
			err = r.rewrite(zw, file)
		}
		if err != nil {
			return err
		}
	}
	if err := zw.Close(); err != nil {
		return err
	}
	st, err := f.Stat()
	n.length = st.Size()
	return err
}

// rewrite adds a manifest with the references of the tree.
func (r *run) rewrite(zw *zip.Writer, manifest *zip.File) error {
	m, err := manifest.Open()
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(m, maxDocument+1))
	if err = errors.Join(err, m.Close()); err == nil && len(text) > maxDocument {
		err = fmt.Errorf("the manifest is larger than %d octets", maxDocument)
	}
	if err != nil {
		return err
	}
	w, err := zw.CreateHeader(dump.Header(manifest.Name, zip.Deflate))
	if err == nil {
		_, err = w.Write(r.rebase(text, "/"+manifest.Name))
	}
	return err
}

// repack gives a document the lengths and digests of repackaged packages.
func (r *run) repack(text []byte) []byte {
	const end = "</url>"
	var out []byte
	for {
		entry, rest, ok := bytes.Cut(text, []byte(end))
		if !ok {
			return append(out, text...)
		}
		out = append(append(out, r.repackEntry(entry)...), end...)
		text = rest
	}
}

func (r *run) repackEntry(entry []byte) []byte {
	_, rest, _ := strings.Cut(string(entry), "<loc>")
	loc, _, _ := strings.Cut(rest, "</loc>")
	path, ok := strings.CutPrefix(loc, string(escaped(r.target)))
	n := r.nodes[path]
	if !ok || n == nil || !isPackage(path) {
		return entry
	}
	if old := sumOf(n.sums); old != "-" {
		entry = bytes.ReplaceAll(entry, []byte(old), []byte(n.sha256))
	}
	attr := func(length int64) []byte { return []byte(` length="` + strconv.FormatInt(length, 10) + `"`) }
	return bytes.Replace(entry, attr(n.listed), attr(n.length), 1)
}
