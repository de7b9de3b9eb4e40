package set

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"cutie/publisher/dump"
	"cutie/publisher/names"
	"cutie/queuefs/durable"
)

// A tail has the files left by a crash in the growing package after the last checkpoint.
// Their events are followed again. A result may be gone by then, and the payload of a job
// requeued: they are taken from the tail.
type tail struct {
	file *os.File // without a name
	*dump.Growing
}

// mostTail is how many bytes of a package are kept.
const mostTail = 256 << 20

// keepTail keeps the rest of the growing package after the counted files. Without free
// space, or after another error, there is none. s.mu is held.
func (s *Set) keepTail(d *durable.Dir) {
	from := s.at.Pack.Length
	if from < 0 {
		return
	}
	in, err := d.Open(names.OpenPackageFile(s.at.First))
	if err != nil {
		return
	}
	defer in.Close()
	st, err := in.Stat()
	if err != nil {
		return
	}
	n := st.Size() - from
	if n <= 0 || n > mostTail || !s.hasSpace(n) {
		return
	}
	root := s.Store.Root()
	file, name, err := root.Temp()
	if err != nil {
		return
	}
	err = root.Remove(name)
	if err == nil {
		_, err = io.Copy(file, io.NewSectionReader(in, from, n))
	}
	if err != nil {
		file.Close()
		return
	}
	g, _ := dump.OpenGrowing(file, n) // as far as it is whole
	s.pack.tail = &tail{file, g}
}

// dropTail lets go of the tail. s.mu is held.
func (p *packing) dropTail() {
	if p.tail != nil {
		p.tail.file.Close()
		p.tail = nil
	}
}

// fromTail returns the content of the file with a number from the tail, nil without it.
func (w *appender) fromTail(number int, f *fileOf) (c *dump.Content) {
	t := w.Set.pack.tail
	if t == nil {
		return nil
	}
	if text, ok := t.Read(number); ok {
		c = w.content(&w.one, text, f)
	}
	return c
}

// reopenPackage makes a complete package the growing one again. A copy of a home, made
// while the list was closed, may have the list open and its package complete: that begins
// with the files of the growing one, and the rest is cut off. d may be nil. s.mu is held.
func (s *Set) reopenPackage(d *durable.Dir) error {
	if d == nil {
		return nil
	}
	grown := names.OpenPackageFile(s.at.First)
	_, err := d.Stat(grown)
	if errors.Is(err, fs.ErrNotExist) && s.at.Pack.Length > 0 {
		err = d.Rename(names.PackageFile(s.at.First), d, grown)
	}
	if err == nil {
		s.keepTail(d)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return err
}
