package store

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"cutie/publisher/names"
	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/sitemap"
)

// An Edition is one Resource Dump (Z39.99-2017, 11): packages with every resource
// of a set. Its name is the event before it was begun; all changes up to this
// event are in its packages.
type Edition struct {
	Seq      queuefs.Seq
	At       time.Time // of the event Seq
	Made     time.Time // when it was complete
	Packages []Portion // by page
	Sum      string    // short digest of its file
}

// A Portion is a package of a Resource Dump: the jobs of some engine pages.
// Later dumps name it too while none of the pages is touched.
type Portion struct {
	Page, End int         // first and last page, from 1
	Dump      queuefs.Seq // the dump it was made for; with Page it makes the name
	Version   queuefs.Seq // last event that touched the pages when they were read
	At        time.Time   // all changes up to then are in
	Completed time.Time   // none after this one; zero if the package is of one instant
	Info      string      // digest of queue-info.txt in hexadecimal; "-" without it
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

// dumpTitle stands in the first line of the file of an edition.
const dumpTitle = "dump"

// append prints the file of the edition: a header, a line for itself, one for
// each package, and a last one, or the file does not count.
func (d *Edition) append(dst []byte, stamp string) []byte {
	dst = append(dst, header(dumpTitle, stamp)...)
	dst = strconv.AppendUint(dst, uint64(d.Seq), 10)
	dst = sitemap.AppendTime(append(dst, ' '), d.At)
	dst = append(sitemap.AppendTime(append(dst, ' '), d.Made), '\n')
	for i := range d.Packages {
		p := &d.Packages[i]
		dst = fmt.Appendf(dst, "%d %d %d %d ", p.Page, p.End, p.Dump, p.Version)
		dst = append(sitemap.AppendTime(dst, p.At), ' ')
		dst = appendOptionalTime(dst, p.Completed)
		dst = fmt.Appendf(dst, "%s %d %d %s\n", p.Info, p.Entries, p.Length, p.SHA256)
	}
	return fmt.Appendf(dst, "end %d\n", len(d.Packages))
}

func parseDump(text, stamp string) (*Edition, error) {
	rest, ok := strings.CutPrefix(text, header(dumpTitle, stamp))
	if !ok {
		return nil, fmt.Errorf("not a dump of %s", stamp)
	}
	line, rest, _ := strings.Cut(rest, "\n")
	w := words{left: line}
	d := &Edition{Seq: w.seq(), At: w.time(), Made: w.time(), Sum: short(text)}
	if err := w.end(); err != nil {
		return nil, fmt.Errorf("line %.200q: %w", line, err)
	}
	lastPage := 0
	for line := range strings.Lines(rest) {
		if line == fmt.Sprintf("end %d\n", len(d.Packages)) && strings.HasSuffix(rest, "\n"+line) || rest == "end 0\n" {
			return d, nil
		}
		w := words{left: strings.TrimSuffix(line, "\n")}
		p := Portion{Page: int(w.int()), End: int(w.int()), Dump: w.seq(), Version: w.seq(), At: w.time(),
			Completed: w.optionalTime(), Info: w.word(), Entries: int(w.int()), Length: w.int(), SHA256: w.word()}
		err := w.end()
		if err == nil && (p.Page <= lastPage || p.End < p.Page || p.Dump == 0 || p.Dump > d.Seq || p.Entries < 0 || p.Length < 0) {
			err = errors.New("out of range")
		}
		if err != nil {
			return nil, fmt.Errorf("line %.200q: %w", line, err)
		}
		lastPage = p.End
		d.Packages = append(d.Packages, p)
	}
	return nil, errors.New("cut off")
}

// dumpKind is what the seal of the file of an edition is bound to.
func (v *Inventory) dumpKind(seq queuefs.Seq) string {
	return dumpTitle + " " + v.path + "/" + names.DumpFile(seq)
}

// openDump reads the file of an edition.
func (v *Inventory) openDump(d *durable.Dir, seq queuefs.Seq) (*Edition, error) {
	data, err := sealed(d, names.DumpFile(seq), v.dumpKind(seq)).Read()
	if err != nil {
		return nil, err
	}
	one, err := parseDump(string(data), v.stamp)
	if err == nil && one.Seq != seq {
		err = fmt.Errorf("is of event %d", one.Seq)
	}
	if err != nil {
		return nil, Damage{err}
	}
	return one, nil
}

// readDump reads the file of an edition. All its packages must be there.
func (v *Inventory) readDump(d *durable.Dir, seq queuefs.Seq) (*Edition, error) {
	one, err := v.openDump(d, seq)
	if err != nil {
		return nil, err
	}
	for i := range one.Packages {
		p := &one.Packages[i]
		if st, err := d.Stat(p.File()); err != nil {
			return nil, err
		} else if st.Size != p.Length {
			return nil, Damaged("%s has %d octets of %d", p.File(), st.Size, p.Length)
		}
	}
	return one, nil
}

// short returns a short digest of the text of a file. It stands in entity tags.
func short(text string) string {
	const format = "1" // raise it when documents of the same file get other bytes
	sum := sha256.Sum256([]byte(text + format))
	return fmt.Sprintf("%x", sum[:6])
}
