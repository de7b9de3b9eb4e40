package destination

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"cutie/publisher/destination/local"
	"cutie/publisher/destination/source"
	"cutie/sitemap"
)

var errNoPackages = errors.New("the Resource Dump names no packages")

// byDump copies the resources of a set from the packages of its Resource Dump, and returns
// the time of their truth.
func (c *Copy) byDump(ctx context.Context, set *source.Set, s *setState) (at time.Time, err error) {
	packages, at, err := set.Packages(ctx)
	if err != nil {
		return at, err
	}
	if len(packages) == 0 {
		return at, errNoPackages
	}
	if err := c.began(s, at); err != nil {
		return at, err
	}
	for i := range packages {
		c.counts.Total.Add(max(packages[i].Length, 0))
	}
	for i := range packages {
		p := &packages[i]
		// Listed files stand in the manifest; a package of before is read again for an
		// exact list of them only.
		if c.unpacked(s, p) {
			c.listed = nil
			c.counts.Held.Add(max(p.Length, 0))
			continue
		}
		if err := c.unpack(ctx, s, p, sitemap.ResourceDumpManifest, nil); err != nil {
			return at, fmt.Errorf("%s: %w", p.Loc, err)
		}
		if err := c.keepPackage(s, p); err != nil {
			return at, err
		}
	}
	return at, nil
}

// keyOf identifies a package by its URI and digests.
func keyOf(p *sitemap.Entry) string {
	key := p.Loc
	for _, h := range p.Hashes {
		key += " " + h.Alg + ":" + h.Value
	}
	return key
}

// unpacked reports whether the files of a package were made before.
func (c *Copy) unpacked(s *setState, p *sitemap.Entry) bool {
	return slices.Contains(s.Packages, keyOf(p))
}

// keepPackage notes a package whose files are made.
func (c *Copy) keepPackage(s *setState, p *sitemap.Entry) error {
	c.mu.Lock()
	s.Packages = append(s.Packages, keyOf(p))
	c.mu.Unlock()
	return c.save()
}

// unpack gets a package and makes the files in it, or those that wants chooses.
func (c *Copy) unpack(ctx context.Context, s *setState, p *sitemap.Entry, kind sitemap.Capability, wants func(*sitemap.Entry) bool) (err error) {
	if free, err := c.dir.Free(); err == nil && p.Length > free {
		return disk{fmt.Errorf("a package of %d octets, where %d are free", p.Length, free)}
	}
	f, end, err := c.download(ctx, p)
	if err != nil {
		return err
	}
	defer func() { end(err) }()
	n, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return disk{err}
	}
	z, err := source.OpenPackage(f, n, kind, c.o.MaxFiles)
	if err != nil {
		return err
	}
	defer z.Close()
	w := c.newWorkers(ctx, s, z)
	for {
		e, err := z.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			w.cancel(err)
			break
		}
		if wants != nil && !wants(&e) {
			continue
		}
		if !w.addListed(&e) {
			break
		}
	}
	return w.wait()
}

// download gets a package and verifies it. It stays until its files are made: end gets
// the error of this.
func (c *Copy) download(ctx context.Context, p *sitemap.Entry) (in *os.File, end func(error), err error) {
	f, err := c.dir.Resume(p.Loc, "", local.Facts{Length: p.Length, Hashes: p.Hashes})
	if errors.Is(err, local.ErrNoProof) {
		return c.downloadTemp(ctx, p)
	}
	if err != nil {
		return nil, nil, disk{err}
	}
	end = func(err error) {
		if err == nil {
			f.Discard()
		}
		f.Keep()
	}
	if _, err = c.complete(ctx, p.Loc, f); err == nil {
		in, err = f.Verify()
	}
	if err != nil {
		end(err)
	}
	return in, end, err
}

// downloadTemp gets a package without digests.
func (c *Copy) downloadTemp(ctx context.Context, p *sitemap.Entry) (f *os.File, end func(error), err error) {
	if f, err = c.dir.Temp(); err != nil {
		return nil, nil, disk{err}
	}
	err = c.client.Get(ctx, source.Request{URI: p.Loc, Plain: true}, func(a *source.Answer) error {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return disk{err}
		}
		if err := f.Truncate(0); err != nil {
			return disk{err}
		}
		sums := local.NewSums(p.Length, p.Hashes)
		if _, err := io.CopyBuffer(io.MultiWriter(sums, diskWriter{f}), struct{ io.Reader }{a.Body}, make([]byte, 256<<10)); err != nil {
			return err
		}
		return sums.Check()
	})
	if err != nil {
		f.Close()
	}
	return f, func(error) { f.Close() }, err
}

type diskWriter struct{ f *os.File }

func (w diskWriter) Write(p []byte) (int, error) {
	n, err := w.f.Write(p)
	if err != nil {
		err = disk{err}
	}
	return n, err
}

// unpackOne makes the file of a resource from a package. If the package has it not, or
// another, the resource is asked for.
func (c *Copy) unpackOne(ctx context.Context, s *setState, t *task, p *source.Package) error {
	e := &t.entry
	z := p.File(e)
	if z == nil || !c.wanted(e.Loc) || c.o.DryRun {
		return c.make(ctx, s, t)
	}
	file, err := c.dir.Path(e.Loc)
	if err != nil {
		return c.make(ctx, s, t) // says why
	}
	want := factsOf(e)
	if !t.absent {
		if m, _, err := c.dir.Compare(file, &want, c.o.Deep || coarse(e)); err != nil || m == local.Same {
			return c.make(ctx, s, t)
		}
	}
	limit := e.Length
	if limit < 0 {
		if limit = c.o.MaxResource; z.UncompressedSize64 > uint64(limit) {
			return c.made(ctx, s, t, c.tooLarge())
		}
		if free, err := c.dir.Free(); err != nil || int64(z.UncompressedSize64) > free {
			return disk{errors.Join(fmt.Errorf("%s of a package takes %d octets, where %d are free", z.Name, z.UncompressedSize64, free), err)}
		}
	}
	in, err := z.Open()
	if err != nil {
		return c.make(ctx, s, t)
	}
	defer in.Close()
	switch err := c.store(io.LimitReader(in, limit+1), file, want, z.Modified); {
	case err == nil:
		return nil
	case fatal(err):
		return err
	}
	return c.make(ctx, s, t)
}
