package publisher

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
	"strconv"
	"strings"
	"time"

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
				r.old.forget() // all of it may be different
			}
			r.base = base
			if r.BaseURI == "" {
				r.tree = base
			}
			return nil
		}
	}
	if err == nil {
		return errNoBase
	}
	return nil
}

// rebase makes the references to what is in the directory begin with its base
// URI. They are where references are in a document of ours; in what describes
// the Source they are whatever begins so. The others, as to the state of a job
// in other forms, lead to the Source still.
func (r *run) rebase(text []byte, name string) []byte {
	if r.base == r.tree || r.base == "" {
		return text
	}
	paths := []string{wellknown.Path}
	if r.Resources {
		paths = append(paths, "/queues/")
	}
	spell, before := escaped, []string{"<loc>", `href="`}
	switch {
	case strings.HasSuffix(name, aboutPage):
		spell, before = func(uri string) []byte { return []byte(html.EscapeString(uri)) }, []string{""}
	case !isDocument(name):
		spell, before = func(uri string) []byte { return []byte(uri) }, []string{""}
	}
	for _, path := range paths {
		from, to := spell(r.base+path), spell(r.tree+path)
		for _, b := range before {
			text = bytes.ReplaceAll(text, append([]byte(b), from...), append([]byte(b), to...))
		}
	}
	return text
}

// escaped is how a URI stands in a document.
func escaped(uri string) []byte {
	e := sitemap.AppendEntry(nil, sitemap.URLSet, &sitemap.Entry{Loc: uri, Length: -1})
	_, e, _ = bytes.Cut(e, []byte("<loc>"))
	e, _, _ = bytes.Cut(e, []byte("</loc>"))
	return e
}

// link makes a package a hard link to that in the home, if there is one and
// the file system has such.
func (r *run) link(n *node) (bool, error) {
	if r.Home == "" || r.base != r.tree || n.listed < 0 {
		return false, nil
	}
	path, ok := strings.CutPrefix(n.path, wellknown.Path+"/")
	if !ok {
		return false, nil
	}
	home, err := openExportDir(r.Home, nil)
	if err != nil {
		return false, err
	}
	defer home.close()
	from, name, err := home.find("/"+rootName+"/"+path, false)
	if err != nil {
		return false, nil
	}
	if st, err := from.Stat(name); err != nil || st.Size != n.listed {
		return false, nil
	}
	dir, to, err := r.dir.find(n.path, true)
	if err != nil {
		return false, err
	}
	stage, err := r.dir.staging()
	if err != nil {
		return false, err
	}
	tmp, err := from.LinkTemp(name, stage)
	if err != nil {
		return false, nil // another file system, or gone: it is copied
	}
	r.dir.staged = append(r.dir.staged, staged{tmp, dir, to, 0})
	n.changed, n.final = true, true
	n.length, n.tag, n.sha256 = n.listed, "linked", sumOf(n.sums)
	r.done.Documents++
	r.done.Octets += n.listed
	return true, nil
}

func sumOf(sums []sitemap.Hash) string {
	for _, h := range sums {
		if h.Alg == "sha-256" {
			return strings.ToLower(h.Value)
		}
	}
	return "-"
}

// unload stages a package that comes from the Source, and checks it.
func (r *run) unload(n *node, resp *http.Response, modified time.Time) error {
	n.changed = true
	sum := sha256.New()
	s, err := r.dir.write(n.path, n.rank, modified, true, func(f *os.File) error {
		in := io.Reader(resp.Body)
		if n.listed >= 0 {
			in = io.LimitReader(in, n.listed+1)
		}
		if r.base != r.tree {
			return r.repackage(f, in, sum, n)
		}
		size, err := io.Copy(io.MultiWriter(f, sum), in)
		n.length = size
		want := sumOf(n.sums)
		if err == nil && (n.listed >= 0 && size != n.listed || want != "-" && want != hex.EncodeToString(sum.Sum(nil))) {
			err = errors.New("the package is not what the document that names it says")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", n.path, err)
	}
	r.dir.staged = append(r.dir.staged, s)
	n.sha256 = hex.EncodeToString(sum.Sum(nil))
	r.done.Documents++
	r.done.Octets += n.length
	return nil
}

// repackage writes a package with the manifest that belongs to the tree. All
// other files are taken as they are, so the same package gives the same octets.
func (r *run) repackage(f *os.File, in io.Reader, sum hash.Hash, n *node) error {
	// A package is read from its end.
	spool, name, err := r.dir.stage.Temp()
	if err != nil {
		return err
	}
	defer spool.Close()
	if err := r.dir.stage.Remove(name); err != nil {
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
	out := &counter{w: io.MultiWriter(f, sum)}
	zw := zip.NewWriter(out)
	zw.RegisterCompressor(zip.Deflate, newDeflate())
	for _, file := range zr.File {
		if file.Name != "manifest.xml" {
			if err := zw.Copy(file); err != nil {
				return err
			}
			continue
		}
		m, err := file.Open()
		if err != nil {
			return err
		}
		text, err := io.ReadAll(io.LimitReader(m, maxManifest+1))
		if err = errors.Join(err, m.Close()); err == nil && len(text) > maxManifest {
			err = fmt.Errorf("the manifest is larger than %d octets", maxManifest)
		}
		if err != nil {
			return err
		}
		w, err := zw.CreateHeader(zipHeader(file.Name, zip.Deflate))
		if err == nil {
			_, err = w.Write(r.rebase(text, "/"+file.Name))
		}
		if err != nil {
			return err
		}
	}
	err = zw.Close()
	n.length = out.n
	return err
}

// maxManifest is more octets than a manifest may have.
const maxManifest = maxDocument

// repack gives a document the lengths and digests of packages that became
// others.
func (r *run) repack(text []byte) []byte {
	const end = "</url>"
	var out []byte
	for {
		i := bytes.Index(text, []byte(end))
		if i < 0 {
			return append(out, text...)
		}
		entry := text[:i+len(end)]
		text = text[i+len(end):]
		out = append(out, r.repackEntry(entry)...)
	}
}

func (r *run) repackEntry(entry []byte) []byte {
	_, rest, _ := strings.Cut(string(entry), "<loc>")
	loc, _, _ := strings.Cut(rest, "</loc>")
	path, ok := strings.CutPrefix(loc, string(escaped(r.tree)))
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
