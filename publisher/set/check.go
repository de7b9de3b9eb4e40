package set

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"cutie/publisher/names"
	"cutie/queuefs/durable"
)

// CheckFiles reads all files of resourcesync in a home that nobody has open, and calls bad with
// each one that is not as it was written, by its path in the home. It changes nothing. has
// reports whether the home has a queue; documents of others are to be removed. stamp is ""
// if neither settings nor cursor say what it is.
func CheckFiles(home, stamp string, has func(queue string) bool, bad func(path string, err error)) {
	root, err := durable.LookIn(filepath.Join(home, names.RootName))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		bad(names.RootName, err)
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
		bad(names.RootName, err)
	}
	lines := c.cursor(published)
	if _, err := sealed(c.root, SettingsFile, settingsTitle).Read(); !errors.Is(err, fs.ErrNotExist) || published || lines != nil {
		c.note(SettingsFile, err)
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
		c.bad(names.RootName+"/"+path, err)
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
		if lines, err = parseCursor(string(text), c.stamp); err != nil {
			err = Damage{err}
		}
	}
	c.note(CursorFile, err)
	return lines
}

// queue checks the files of a queue. lines is "" without lines of the cursor.
func (c *checker) queue(id string, lines Lines) {
	of, _ := lines.Parse() // zero without lines
	q, err := c.root.Sub(id)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.note(id, err)
		return
	}
	if err == nil {
		defer q.Close()
		c.inherited(q, id)
	}
	for i := range of {
		kind := names.Set(i).String()
		path := id + "/" + kind
		var d *durable.Dir
		if q != nil {
			d, err = q.Sub(kind)
		}
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
	if _, err := readInherited(d); !errors.Is(err, fs.ErrNotExist) {
		c.note(queue+"/"+inheritedFile, err)
	}
}

// set checks the files of a set. line is zero without a line of the cursor.
func (c *checker) set(d *durable.Dir, path string, line *Line) {
	note := func(name string, err error) { c.note(path+"/"+name, err) }
	v, err := ReadInventory(d, path, c.stamp)
	if at := Last(v.Lists).Last; err == nil && at < line.List {
		err = Damaged("ends at event %d, and went to %d", at, line.List)
	}
	if !errors.Is(err, fs.ErrNotExist) || line.List > 0 || line.Dump > 0 {
		note(inventoryFile, err)
	}
	for p := range v.Pieces {
		note(p.Name, checkPiece(d, p, false))
	}
	at := &line.Open
	if at.Entries == 0 || at.First <= Last(v.Lists).Last {
		return // it was closed since
	}
	if sum, known := parseSum(line.SHA256); known {
		p := Piece{names.EntriesFile(at.First), at.Length, sum}
		note(p.Name, checkPiece(d, p, true))
	}
}

// checkPiece reads a file from the disk.
func checkPiece(d *durable.Dir, p Piece, grows bool) error {
	file, err := d.Open(p.Name)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = p.Reread(file, grows, func(int64) bool { return true })
	return err
}
