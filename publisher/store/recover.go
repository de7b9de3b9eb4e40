package store

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"slices"
	"time"

	"cutie/publisher/compose"
	"cutie/publisher/names"
	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/sitemap"
)

// Recover writes lost lines of closed lists again. A list is taken for whole if its file in
// gzip is, and has the text of its entries if these have a file, too; its bounds come from
// its neighbours and from the lines of its packages. begin is the first list of the queue,
// was the line of the set in the cursor; it may be nil. Errors are those of
// [Spans.Shorten].
func (v *Inventory) Recover(st *Store, d *durable.Dir, begin OpenList, was *Line, report func(file, text string, args ...any)) error {
	var found []queuefs.Seq
	err := d.Names(func(name string) {
		first, ok := names.ListFile(name)
		if ok && name == names.GzipFile(first) && !v.hasLine(first) && (was == nil || first < was.Open.First) {
			found = append(found, first)
		}
	})
	if err != nil {
		return err
	}
	slices.Sort(found)
	all := slices.Clone(v.Lists.All)
	for _, first := range found {
		if sp, ok := v.lostSpan(d, first, all, begin, was); ok {
			all = append(all, sp)
			slices.SortFunc(all, func(a, b Span) int { return cmp.Compare(a.First, b.First) })
			report(names.GzipFile(first), "had no line; it is whole, and named again")
		}
	}
	if len(all) == len(v.Lists.All) {
		return nil
	}
	return v.Lists.write(st, d, all)
}

func (v *Inventory) hasLine(first queuefs.Seq) bool {
	return slices.ContainsFunc(v.Lists.All, func(sp Span) bool { return sp.First == first })
}

// lostSpan returns the line of a list from the event first on; all are the known lines.
func (v *Inventory) lostSpan(d *durable.Dir, first queuefs.Seq, all []Span, begin OpenList, was *Line) (sp Span, ok bool) {
	sp.First = first
	if first == begin.First {
		sp.From = begin.From
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
	for _, p := range v.Packages.All {
		if p.First == first {
			sp.From = p.From
		}
	}
	// A list without a line may follow: the packages tell where this one ends.
	if next := fileAfter(d, first); next > 0 && (next <= sp.Last || sp.Last == 0) {
		sp.Last, sp.Until = next-1, time.Time{}
		for _, p := range v.Packages.All {
			if p.Last == sp.Last {
				sp.Until = p.Until
			}
		}
	}
	if sp.From.IsZero() || sp.Until.IsZero() || sp.Last < first {
		return sp, false
	}
	sum, err := sumEntries(d, &sp)
	if Absent(err) {
		sum, err = sumPacked(d, &sp)
	} else if err == nil {
		var packed [sha256.Size]byte
		if packed, err = GzipSum(d, sp); packed != sum {
			return sp, false
		}
	}
	sp.SHA256 = hex.EncodeToString(sum[:])
	return sp, err == nil
}

// fileAfter returns the first event of the next list with a file, 0 without one.
func fileAfter(d *durable.Dir, first queuefs.Seq) (next queuefs.Seq) {
	err := d.Names(func(name string) {
		if n, ok := names.ListFile(name); ok && n > first && (next == 0 || n < next) {
			next = n
		}
	})
	if err != nil {
		return 0
	}
	return next
}

// sumEntries returns the digest of the file with the entries of a list, and gives sp its
// length and number of entries.
func sumEntries(d *durable.Dir, sp *Span) (sum [sha256.Size]byte, err error) {
	file, err := d.Open(names.EntriesFile(sp.First))
	if err != nil {
		return sum, err
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		return sum, err
	}
	if err := count(sp, file, st.Size()); err != nil {
		return sum, err
	}
	return durable.Sum(file, sp.Length)
}

// sumPacked is sumEntries of the file in gzip.
func sumPacked(d *durable.Dir, sp *Span) (sum [sha256.Size]byte, err error) {
	file, err := d.Open(names.GzipFile(sp.First))
	if err != nil {
		return sum, err
	}
	p, err := compose.OpenPacked(file)
	if err != nil {
		file.Close()
		return sum, err
	}
	defer p.Close()
	if sum, _, err = PackedSum(p, func(int64) bool { return true }); err != nil {
		return sum, err
	}
	return sum, count(sp, p, p.Len)
}

// count gives sp its length and number of entries; all of them must be of its events.
func count(sp *Span, text io.ReaderAt, length int64) error {
	sp.Length, sp.Entries = length, 0
	r := sitemap.NewLines(io.NewSectionReader(text, 0, length))
	for {
		e, err := r.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if seq := queuefs.Seq(e.Seq); seq < sp.First || seq > sp.Last {
			return Damaged("event %d is not of the list", seq)
		}
		sp.Entries++
	}
}
