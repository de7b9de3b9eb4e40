package set

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"cutie/publisher/names"
	"cutie/queuefs/durable"
	"cutie/queuefs/job"
	"cutie/sitemap"
)

// A Span is a closed Change List, or a package of a Change Dump. It covers the events First
// to Last. Until is the time of the last event; From is that of the event before First, or of
// the creation of the queue.
type Span struct {
	First, Last job.Seq
	From, Until time.Time
	Entries     int
	Length      int64  // bytes of the entries, or of the package
	SHA256      string // of the file, in hexadecimal
	Packed      int64  // bytes of the document of a list in gzip; 0: its entries stand in a file as they are
	Left        int    // files that a package lacks: they were gone when it was made
}

// Octets returns the bytes of the file of the span.
func (sp *Span) Octets() int64 {
	if sp.Packed > 0 {
		return sp.Packed
	}
	return sp.Length
}

// Sum returns the digest of the file.
func (sp *Span) Sum() [sha256.Size]byte {
	sum, _ := parseSum(sp.SHA256)
	return sum
}

// Doc returns the name of the package, or of its manifest or dump.
func (sp *Span) Doc(k names.Kind) names.Doc { return k.Of(uint64(sp.First)).As(sp.SHA256) }

// List returns the file of a closed list.
func (sp *Span) List() Piece {
	name := names.EntriesFile(sp.First)
	if sp.Packed > 0 {
		name = names.GzipFile(sp.First)
	}
	return Piece{name, sp.Octets(), sp.Sum()}
}

// Package returns the file of a package of changes.
func (sp *Span) Package() Piece { return Piece{names.PackageFile(sp.First), sp.Length, sp.Sum()} }

// An Edition is one Resource Dump (Z39.99-2017, 11): packages with every resource
// of a set. Its name is the event before it was begun; all changes up to this
// event are in its packages.
type Edition struct {
	Seq      job.Seq
	At       time.Time // of the event Seq
	Made     time.Time // when it was complete
	Packages []Portion // by page
	Sum      string    // short digest of all this
}

// A Portion is a package of a Resource Dump: the jobs of some engine pages.
// Later dumps name it too while none of the pages is touched.
type Portion struct {
	Page, End int       // first and last page, from 1
	Dump      job.Seq   // the dump it was made for; with Page it makes the name
	Version   job.Seq   // last event that touched the pages when they were read
	At        time.Time // all changes up to then are in
	Completed time.Time // none after this one; zero if the package is of one instant
	Info      string    // digest of queue-info.txt in hexadecimal; "-" without it
	Entries   int
	Length    int64
	SHA256    string // of the package, in hexadecimal
}

// Doc returns the name of the package, or of its manifest or list.
func (p *Portion) Doc(k names.Kind) names.Doc {
	return k.Of(uint64(p.Page), uint64(p.Dump)).As(p.SHA256)
}

// File returns the name of the file of the package.
func (p *Portion) File() string {
	return names.ResourcePackage.Of(uint64(p.Page), uint64(p.Dump)).String()
}

// Piece returns the file of the package.
func (p *Portion) Piece() Piece {
	sum, _ := parseSum(p.SHA256)
	return Piece{p.File(), p.Length, sum}
}

// Completed returns the instant after which no change is in the dump, zero if
// all of it is of one instant.
func (d *Edition) Completed() (t time.Time) {
	for i := range d.Packages {
		if p := &d.Packages[i]; p.At.After(d.At) || p.Completed.After(d.At) {
			t = Later(t, Later(p.At, p.Completed))
		}
	}
	return t
}

// Later returns the later one of two times.
func Later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Has reports whether a file is a package of the dump.
func (d *Edition) Has(file string) bool {
	return slices.ContainsFunc(d.Packages, func(p Portion) bool { return p.File() == file })
}

// Alone returns the bytes of the packages without a name in the next dump. No
// later dump names them either. next may be nil.
func (d *Edition) Alone(next *Edition) (n int64) {
	has := make(map[string]bool)
	if next != nil {
		for i := range next.Packages {
			has[next.Packages[i].File()] = true
		}
	}
	for i := range d.Packages {
		if p := &d.Packages[i]; !has[p.File()] {
			n += p.Length
		}
	}
	return n
}

// A Piece is a file of a set with its length and digest.
type Piece struct {
	Name   string
	Length int64
	Sum    [sha256.Size]byte
}

// An Inventory lists the files of a set: closed Change Lists, packages of the
// Change Dump, and Resource Dumps, oldest first. It is one sealed file, replaced with each
// change: a file counts from then on. Files go after the inventory no longer has them; those
// a crash leaves are removed by the next Sweep. Its slices are never changed in place.
type Inventory struct {
	Lists    []Span
	Packages []Span
	Dumps    []*Edition
}

// inventoryFile is the name of the file, beside the files it lists.
const inventoryFile = "inventory"

// sealedInventory is the file of a set; path is the one of the set below resourcesync.
func sealedInventory(d *durable.Dir, path string) durable.Sealed {
	return sealed(d, inventoryFile, "inventory of "+path)
}

// ReadInventory reads the inventory in the directory of a set.
func ReadInventory(d *durable.Dir, path, stamp string) (v Inventory, err error) {
	text, err := sealedInventory(d, path).Read()
	if err != nil {
		return v, err
	}
	if v, err = parseInventory(string(text), stamp); err != nil {
		err = Damaged("%s: %w", inventoryFile, err)
	}
	return v, err
}

// Write makes the inventory that of the directory of a set, on stable storage.
func (v *Inventory) Write(d *durable.Dir, path, stamp string) error {
	return sealedInventory(d, path).Write(v.text(stamp))
}

// IsIn reports whether the directory of a set has the inventory.
func (v *Inventory) IsIn(d *durable.Dir, path, stamp string) (bool, error) {
	text, err := sealedInventory(d, path).Read()
	if err != nil && !Unusable(err) {
		return false, err
	}
	return err == nil && bytes.Equal(text, v.text(stamp)), nil
}

func (v *Inventory) text(stamp string) []byte {
	dst := []byte(header(inventoryFile, stamp))
	for i := range v.Lists {
		sp := &v.Lists[i]
		dst = fmt.Appendf(sp.append(append(dst, "list "...)), " %d\n", sp.Packed)
	}
	for i := range v.Packages {
		sp := &v.Packages[i]
		dst = fmt.Appendf(sp.append(append(dst, "package "...)), " %d\n", sp.Left)
	}
	for _, one := range v.Dumps {
		dst = one.append(dst)
	}
	return append(dst, "end\n"...)
}

func (sp *Span) append(dst []byte) []byte {
	dst = strconv.AppendUint(dst, uint64(sp.First), 10)
	dst = strconv.AppendUint(append(dst, ' '), uint64(sp.Last), 10)
	dst = sitemap.AppendTime(append(dst, ' '), sp.From)
	dst = sitemap.AppendTime(append(dst, ' '), sp.Until)
	return fmt.Appendf(dst, " %d %d %s", sp.Entries, sp.Length, sp.SHA256)
}

func (d *Edition) append(dst []byte) []byte {
	dst = fmt.Appendf(dst, "dump %d", d.Seq)
	dst = sitemap.AppendTime(append(dst, ' '), d.At)
	dst = append(sitemap.AppendTime(append(dst, ' '), d.Made), '\n')
	for i := range d.Packages {
		p := &d.Packages[i]
		dst = fmt.Appendf(dst, "portion %d %d %d %d ", p.Page, p.End, p.Dump, p.Version)
		dst = append(sitemap.AppendTime(dst, p.At), ' ')
		dst = appendOptionalTime(dst, p.Completed)
		dst = fmt.Appendf(dst, "%s %d %d %s\n", p.Info, p.Entries, p.Length, p.SHA256)
	}
	return dst
}

// Seal sets the short digest of the dump. It stands in entity tags.
func (d *Edition) Seal() {
	const format = "1" // raise it when documents of the same dump get other bytes
	d.Sum = fmt.Sprintf("%x", sha256.Sum256(append(d.append(nil), format...)))[:12]
}

func parseInventory(text, stamp string) (v Inventory, err error) {
	rest, ok := strings.CutPrefix(text, header(inventoryFile, stamp))
	if !ok {
		return v, fmt.Errorf("not of %s", stamp)
	}
	for line := range strings.Lines(rest) {
		w := words{left: strings.TrimSuffix(line, "\n")}
		switch kind := w.word(); {
		case line == "end\n":
			for _, one := range v.Dumps {
				one.Seal()
			}
			return v, nil
		case kind == "list":
			sp := parseSpan(&w)
			sp.Packed = w.int()
			v.Lists = append(v.Lists, sp)
		case kind == "package":
			sp := parseSpan(&w)
			sp.Left = int(w.int())
			v.Packages = append(v.Packages, sp)
		case kind == "dump":
			v.Dumps = append(v.Dumps, &Edition{Seq: w.seq(), At: w.time(), Made: w.time()})
		case kind == "portion" && len(v.Dumps) > 0:
			one := v.Dumps[len(v.Dumps)-1]
			one.Packages = append(one.Packages, Portion{Page: int(w.int()), End: int(w.int()), Dump: w.seq(), Version: w.seq(), At: w.time(),
				Completed: w.optionalTime(), Info: w.word(), Entries: int(w.int()), Length: w.int(), SHA256: w.word()})
		default:
			w.err = errors.New("of no kind")
		}
		if err := w.end(); err != nil {
			return v, fmt.Errorf("line %.200q: %w", line, err)
		}
	}
	return v, errors.New("cut off")
}

func parseSpan(w *words) Span {
	return Span{First: w.seq(), Last: w.seq(), From: w.time(), Until: w.time(), Entries: int(w.int()), Length: w.int(), SHA256: w.word()}
}

// Last returns the last of spans, the zero Span if there is none.
func Last(all []Span) Span {
	if n := len(all); n > 0 {
		return all[n-1]
	}
	return Span{}
}

// Find returns the span from the event first on.
func Find(all []Span, first job.Seq) (Span, bool) {
	if i := Before(all, first); i < len(all) && all[i].First == first {
		return all[i], true
	}
	return Span{}, false
}

// Before returns how many spans end before the event first.
func Before(all []Span, first job.Seq) int {
	n, _ := slices.BinarySearchFunc(all, first, func(sp Span, first job.Seq) int {
		if sp.Last < first {
			return -1
		}
		return 1
	})
	return n
}

// Current returns the last spans without a gap up to the event next, at most max of them.
func Current(all []Span, next job.Seq, max int) []Span {
	i := len(all)
	for i > 0 && len(all)-i < max && all[i-1].Last+1 == next {
		i--
		next = all[i].First
	}
	return all[i:]
}

// Pieces yields the files of closed lists and all packages.
func (v *Inventory) Pieces(yield func(Piece) bool) {
	for i := range v.Lists {
		if !yield(v.Lists[i].List()) {
			return
		}
	}
	for i := range v.Packages {
		if !yield(v.Packages[i].Package()) {
			return
		}
	}
	seen := make(map[string]bool)
	for _, one := range v.Dumps {
		for i := range one.Packages {
			if p := one.Packages[i].Piece(); !seen[p.Name] {
				seen[p.Name] = true
				if !yield(p) {
					return
				}
			}
		}
	}
}

// Has reports whether a file is one of Pieces.
func (v *Inventory) Has(name string) bool {
	for p := range v.Pieces {
		if p.Name == name {
			return true
		}
	}
	return false
}

// Dump returns the dump of an event, or the last one for 0; nil if there is none.
func (v *Inventory) Dump(seq job.Seq) *Edition {
	for _, d := range slices.Backward(v.Dumps) {
		if seq == 0 || d.Seq == seq {
			return d
		}
	}
	return nil
}

// Portion returns a package in some dump.
func (v *Inventory) Portion(doc names.Doc) (Portion, bool) {
	for _, d := range slices.Backward(v.Dumps) {
		i, ok := slices.BinarySearchFunc(d.Packages, int(doc.N), func(p Portion, page int) int { return p.Page - page })
		if ok && uint64(d.Packages[i].Dump) == doc.Version {
			return d.Packages[i], true
		}
	}
	return Portion{}, false
}

// Octets returns the bytes of closed lists, packages and Resource Dumps.
func (v *Inventory) Octets() (n int64) {
	for p := range v.Pieces {
		n += p.Length
	}
	return n
}

// Left returns how many files all packages of changes lack.
func (v *Inventory) Left() (n int) {
	for i := range v.Packages {
		n += v.Packages[i].Left
	}
	return n
}

// Sweep removes the files of lists and packages that are not in the inventory, but for the
// one with the entries of the open list.
func (v *Inventory) Sweep(d *durable.Dir, open string) error {
	named := map[string]bool{open: true}
	for p := range v.Pieces {
		named[p.Name] = true
	}
	var gone []string
	err := d.Names(func(name string) {
		_, list := names.ListFile(name)
		if doc, ok := names.ParseDoc(name); !named[name] && (list || ok && doc.String() == name && strings.HasSuffix(name, ".zip")) {
			gone = append(gone, name)
		}
	})
	if err != nil || len(gone) == 0 {
		return err
	}
	for _, name := range gone {
		if err := d.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return d.Sync()
}
