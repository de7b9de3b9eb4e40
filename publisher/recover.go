package publisher

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"slices"
	"time"

	"cutie/publisher/names"
	"cutie/publisher/store"
	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/sitemap"
)

// recoverLists writes lost lines of closed lists again. A list is taken for whole if its
// entries and their compressed form have the same text; its bounds come from its
// neighbours and from the lines of its packages. was may be nil. mu is held.
func (s *set) recoverLists(d *durable.Dir, was *store.Line) error {
	var found []queuefs.Seq
	err := d.Names(func(name string) {
		first, ok := names.ListFile(name)
		if ok && name == names.EntriesFile(first) && !s.hasLine(first) && (was == nil || first < was.Open.First) {
			found = append(found, first)
		}
	})
	if err != nil {
		return err
	}
	slices.Sort(found)
	all := slices.Clone(s.Lists.All)
	for _, first := range found {
		if sp, ok := s.lostSpan(d, first, all, was); ok {
			all = append(all, sp)
			slices.SortFunc(all, func(a, b store.Span) int { return int(int64(a.First) - int64(b.First)) })
			s.report(names.EntriesFile(first), "had no line; it is whole, and named again")
		}
	}
	if len(all) == len(s.Lists.All) {
		return nil
	}
	return s.final(s.Lists.Replace(s.p.store, d, all))
}

func (s *set) hasLine(first queuefs.Seq) bool {
	return slices.ContainsFunc(s.Lists.All, func(sp store.Span) bool { return sp.First == first })
}

// lostSpan returns the line of a list from the event first on; all are the known lines.
func (s *set) lostSpan(d *durable.Dir, first queuefs.Seq, all []store.Span, was *store.Line) (sp store.Span, ok bool) {
	sp.First = first
	if first == s.q.State().Before+1 {
		sp.From = s.created()
	}
	begins := func(next queuefs.Seq, from time.Time) { // the list or package after it
		if next > first && (sp.Last == 0 || next <= sp.Last) {
			sp.Last, sp.Until = next-1, from
		}
	}
	for _, other := range all {
		if other.Last+1 == first {
			sp.From = other.Until
		}
		begins(other.First, other.From)
	}
	if was != nil {
		begins(was.Open.First, was.Open.From)
	}
	for _, p := range s.Packages.All {
		if p.First == first {
			sp.From = p.From
		}
	}
	// A list without a line may follow: the packages tell where this one ends.
	for next := range s.fileAfter(d, first) {
		if next <= sp.Last || sp.Last == 0 {
			sp.Last, sp.Until = next-1, time.Time{}
			for _, p := range s.Packages.All {
				if p.Last == sp.Last {
					sp.Until = p.Until
				}
			}
		}
	}
	if sp.From.IsZero() || sp.Until.IsZero() || sp.Last < first {
		return sp, false
	}
	file, err := d.Open(names.EntriesFile(first))
	if err != nil {
		return sp, false
	}
	defer file.Close()
	sum, err := sumWhole(file, &sp)
	if err != nil {
		return sp, false
	}
	packed, err := sumOfGzip(d, sp)
	sp.SHA256 = hex.EncodeToString(sum[:])
	return sp, err == nil && packed == sum
}

// fileAfter yields the first event of the next list with a file, if there is one.
func (s *set) fileAfter(d *durable.Dir, first queuefs.Seq) func(func(queuefs.Seq) bool) {
	next := queuefs.Seq(0)
	d.Names(func(name string) {
		if n, ok := names.ListFile(name); ok && n > first && (next == 0 || n < next) {
			next = n
		}
	})
	return func(yield func(queuefs.Seq) bool) {
		if next > 0 {
			yield(next)
		}
	}
}

// sumWhole returns the digest of a file of entries, and gives sp its length and number
// of entries.
func sumWhole(file *os.File, sp *store.Span) (sum [sha256.Size]byte, err error) {
	st, err := file.Stat()
	if err != nil {
		return sum, err
	}
	sp.Length = st.Size()
	r := sitemap.NewLines(io.NewSectionReader(file, 0, sp.Length))
	for {
		e, err := r.Read()
		if err == io.EOF {
			return durable.Sum(file, sp.Length)
		}
		if err != nil {
			return sum, err
		}
		if seq := queuefs.Seq(e.Seq); seq < sp.First || seq > sp.Last {
			return sum, store.Damaged("event %d is not of the list", seq)
		}
		sp.Entries++
	}
}

// adopt returns the line of a package that is in place without one, if the package is
// whole and has the events of sp.
func (t *task) adopt(sp store.Span) (store.Span, bool) {
	dir, err := t.dir()
	if err != nil {
		return sp, false
	}
	defer dir.Close()
	file, err := dir.Open(names.PackageFile(sp.First))
	if err != nil {
		return sp, false
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		return sp, false
	}
	z, err := zip.NewReader(file, st.Size())
	if err != nil || len(z.File) == 0 {
		return sp, false
	}
	for i, member := range z.File {
		r, err := member.Open()
		if err != nil {
			return sp, false
		}
		var manifest bytes.Buffer
		to := io.Discard
		if i == 0 {
			to = &manifest
		}
		_, err = io.Copy(to, r) // compares the CRC-32
		if err != nil || r.Close() != nil || i == 0 && !manifestOf(&manifest, &sp) {
			return sp, false
		}
	}
	sum, err := durable.Sum(file, st.Size())
	if err != nil {
		return sp, false
	}
	sp.Length, sp.SHA256 = st.Size(), hex.EncodeToString(sum[:])
	return sp, true
}

// manifestOf reports whether the manifest of a package is of the events of sp, and
// counts its entries.
func manifestOf(text io.Reader, sp *store.Span) bool {
	r := sitemap.NewReader(text)
	_, head, err := r.ReadHead()
	if err != nil || !head.From.Equal(sp.From) || !head.Until.Equal(sp.Until) {
		return false
	}
	for sp.Entries = 0; ; sp.Entries++ {
		if _, err := r.Read(); err != nil {
			return err == io.EOF
		}
	}
}
