package source

import (
	"archive/zip"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"cutie/sitemap"
	"cutie/wellknown"
)

const (
	// MaxPackageFiles is how many files a package may have; the standard lists up to 50,000.
	MaxPackageFiles = 250_000

	maxManifest = 256 << 20 // octets
	perFile     = 80        // octets of the directory for each file that a package may have
)

const manifestName = "manifest.xml"

// ErrManifest says that a package has no manifest of the right kind.
var ErrManifest = errors.New("manifest.xml")

// ErrFiles says that a package has more files than it may have.
var ErrFiles = errors.New("files of a package")

// metered limits what is read of a package until it is open.
type metered struct {
	in     io.ReaderAt
	left   int64
	over   bool
	opened bool
}

// ReadAt is [io.ReaderAt].
func (m *metered) ReadAt(p []byte, off int64) (int, error) {
	if m.opened {
		return m.in.ReadAt(p, off)
	}
	if m.left -= int64(len(p)); m.left < 0 {
		m.over = true
		return 0, ErrFiles
	}
	return m.in.ReadAt(p, off)
}

// A Package of a dump is open (Z39.99-2017, 11.2 and 13.2): a ZIP with manifest.xml and the
// files it names. Its file stays with the caller.
//
// Names in a package are looked up and never used as paths. Of two files of one name the
// first counts.
type Package struct {
	Twice []string // names of more than one file

	files    map[string]*zip.File
	manifest *sitemap.Reader
	in       io.ReadCloser
}

// OpenPackage reads the directory of a package of size octets and the head of its manifest. Both may
// have so many files and entries; 0: MaxPackageFiles.
func OpenPackage(r io.ReaderAt, size int64, want sitemap.Capability, maxFiles int) (*Package, error) {
	maxFiles = cmp.Or(maxFiles, MaxPackageFiles)
	// All of the directory is in memory before its files can be counted.
	m := &metered{in: r, left: max(1<<20, int64(maxFiles)*perFile)}
	z, err := zip.NewReader(m, size)
	if m.over || err == nil && len(z.File) > maxFiles {
		return nil, fmt.Errorf("%w: more than %d", ErrFiles, maxFiles)
	}
	if err != nil {
		return nil, err
	}
	m.opened = true
	p := &Package{files: make(map[string]*zip.File, len(z.File))}
	for _, f := range z.File {
		if p.files[f.Name] != nil {
			p.Twice = append(p.Twice, f.Name)
			continue
		}
		p.files[f.Name] = f
	}
	file := p.files[manifestName]
	if file == nil {
		return nil, fmt.Errorf("no %w in the package", ErrManifest)
	}
	if p.in, err = file.Open(); err != nil {
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
