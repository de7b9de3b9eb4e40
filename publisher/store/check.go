package store

import (
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"cutie/publisher/names"
	"cutie/queuefs/durable"
)

// Check reads all files of resourcesync in a home that nobody has open, and calls bad with
// each one that is not as it was written, by its path in the home. It changes nothing. has
// reports whether the home has a queue; documents of others are to be removed. stamp is ""
// if neither settings nor cursor say what it is.
func Check(home, stamp string, has func(queue string) bool, bad func(path string, err error)) {
	root, err := durable.LookIn(filepath.Join(home, RootName))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		bad(RootName, err)
		return
	}
	defer root.Close()
	c := &checker{root: root, stamp: stamp, bad: bad}
	var queues []string
	published := false // some set has a directory; what a queue inherits comes before
	if err := root.Names(func(name string) {
		if !strings.HasPrefix(name, ownPrefix) && has(name) { // the others are set aside
			queues = append(queues, name)
			published = published || hasSet(root, name)
		}
	}); err != nil {
		bad(RootName, err)
	}
	lines := c.cursor(published)
	if _, err := sealed(c.root, settingsFile, settingsTitle).Read(); !errors.Is(err, fs.ErrNotExist) || published || lines != nil {
		c.note(settingsFile, err)
	}
	for queue := range lines {
		if has(queue) && !slices.Contains(queues, queue) {
			queues = append(queues, queue)
		}
	}
	slices.Sort(queues)
	if stamp == "" {
		return // the seals of all lines are bound to it
	}
	for _, queue := range queues {
		c.queue(queue, lines[queue])
	}
}

// hasSet reports whether a queue has the directory of a set.
func hasSet(root *durable.Dir, queue string) bool {
	q, err := root.Sub(queue)
	if err != nil {
		return false
	}
	defer q.Close()
	for s := range names.Set(names.Sets) {
		if _, err := q.Stat(s.String()); err == nil {
			return true
		}
	}
	return false
}

// A checker checks the files of a home.
type checker struct {
	root  *durable.Dir
	stamp string
	bad   func(path string, err error)
}

// note calls bad with a file below resourcesync, unless err is nil.
func (c *checker) note(path string, err error) {
	if err != nil {
		c.bad(RootName+"/"+path, err)
	}
}

// cursor returns the lines of the cursor. published says that there are documents.
func (c *checker) cursor(published bool) map[string]Lines {
	text, err := sealed(c.root, CursorFile, cursorTitle).Read()
	if errors.Is(err, fs.ErrNotExist) && !published {
		return nil // no checkpoint yet
	}
	var lines map[string]Lines
	if err == nil && c.stamp != "" {
		lines, err = parseCursor(text, c.stamp)
		if err != nil {
			err = Damage{err}
		}
	}
	c.note(CursorFile, err)
	return lines
}

// queue checks the files of a queue. lines is "" without lines of the cursor.
func (c *checker) queue(id string, lines Lines) {
	var of [names.Sets]Line
	if lines != "" {
		of = lines.Of(id)
	}
	q, err := c.root.Sub(id)
	if errors.Is(err, fs.ErrNotExist) {
		for i := range of {
			c.absent(id+"/"+names.Set(i).String(), &of[i], err)
		}
		return
	}
	if err != nil {
		c.note(id, err)
		return
	}
	defer q.Close()
	c.inherited(q, id)
	for i := range of {
		kind := names.Set(i).String()
		path := id + "/" + kind
		d, err := q.Sub(kind)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			c.absent(path, &of[i], err)
		case err != nil:
			c.note(path, err)
		default:
			c.set(d, path, &of[i])
			d.Close()
		}
	}
}

// absent notes a set without a directory if the cursor knows files of it.
func (c *checker) absent(path string, line *Line, err error) {
	if line.List > 0 || line.Dump > 0 || line.Open.Entries > 0 {
		c.note(path, err)
	}
}

// inherited checks the changes that a queue inherits.
func (c *checker) inherited(d *durable.Dir, queue string) {
	_, err := sealedInherited(d, queue).Read()
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	c.note(queue+"/"+inheritedName, err)
	f, err := d.Open(inheritedFile)
	if err == nil {
		r := newInheritedReader(f)
		for err == nil {
			_, err = r.Read()
		}
		if err == io.EOF {
			err = nil
		}
		r.Close()
	}
	c.note(queue+"/"+inheritedFile, err)
}

// set checks the files of a set. line is zero without a line of the cursor.
func (c *checker) set(d *durable.Dir, path string, line *Line) {
	note := func(name string, err error) { c.note(path+"/"+name, err) }
	v := NewInventory(path, c.stamp)
	for _, s := range []*Spans{&v.Lists, &v.Packages} {
		n, err := s.read(d)
		if err == nil && n > 0 {
			err = Damaged("%d lines do not verify", n)
		}
		note(s.file, err)
	}
	if at := v.Lists.Last().Last; at < line.List {
		note(v.Lists.file, Damaged("ends at event %d, and went to %d", at, line.List))
	}
	if at := v.Packages.Last().Last; at < line.Package && (len(v.Lists.All) == 0 || line.Package >= v.Lists.All[0].First) {
		note(v.Packages.file, Damaged("ends at event %d, and went to %d", at, line.Package))
	}
	c.dumps(d, &v, line, note)
	if _, err := v.Forms(d); err != nil {
		note("", err)
		return
	}
	for p := range v.Pieces {
		err := checkPiece(d, p)
		if first, ok := names.ListFile(p.Name); ok && errors.Is(err, fs.ErrNotExist) && first <= v.Packages.Last().Last {
			p.Name = names.GzipFile(first) // a list is folded before its package is complete
		}
		note(p.Name, err)
	}
	for i := range v.Lists.All {
		if sp := v.Lists.All[i]; !sp.Lost() && sp.Packed == 0 {
			note(names.GzipFile(sp.First), checkGzip(d, sp))
		}
	}
	c.open(d, &v, line, note)
}

// dumps reads the files of Resource Dumps.
func (c *checker) dumps(d *durable.Dir, v *Inventory, line *Line, note func(string, error)) {
	absent := line.Dump
	err := d.Names(func(name string) {
		seq, ok := names.ParseDumpFile(name)
		if !ok {
			return
		}
		if seq >= absent {
			absent = 0
		}
		one, err := v.openDump(d, seq)
		if note(name, err); err == nil {
			v.Dumps = append(v.Dumps, one)
		}
	})
	note("", err)
	if absent > 0 {
		note(names.DumpFile(absent), fs.ErrNotExist)
	}
}

// checkPiece reads a file from the disk.
func checkPiece(d *durable.Dir, p Piece) error {
	file, err := d.Open(p.Name)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := HasLength(file, p.Length); err != nil {
		return err
	}
	var got [sha256.Size]byte
	if p.Text > 0 {
		got, _, err = SlowPackedSum(file, p.Text, all)
	} else {
		got, _, err = SlowSum(file, p.Length, all)
	}
	if err == nil && got != p.Sum {
		err = Damaged("has not its SHA-256 digest")
	}
	return err
}

func all(int64) bool { return true }

// checkGzip reads the file in gzip of a list that has another one, if there is one.
func checkGzip(d *durable.Dir, sp Span) error {
	got, err := GzipSum(d, sp)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && got != sp.Sum() {
		err = Damaged("has not the text of the list")
	}
	return err
}

// open reads the open list. It was closed since if lists say so.
func (c *checker) open(d *durable.Dir, v *Inventory, line *Line, note func(string, error)) {
	at, open := &line.Open, line.Open.Entries > 0 && line.Open.First > v.Lists.Last().Last
	if open {
		name := names.EntriesFile(at.First)
		sum, known := parseSum(line.SHA256)
		err := checkEntries(d, name, at.Length, sum, known)
		if errors.Is(err, fs.ErrNotExist) {
			if _, e := d.Stat(names.GzipFile(at.First)); e == nil {
				err = nil // of a copy made while the list was closed
			}
		}
		note(name, err)
	}
}

func checkEntries(d *durable.Dir, name string, length int64, want [sha256.Size]byte, known bool) error {
	file, err := d.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	got, _, err := SlowSum(file, length, all)
	if err == nil && known && got != want {
		err = Damaged("has not its SHA-256 digest")
	}
	return err
}
