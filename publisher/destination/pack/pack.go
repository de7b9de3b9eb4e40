// Package pack reads packages of dumps (Z39.99-2017, 11.2 and 13.2): a ZIP with
// manifest.xml and the files it names.
//
// Names in a package are looked up and never used as paths. Of two files of one name the
// first counts.
package pack

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"strings"

	"cutie/sitemap"
	"cutie/wellknown"
)

// Limits of a package.
const (
	maxManifest = 256 << 20 // octets
	maxFiles    = 1 << 20
)

const manifestName = "manifest.xml"

// ErrManifest says that a package has no manifest of the right kind.
var ErrManifest = errors.New("manifest.xml")

// A Package is an open one. Its file stays with the caller.
type Package struct {
	Twice []string // names of more than one file

	files    map[string]*zip.File
	manifest *sitemap.Reader
	in       io.ReadCloser
}

// Open reads the directory of a package of size octets and the head of its manifest.
func Open(r io.ReaderAt, size int64, want sitemap.Capability) (*Package, error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, err
	}
	if len(z.File) > maxFiles {
		return nil, fmt.Errorf("more than %d files", maxFiles)
	}
	p := &Package{files: make(map[string]*zip.File, len(z.File))}
	for _, f := range z.File {
		if p.files[f.Name] != nil {
			p.Twice = append(p.Twice, f.Name)
			continue
		}
		p.files[f.Name] = f
	}
	m := p.files[manifestName]
	if m == nil {
		return nil, fmt.Errorf("no %w in the package", ErrManifest)
	}
	if p.in, err = m.Open(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	p.manifest = sitemap.NewReader(io.LimitReader(p.in, maxManifest))
	p.manifest.MaxEntries = maxFiles
	_, head, err := p.manifest.ReadHead()
	if err == nil && head.Capability != want {
		err = fmt.Errorf("it is a %s, not a %s", head.Capability, want)
	}
	if err != nil {
		p.in.Close()
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	return p, nil
}

// Read returns the next entry of the manifest, with its URI in the normal form, and [io.EOF] after the last.
func (p *Package) Read() (sitemap.Entry, error) {
	e, err := p.manifest.Read()
	if err == nil {
		e.Loc, err = wellknown.Normal(e.Loc)
	}
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%w: %w", ErrManifest, err)
	}
	return e, err
}

// File returns the file of an entry, nil if there is none.
func (p *Package) File(e *sitemap.Entry) *zip.File {
	name, ok := strings.CutPrefix(e.Path, "/")
	if !ok || name == manifestName {
		return nil
	}
	return p.files[name]
}

// Names returns the names of all files but the manifest.
func (p *Package) Names() (names []string) {
	for name := range p.files {
		if name != manifestName && !strings.HasSuffix(name, "/") {
			names = append(names, name)
		}
	}
	return names
}

// Close lets go of the manifest.
func (p *Package) Close() error { return p.in.Close() }
