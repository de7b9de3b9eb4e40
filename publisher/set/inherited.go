package set

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"cutie/publisher/names"
	"cutie/queuefs/durable"
	"cutie/queuefs/job"
	"cutie/sitemap"
)

// A queue made of a copy inherits the changes that the copy has of its original. They stand
// beside the directories of its sets until they are in Change Lists of the queue:
//
//	Q/inherited      of which original they are; sealed, and written last
//	Q/inherited.gz   members in gzip of entries of the set Replica, without links
const (
	inheritedName = "inherited"
	inheritedFile = "inherited.gz"
	memberOctets  = 1 << 20 // entries of a member
	maxMember     = memberOctets + 64<<10
)

// An Inherited says which changes a queue inherits: those after From.
type Inherited struct {
	Base        string // base URI of the original, with a slash at its end
	From        time.Time
	First, Last job.Seq
}

func (h *Inherited) text() []byte {
	return fmt.Appendf(sitemap.AppendTime(fmt.Appendf(nil, "%d %d ", h.First, h.Last), h.From), " %s\n", h.Base)
}

func parseInherited(text []byte) (*Inherited, error) {
	w := words{left: strings.TrimSuffix(string(text), "\n")}
	h := &Inherited{First: w.seq(), Last: w.seq(), From: w.time(), Base: w.word()}
	if err := w.end(); err != nil {
		return nil, err
	}
	if h.First == 0 || h.Last < h.First || string(h.text()) != string(text) {
		return nil, errors.New("out of range")
	}
	return h, nil
}

func sealedInherited(d *durable.Dir, queue string) durable.Sealed {
	return durable.Sealed{Dir: d, Name: inheritedName, Kind: "inherited changes of " + queue, Max: 64 << 10}
}

// Inherit gives a queue of a home changes; read gives their entries to add, in their
// order. They are on stable storage after the call, all or none.
func Inherit(home, queue string, h *Inherited, read func(add func(e *sitemap.Entry) error) error) error {
	of, err := durable.OpenDir(home, nil)
	if err != nil {
		return err
	}
	defer of.Close()
	root, err := of.MakeSub(names.RootName)
	if err != nil {
		return err
	}
	defer root.Close()
	d, err := root.MakeSub(queue)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Remove(inheritedName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, name, err := d.Temp()
	if err != nil {
		return err
	}
	defer f.Close()
	if err = writeInherited(f, read); err == nil {
		err = d.SyncFile(f)
	}
	if err == nil {
		err = d.Rename(name, d, inheritedFile)
	}
	if err != nil {
		return errors.Join(err, d.Remove(name))
	}
	return errors.Join(sealedInherited(d, queue).Write(h.text()), d.Sync())
}

func writeInherited(f *os.File, read func(add func(e *sitemap.Entry) error) error) error {
	var text []byte
	z, err := gzip.NewWriterLevel(f, gzip.BestSpeed)
	if err != nil {
		return err
	}
	end := func() error {
		if len(text) == 0 {
			return nil
		}
		z.Reset(f)
		_, err := z.Write(text)
		text = text[:0]
		return errors.Join(err, z.Close())
	}
	err = read(func(e *sitemap.Entry) error {
		if text = sitemap.AppendEntry(text, sitemap.URLSet, e); len(text) < memberOctets {
			return nil
		}
		return end()
	})
	return errors.Join(err, end())
}

// Inherited returns the changes that a queue inherits; nil without any. Damaged ones are
// reported, and do not count.
func (s *Store) Inherited(queue string) *Inherited {
	d, err := s.Root().Sub(queue)
	if err != nil {
		return nil // it publishes nothing yet
	}
	defer d.Close()
	text, err := sealedInherited(d, queue).Read()
	var h *Inherited
	if err == nil {
		h, err = parseInherited(text)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		s.Report(queue+"/"+inheritedName, "%v; the changes of the original are not published", err)
		return nil
	}
	return h
}

// ReadInherited opens the entries that a queue inherits.
func (s *Store) ReadInherited(queue string) (*InheritedReader, error) {
	d, err := s.Root().Sub(queue)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	f, err := d.Open(inheritedFile)
	if err != nil {
		return nil, err
	}
	return newInheritedReader(f), nil
}

func newInheritedReader(f *os.File) *InheritedReader {
	return &InheritedReader{file: f, in: bufio.NewReaderSize(f, 64<<10)}
}

// An InheritedReader reads inherited entries. Those of a member come after its check.
type InheritedReader struct {
	file  *os.File
	in    *bufio.Reader
	z     *gzip.Reader
	text  bytes.Buffer
	lines *sitemap.Lines
}

// Read returns the next entry, and [io.EOF] after the last.
func (r *InheritedReader) Read() (e sitemap.Entry, err error) {
	for {
		if r.lines != nil {
			if e, err = r.lines.Read(); err != io.EOF {
				return e, err
			}
		}
		if err := r.member(); err != nil {
			return e, err
		}
	}
}

func (r *InheritedReader) member() (err error) {
	if _, err = r.in.Peek(1); err == io.EOF {
		return err
	}
	if r.z == nil {
		r.z, err = gzip.NewReader(r.in)
	} else {
		err = r.z.Reset(r.in)
	}
	if err != nil {
		return Damaged("%s: %w", inheritedFile, err)
	}
	r.z.Multistream(false)
	r.text.Reset()
	if _, err := r.text.ReadFrom(io.LimitReader(r.z, maxMember+1)); err != nil || r.text.Len() > maxMember {
		return Damaged("%s: a member: %w", inheritedFile, errors.Join(err, durable.ErrDamaged))
	}
	r.lines = sitemap.NewLines(&r.text)
	return nil
}

// Close closes the file.
func (r *InheritedReader) Close() error { return r.file.Close() }

// DropInherited removes the changes that a queue inherited.
func (s *Store) DropInherited(queue string) error {
	d, err := s.Root().Sub(queue)
	if err != nil {
		return err
	}
	defer d.Close()
	for _, name := range []string{inheritedName, inheritedFile} {
		if err := d.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
