package destination

import (
	"archive/zip"
	"context"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"cutie/publisher/destination/local"
	"cutie/publisher/destination/source"
	"cutie/queuefs/durable"
	"cutie/sitemap"
	"cutie/wellknown"
)

// InspectOptions say how much is read.
type InspectOptions struct {
	Sets   []string // names or URIs of Capability Lists; none: all
	Sample int      // resources of a set to ask for; -1: all
	Dumps  bool     // read the packages of the dumps

	MaxFiles int // of a package; 0: [source.MaxPackageFiles]
}

// A SourceReport is the result.
type SourceReport struct {
	Source             string
	Found              wellknown.Method // how
	Sets, Documents    int
	Resources, Changes int               // listed
	Asked, Packages    int               // resources and packages that were read
	Findings           []durable.Finding // a fault breaks a rule, a warning makes work for Destinations
	More               int               // beyond maxFindings
}

// Clean reports whether nothing but warnings was found.
func (r *SourceReport) Clean() bool {
	return r.More == 0 && !slices.ContainsFunc(r.Findings, func(f durable.Finding) bool { return f.Level != durable.Warning })
}

const maxFindings = 1000

// Inspect finds the Source of a URL, and checks what it publishes against the standard (ANSI/NISO
// Z39.99-2017) and against itself: its documents and their order in time, the closed Change Lists
// and their ends, the resources and their digests, the packages and their manifests. The
// documents are read as they change: a resource that is not the one listed is reported only if no
// change since then explains it.
func Inspect(ctx context.Context, client *source.Client, uri string, o InspectOptions) (*SourceReport, error) {
	s, err := source.Find(ctx, client, uri)
	if err != nil {
		return nil, err
	}
	i := &inspector{ctx: ctx, o: o, client: client, source: s, r: &SourceReport{Source: s.Base, Found: s.By}}
	told := map[string]bool{} // some lists are read twice
	s.Skip = func(k source.Skip) {
		if text := strings.TrimPrefix(k.Err.Error(), k.URI+": "); !told[k.URI+" "+text] && len(told) < maxFindings {
			told[k.URI+" "+text] = true
			i.fault(k.URI, "%s", text)
		}
	}
	lists, err := s.Choose(o.Sets)
	if err != nil {
		return nil, err
	}
	if s.Description != "" {
		i.description()
	} else {
		i.warn(uri, "there is no Source Description")
	}
	for _, list := range lists {
		if err := i.set(list); err != nil {
			return i.r, err
		}
		i.r.Sets++
	}
	return i.r, nil
}

type inspector struct {
	ctx    context.Context
	o      InspectOptions
	client *source.Client
	source *source.Source
	r      *SourceReport
}

func (i *inspector) fault(uri, format string, a ...any) { i.add(durable.Faulty, uri, format, a...) }

func (i *inspector) warn(uri, format string, a ...any) { i.add(durable.Warning, uri, format, a...) }

func (i *inspector) add(level durable.Level, uri, format string, a ...any) {
	if len(i.r.Findings) == maxFindings {
		i.r.More++
		return
	}
	i.r.Findings = append(i.r.Findings, durable.Finding{Level: level, Path: uri, Text: fmt.Sprintf(format, a...)})
}

// document reads a document; nil if it cannot be had, and that was told.
func (i *inspector) document(uri string, want sitemap.Capability) *source.Document {
	d, err := i.source.Document(i.ctx, uri)
	i.r.Documents++
	if err != nil {
		i.fault(uri, "%v", err)
		return nil
	}
	if d.Head.Capability != want {
		i.fault(uri, "it says capability %s, the document naming it %s", d.Head.Capability, want)
		return nil
	}
	return d
}

// entries gives the entries of a document to visit, and tells the first error.
func (i *inspector) entries(d *source.Document, visit func(e *sitemap.Entry)) {
	n := 0
	for e, err := range d.Entries() {
		if err != nil {
			i.fault(d.URI, "%v", err)
			break
		}
		n++
		visit(&e)
	}
	if d.Octets > sitemap.MaxOctets {
		i.fault(d.URI, "it has %d octets, more than %d", d.Octets, sitemap.MaxOctets)
	}
}

// description inspects the Source Description (Z39.99-2017, 8).
func (i *inspector) description() {
	d := i.document(i.source.Description, sitemap.Description)
	if d == nil {
		return
	}
	i.entries(d, func(e *sitemap.Entry) {
		if d.Root == sitemap.URLSet && e.Capability != sitemap.CapabilityList && e.Capability != "" {
			i.fault(d.URI, "%s has capability %s, not capabilitylist", e.Loc, e.Capability)
		}
	})
}

// set inspects a set by its Capability List (Z39.99-2017, 9).
func (i *inspector) set(list string) error {
	set, err := i.source.Open(i.ctx, list)
	if err != nil {
		i.fault(list, "%v", err)
		return i.ctx.Err()
	}
	if list != "" {
		d := i.document(list, sitemap.CapabilityList)
		if d == nil {
			return i.ctx.Err()
		}
		if up := d.Link(sitemap.RelUp); up == "" && d.Dialect == sitemap.V11 {
			i.fault(list, "no link up to the Source Description")
		}
		seen := map[sitemap.Capability]bool{}
		i.entries(d, func(e *sitemap.Entry) {
			if e.Capability == "" {
				i.fault(list, "%s has no capability", e.Loc)
			} else if seen[e.Capability] {
				i.fault(list, "capability %s is there twice", e.Capability)
			}
			seen[e.Capability] = true
		})
	}
	known := resources{}
	at, picked := i.resourceList(set, known)
	changed := i.changeLists(set, at)
	if i.o.Dumps {
		i.dump(set, known, changed)
	}
	i.sample(set, at, picked, changed)
	return i.ctx.Err()
}

// resources are what a Resource List says of each resource, by a hash of its URI: a set may
// have millions of them.
type resources map[uint64]fact

type fact struct {
	sums [len(algorithms)]uint64 // hashes of its digests; 0: none
	mod  int64                   // its last modification, in microseconds
}

var algorithms = [...]string{"sha-256", "sha-1", "md5"}

func factOf(e *sitemap.Entry) (f fact) {
	f.mod = e.LastMod.UnixMicro()
	for _, h := range e.Hashes {
		if n := slices.Index(algorithms[:], h.Alg); n >= 0 {
			f.sums[n] = hashOf(h.Value)
		}
	}
	return f
}

func hashOf(text string) uint64 { return maphash.String(seed, text) }

// uris are some resources, by a hash of their URI.
type uris map[uint64]bool

// resourceList inspects the Resource List (Z39.99-2017, 10), and picks the sample.
func (i *inspector) resourceList(set *source.Set, known resources) (at time.Time, picked []sitemap.Entry) {
	uri := set.Documents[sitemap.ResourceList]
	if uri == "" {
		i.warn(set.URI, "there is no Resource List")
		return at, nil
	}
	plain := 0
	i.parts(set, uri, sitemap.ResourceList, func(d *source.Document) {
		if at.IsZero() || d.Head.At.Before(at) {
			at = d.Head.At
		}
		i.entries(d, func(e *sitemap.Entry) {
			i.r.Resources++
			key := hashOf(e.Loc)
			if _, twice := known[key]; twice {
				i.fault(d.URI, "%s is listed twice", e.Loc)
				return
			}
			if len(e.Hashes) == 0 && e.Length < 0 {
				plain++
			}
			known[key] = factOf(e)
			// Each resource gets into the sample with the same chance.
			if len(picked) < i.o.Sample {
				picked = append(picked, *e)
			} else if at := rand.IntN(len(known)); at < len(picked) {
				picked[at] = *e
			}
		})
	})
	if plain > 0 {
		i.warn(uri, "%d of %d resources have neither length nor digest: no copy can be proved", plain, len(known))
	}
	return at, picked
}

// parts gives a list, or the lists of its index, to visit, and checks how they belong
// together.
func (i *inspector) parts(set *source.Set, uri string, kind sitemap.Capability, visit func(*source.Document)) {
	d := i.document(uri, kind)
	if d == nil {
		return
	}
	i.head(set, d)
	if d.Root == sitemap.URLSet {
		visit(d)
		return
	}
	i.entries(d, func(e *sitemap.Entry) {
		part := i.document(e.Loc, kind)
		if part == nil {
			return
		}
		i.head(set, part)
		if part.Root != sitemap.URLSet {
			i.fault(part.URI, "an index in an index")
			return
		}
		if !e.At.IsZero() && !part.Head.At.IsZero() && part.Head.At.Before(e.At) {
			i.fault(part.URI, "it is at %s, its index says %s", when(part.Head.At), when(e.At))
		}
		if !e.From.IsZero() && !part.Head.From.Equal(e.From) {
			i.fault(part.URI, "it begins with %s, its index says %s", when(part.Head.From), when(e.From))
		}
		if !e.Until.IsZero() && !part.Head.Until.Equal(e.Until) {
			i.fault(part.URI, "it ends with %s, its index says %s", when(part.Head.Until), when(e.Until))
		}
		visit(part)
	})
}

func when(t time.Time) string {
	if t.IsZero() {
		return "no time"
	}
	return t.Format(time.RFC3339Nano)
}

// head checks the head of a list.
func (i *inspector) head(set *source.Set, d *source.Document) {
	h := &d.Head
	if d.Link(sitemap.RelUp) == "" && set.URI != "" {
		i.fault(d.URI, "no link up to the Capability List")
	}
	switch h.Capability {
	case sitemap.ResourceList, sitemap.ResourceDump:
		if h.At.IsZero() && set.URI != "" {
			i.fault(d.URI, "no time at")
		}
	case sitemap.ChangeList, sitemap.ChangeDump:
		if h.From.IsZero() {
			i.fault(d.URI, "no time from")
		}
		if !h.Until.IsZero() && h.Until.Before(h.From) {
			i.fault(d.URI, "it ends with %s, before it begins with %s", when(h.Until), when(h.From))
		}
	}
}

// changeLists inspects the Change Lists (Z39.99-2017, 12), and returns the resources with
// changes since a time.
func (i *inspector) changeLists(set *source.Set, since time.Time) uris {
	uri := set.Documents[sitemap.ChangeList]
	changed := uris{}
	if uri == "" {
		return changed
	}
	var seq uint64
	var before *sitemap.Head
	var open string
	i.parts(set, uri, sitemap.ChangeList, func(d *source.Document) {
		if before != nil {
			i.seam(before, d)
		}
		if open != "" {
			i.fault(open, "it is open, but not the last one")
		}
		if before, open = &d.Head, ""; d.Head.Until.IsZero() {
			open = d.URI
		}
		var last time.Time
		i.entries(d, func(e *sitemap.Entry) {
			i.r.Changes++
			t := e.Changed()
			switch {
			case e.Change == "":
				i.fault(d.URI, "%s has no change", e.Loc)
			case !t.IsZero() && t.Before(last) && d.Dialect != sitemap.Jan2013:
				i.fault(d.URI, "%s of %s comes after a change of %s", e.Loc, when(t), when(last))
			case !t.IsZero() && (t.Before(d.Head.From) || !d.Head.Until.IsZero() && t.After(d.Head.Until)):
				i.fault(d.URI, "%s of %s is outside of the list's time", e.Loc, when(t))
			case e.Seq > 0 && e.Seq < seq:
				i.fault(d.URI, "%s: event %d after event %d", e.Loc, e.Seq, seq)
			}
			last, seq = t, max(seq, e.Seq)
			if !t.Before(since) {
				changed[hashOf(e.Loc)] = true
			}
		})
	})
	return changed
}

// seam checks that one list begins where the one before it ends (1.6 of the digest of the
// standard: both ends are inclusive).
func (i *inspector) seam(before *sitemap.Head, d *source.Document) {
	end, begin := before.Until, d.Head.From
	switch {
	case end.IsZero() || begin.IsZero():
	case begin.After(end):
		i.fault(d.URI, "changes from %s to %s are in no list", when(end), when(begin))
	case begin.Before(end):
		i.fault(d.URI, "it begins with %s, before the end of the list before it, %s", when(begin), when(end))
	}
}

// quiet is i without its counts and findings.
func (i *inspector) quiet() *inspector {
	q := *i
	q.r = &SourceReport{}
	return &q
}

// again reads the documents of a kind once more. To have their entries in memory would take a
// kilobyte a resource.
func (i *inspector) again(set *source.Set, kind sitemap.Capability, visit func(e *sitemap.Entry)) {
	if q := i.quiet(); set.Documents[kind] != "" {
		q.parts(set, set.Documents[kind], kind, func(d *source.Document) { q.entries(d, visit) })
	}
}

// sample asks for the resources picked, or all, and compares them with their entries.
func (i *inspector) sample(set *source.Set, at time.Time, picked []sitemap.Entry, changed uris) {
	wrong := map[string]error{}
	ask := func(e *sitemap.Entry) {
		if i.ctx.Err() != nil {
			return
		}
		i.r.Asked++
		err := i.client.Get(i.ctx, source.Request{URI: e.Loc, Plain: e.Encoding == ""}, func(a *source.Answer) error {
			return local.Compare(a.Body, e)
		})
		if err != nil && !changed[hashOf(e.Loc)] {
			wrong[e.Loc] = err
		}
	}
	if i.o.Sample < 0 {
		i.again(set, sitemap.ResourceList, ask)
	}
	for n := range picked {
		ask(&picked[n])
	}
	if len(wrong) == 0 {
		return
	}
	// Some may have changed since the lists were read.
	later := i.quiet().changeLists(set, at)
	for _, uri := range slices.Sorted(maps.Keys(wrong)) {
		if !later[hashOf(uri)] {
			i.fault(uri, "%s", strings.TrimPrefix(wrong[uri].Error(), uri+": "))
		}
	}
}

// dump inspects the packages of both dumps (Z39.99-2017, 11 and 13), and compares the
// manifests of the Resource Dump with the Resource List.
func (i *inspector) dump(set *source.Set, known resources, changed uris) {
	listed := uris{}
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
				err := i.pack(e, kind.manifest, func(m *sitemap.Entry) {
					if kind.dump == sitemap.ResourceDump {
						listed[hashOf(m.Loc)] = true
						i.against(e.Loc, m, known, changed)
					}
				})
				if err != nil {
					i.fault(e.Loc, "%v", err)
				}
			})
		})
	}
	if len(listed) == 0 {
		return
	}
	var missing []string
	i.again(set, sitemap.ResourceList, func(e *sitemap.Entry) {
		if !listed[hashOf(e.Loc)] && !changed[hashOf(e.Loc)] && !e.LastMod.IsZero() && e.LastMod.Before(at) {
			missing = append(missing, e.Loc)
		}
	})
	if len(missing) == 0 {
		return
	}
	// A resource may go and come back after the dump, with its old time.
	since := uris{}
	i.again(set, sitemap.ChangeList, func(e *sitemap.Entry) {
		if !e.Changed().Before(at) {
			since[hashOf(e.Loc)] = true
		}
	})
	for _, loc := range missing {
		if !since[hashOf(loc)] {
			i.warn(loc, "it is in the Resource List, and in no package of the Resource Dump")
		}
	}
}

// against compares the entry of a manifest with the Resource List.
func (i *inspector) against(pack string, m *sitemap.Entry, known resources, changed uris) {
	e, ok := known[hashOf(m.Loc)]
	if !ok || changed[hashOf(m.Loc)] || m.LastMod.IsZero() || e.mod > m.LastMod.UnixMicro() {
		return // of another time, or maybe so
	}
	for n, sum := range factOf(m).sums {
		if sum != 0 && e.sums[n] != 0 && sum != e.sums[n] {
			i.fault(pack, "the manifest gives another %s of %s than the Resource List", algorithms[n], m.Loc)
		}
	}
}

// pack reads a package: its own digest, its manifest, and each file in it.
func (i *inspector) pack(p *sitemap.Entry, manifest sitemap.Capability, visit func(*sitemap.Entry)) error {
	f, err := os.CreateTemp("", "cutie-package-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	i.r.Packages++
	var n int64
	err = i.client.Get(i.ctx, source.Request{URI: p.Loc, Plain: true}, func(a *source.Answer) (err error) {
		sums := local.NewSums(p)
		if _, err = f.Seek(0, io.SeekStart); err == nil {
			err = f.Truncate(0)
		}
		if err == nil {
			n, err = io.Copy(io.MultiWriter(f, sums), a.Body)
		}
		if err == nil {
			err = sums.Check()
		}
		return err
	})
	if err != nil {
		return err
	}
	z, err := source.OpenPackage(f, n, manifest, i.o.MaxFiles)
	if err != nil {
		return err
	}
	defer z.Close()
	return i.files(p, z, visit)
}

// files compares the files of a package with its manifest.
func (i *inspector) files(p *sitemap.Entry, z *source.Package, visit func(*sitemap.Entry)) error {
	for _, name := range z.Twice {
		i.fault(p.Loc, "two files %s", name)
	}
	used := map[string]bool{}
	for e, err := range z.Entries() {
		if err != nil {
			return err
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
	return nil
}

func compareFile(f *zip.File, e *sitemap.Entry) error {
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	return local.Compare(io.LimitReader(in, int64(f.UncompressedSize64)+1), e)
}
