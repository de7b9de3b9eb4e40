package set

import (
	"bufio"
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
// in a file beside the directories of its sets until they are in Change Lists of the queue: a
// text in gzip, of a line that says which they are, and entries of the set Replica, without
// links.
const (
	inheritedFile  = "inherited.gz"
	inheritedTitle = "inherited changes"
)

// An Inherited says which changes a queue inherits: those after From.
type Inherited struct {
	Base        string // base URI of the original, with a slash at its end
	From        time.Time
	First, Last job.Seq
}

func (h *Inherited) line() []byte {
	dst := fmt.Appendf(nil, "cutie %s 1 %d %d ", inheritedTitle, h.First, h.Last)
	return fmt.Appendf(sitemap.AppendTime(dst, h.From), " %s\n", h.Base)
}

func parseInherited(line string) (*Inherited, error) {
	text, _ := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "cutie "+inheritedTitle+" 1 ")
	w := words{left: text}
	h := &Inherited{First: w.seq(), Last: w.seq(), From: w.time(), Base: w.word()}
	if err := w.end(); err != nil || h.First == 0 || h.Last < h.First || string(h.line()) != line {
		return nil, Damaged("line 1 is %.200q", line)
	}
	return h, nil
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
	f, name, err := d.Temp()
	if err != nil {
		return err
	}
	defer f.Close()
	z := GzipWriters.Get().(*gzip.Writer)
	defer GzipWriters.Put(z)
	z.Reset(f)
	z.Write(h.line()) // Close has its error
	var text []byte
	err = read(func(e *sitemap.Entry) error {
		text = sitemap.AppendEntry(text[:0], sitemap.URLSet, e)
		_, err := z.Write(text)
		return err
	})
	if err = errors.Join(err, z.Close()); err == nil {
		err = d.SyncFile(f)
	}
	if err == nil {
		err = d.Rename(name, d, inheritedFile)
	}
	if err != nil {
		return errors.Join(err, d.Remove(name))
	}
	return d.Sync()
}

// Inherited returns the changes that a queue inherits; nil without any. Damaged ones are
// reported, and do not count.
func (s *Store) Inherited(queue string) *Inherited {
	d, err := s.Root().Sub(queue)
	if err != nil {
		return nil // it publishes nothing yet
	}
	defer d.Close()
	h, err := readInherited(d)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.Report(queue+"/"+inheritedFile, "%v; the changes of the original are not published", err)
	}
	return h
}

// readInherited verifies the file in the directory of a queue.
func readInherited(d *durable.Dir) (*Inherited, error) {
	r, err := openInherited(d)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if _, err := io.Copy(io.Discard, r.text); err != nil {
		return nil, Damaged("%s: %w", inheritedFile, err)
	}
	return r.of, nil
}

// An InheritedReader reads inherited entries.
type InheritedReader struct {
	*sitemap.Lines
	file *os.File
	text *bufio.Reader // after the first line
	of   *Inherited
}

// ReadInherited opens the entries that a queue inherits.
func (s *Store) ReadInherited(queue string) (*InheritedReader, error) {
	d, err := s.Root().Sub(queue)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return openInherited(d)
}

func openInherited(d *durable.Dir) (*InheritedReader, error) {
	f, err := d.Open(inheritedFile)
	if err != nil {
		return nil, err
	}
	r := &InheritedReader{file: f}
	z, err := gzip.NewReader(bufio.NewReaderSize(f, 64<<10))
	var line []byte
	if err == nil {
		r.text = bufio.NewReaderSize(z, 64<<10)
		line, err = r.text.ReadSlice('\n')
	}
	if err != nil {
		err = Damaged("%s: %w", inheritedFile, err)
	} else {
		r.of, err = parseInherited(string(line))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r.Lines = sitemap.NewLines(r.text)
	return r, nil
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
	return d.Remove(inheritedFile)
}
