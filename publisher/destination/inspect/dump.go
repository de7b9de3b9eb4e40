package inspect

import (
	"archive/zip"
	"io"
	"os"
	"strings"
	"time"

	"cutie/publisher/destination/fetch"
	"cutie/publisher/destination/local"
	"cutie/publisher/destination/source"
	"cutie/sitemap"
)

// dump inspects the packages of both dumps (Z39.99-2017, 11 and 13), and compares the
// manifests of the Resource Dump with the Resource List.
func (i *inspector) dump(set *source.Set, known resources, changed keyset) {
	listed := keyset{}
	var at time.Time // of the Resource Dump
	for _, kind := range []struct{ dump, manifest sitemap.Capability }{
		{sitemap.ResourceDump, sitemap.ResourceDumpManifest}, {sitemap.ChangeDump, sitemap.ChangeDumpManifest}} {
		uri := set.Documents[kind.dump]
		if uri == "" {
			continue
		}
		i.parts(set, uri, kind.dump, func(d *source.Document) {
			if kind.dump == sitemap.ResourceDump {
				at = d.Head.At
			}
			i.entries(d, func(e *sitemap.Entry) {
				i.pack(e, kind.manifest, func(m *sitemap.Entry) {
					if kind.dump == sitemap.ResourceDump {
						listed.add(m.Loc)
						i.against(e.Loc, m, known, changed)
					}
				})
			})
		})
	}
	if set.Documents[sitemap.ResourceDump] == "" || len(listed) == 0 {
		return
	}
	if set.Documents[sitemap.ResourceList] == "" {
		return
	}
	var missing []string
	i.again(set, sitemap.ResourceList, func(e *sitemap.Entry) {
		if !listed.has(e.Loc) && !changed.has(e.Loc) && !e.LastMod.IsZero() && e.LastMod.Before(at) {
			missing = append(missing, e.Loc)
		}
	})
	if len(missing) == 0 {
		return
	}
	// A resource may go and come back after the dump, with its old time.
	since := keyset{}
	i.again(set, sitemap.ChangeList, func(e *sitemap.Entry) {
		if !e.Changed().Before(at) {
			since.add(e.Loc)
		}
	})
	for _, loc := range missing {
		if !since.has(loc) {
			i.warn(loc, "it is in the Resource List, and in no package of the Resource Dump")
		}
	}
}

// against compares the entry of a manifest with the Resource List.
func (i *inspector) against(pack string, m *sitemap.Entry, known resources, changed keyset) {
	e, ok := known[keyOf(m.Loc)]
	if !ok || changed.has(m.Loc) || m.LastMod.IsZero() || e.mod > m.LastMod.UnixMicro() {
		return // of another time, or maybe so
	}
	for n, sum := range factOf(m).sums {
		if sum != 0 && e.sums[n] != 0 && sum != e.sums[n] {
			i.fault(pack, "the manifest gives another %s of %s than the Resource List", algorithms[n], m.Loc)
		}
	}
}

// pack reads a package: its own digest, its manifest, and each file in it.
func (i *inspector) pack(p *sitemap.Entry, manifest sitemap.Capability, visit func(*sitemap.Entry)) {
	f, err := os.CreateTemp("", "cutie-package-")
	if err != nil {
		i.fault(p.Loc, "%v", err)
		return
	}
	defer os.Remove(f.Name())
	defer f.Close()
	var n int64
	err = i.client.Get(i.ctx, fetch.Request{URI: p.Loc, Plain: true}, func(a *fetch.Answer) error {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		if err := f.Truncate(0); err != nil {
			return err
		}
		return local.Compare(io.TeeReader(a.Body, f), p.Length, p.Hashes)
	})
	i.r.Packages++
	if err == nil {
		n, err = f.Seek(0, io.SeekEnd)
	}
	if err != nil {
		i.fault(p.Loc, "%v", err)
		return
	}
	z, err := source.OpenPackage(f, n, manifest, i.o.MaxFiles)
	if err != nil {
		i.fault(p.Loc, "%v", err)
		return
	}
	defer z.Close()
	i.files(p, z, visit)
}

// files compares the files of a package with its manifest.
func (i *inspector) files(p *sitemap.Entry, z *source.Package, visit func(*sitemap.Entry)) {
	for _, name := range z.Twice {
		i.fault(p.Loc, "two files %s", name)
	}
	used := map[string]bool{}
	for {
		e, err := z.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			i.fault(p.Loc, "%v", err)
			return
		}
		visit(&e)
		if e.Change == sitemap.Deleted {
			if e.Path != "" {
				i.fault(p.Loc, "the manifest gives %s, which is deleted, a path", e.Loc)
			}
			continue
		}
		if !strings.HasPrefix(e.Path, "/") {
			i.fault(p.Loc, "the path %q of %s does not begin with a slash", e.Path, e.Loc)
			continue
		}
		f := z.File(&e)
		if f == nil {
			i.fault(p.Loc, "%s of %s is not in the package", e.Path, e.Loc)
			continue
		}
		used[f.Name] = true
		if err := compareFile(f, &e); err != nil {
			i.fault(p.Loc, "%s of %s: %v", e.Path, e.Loc, err)
		}
	}
	for _, name := range z.Names() {
		if !used[name] {
			i.warn(p.Loc, "%s is in the package, and not in the manifest", name)
		}
	}
}

func compareFile(f *zip.File, e *sitemap.Entry) error {
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	return local.Compare(io.LimitReader(in, int64(f.UncompressedSize64)+1), e.Length, e.Hashes)
}
