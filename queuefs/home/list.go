package home

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"cutie/queuefs/durable"
	"cutie/queuefs/job"
)

// maxList is how many bytes the list of queues may have.
const maxList = 64 << 20

// A List is the text of queues.txt: a queue a line, and comments. The line makes
// the queue.
type List []byte

// ReadList reads the list of a home.
func ReadList(d *durable.Dir) (List, error) { return d.ReadFile(ListName, nil, maxList) }

// Directories returns the names of directories with a queue-info.txt, in their order: the
// queues of a home without a list.
func Directories(queues *durable.Dir) (ids []string, err error) { return unlisted(queues, nil, true) }

// Write replaces the list of a home.
func (l List) Write(d *durable.Dir) error { return d.Replace(ListName, l) }

// Queues returns the identifiers in the list, in their order; never nil without
// an error. A name that cleaning could not have made is an error.
func (l List) Queues() (ids []string, err error) {
	ids, bad := l.Legible()
	if len(bad) > 0 {
		return nil, fmt.Errorf("%s: %w", ListName, bad[0])
	}
	return ids, nil
}

// Legible is Queues for a damaged list: it returns the identifiers that make sense, and
// an error for each other line.
func (l List) Legible() (ids []string, bad []error) {
	lines := bytes.Count(l, []byte("\n")) + 1
	ids = make([]string, 0, lines) // an empty list says that there are none
	seen := make(map[string]bool, lines)
	n := 0
	for line := range bytes.Lines(l) {
		n++
		id, err := listed(line)
		if err != nil {
			bad = append(bad, fmt.Errorf("line %d: %w", n, err))
		}
		if id != "" && !seen[id] {
			ids = append(ids, id)
			seen[id] = true
		}
	}
	return ids, bad
}

// listed returns the identifier in a line, "" without one.
func listed(line []byte) (id string, err error) {
	text := string(bytes.TrimSpace(line))
	if text == "" || strings.HasPrefix(text, "#") {
		return "", nil
	}
	return job.CleanQueueID(text)
}

// Mend returns the list without the lines that make no sense.
func (l List) Mend() (rest List) {
	for line := range bytes.Lines(l) {
		if _, err := listed(line); err == nil {
			rest = append(rest, line...)
		}
	}
	return rest
}

// Lines adds to the list of queues of a home. It is for one caller at a time.
type Lines struct {
	Home *durable.Dir

	failed []string // lines that may be there, and should not
	doubt  bool     // the end of the file may not be what it should be
	end    int      // what it should be; a line without an end after it is torn
}

// Torn says that the line from an octet of the file on is torn.
func (l *Lines) Torn(at int) { l.doubt, l.end = true, at }

// Add adds lines for queues. When it returns they are on stable storage. After an error
// they may be there until the next call.
func (l *Lines) Add(ids ...string) error {
	if !l.doubt {
		err := l.append(ids)
		if err != nil {
			l.doubt, l.failed = true, ids
		}
		return err
	}
	// A failed sync may be forgotten by the next one: all of the file is written again.
	list, err := ReadList(l.Home)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if last := bytes.LastIndexByte(list, '\n') + 1; last >= l.end {
		list = list[:last]
	}
	for _, id := range slices.Concat(l.failed, ids) {
		list = list.Drop(id)
	}
	for _, id := range ids {
		list = list.Add(id)
	}
	if err := list.Write(l.Home); err != nil {
		return err
	}
	l.doubt, l.failed = false, nil
	return nil
}

// append writes lines at the end of the list, and makes the list if there is none.
func (l *Lines) append(ids []string) (err error) {
	f, err := l.Home.Update(ListName)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	l.end = int(size)
	var text []byte
	if size > 0 {
		var last [1]byte
		if _, err := f.ReadAt(last[:], size-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			text = append(text, '\n')
		}
	}
	for _, id := range ids {
		text = append(append(text, id...), '\n')
	}
	err = l.Home.Step("append to "+ListName, func() error {
		_, err := f.WriteAt(text, size)
		return err
	})
	if err == nil {
		err = l.Home.Step("sync "+ListName, f.Sync)
	}
	if err == nil && size == 0 {
		err = l.Home.Sync() // the file may be new
	}
	return err
}

// Known are the queues of a home.
type Known struct {
	Listed   []string // in queues.txt, in its order
	Unlisted []string // other directories with queue-info.txt
	Torn     int      // octet of queues.txt from which on its last line is torn; -1: it is not
}

// Find returns the queues of a home, and reports lines of queues.txt without sense.
// Without the file the directories are the queues, and it is made unless home is open
// for reading.
func Find(home, queues *durable.Dir, report func(path, text string)) (k Known, err error) {
	list, err := ReadList(home)
	switch {
	case errors.Is(err, durable.ErrTooLong):
		report(ListName, err.Error())
	case errors.Is(err, fs.ErrNotExist):
		if list, err = listDirectories(home, queues, report); err != nil {
			return k, err
		}
	case err != nil:
		return k, err
	}
	k.Torn = -1
	var bad []error
	k.Listed, bad = list.Legible()
	k.unfinished(list, queues, report)
	for _, err := range bad {
		report(ListName, err.Error()+"; the line is passed over")
	}
	k.Unlisted, err = unlisted(queues, k.Listed, false)
	return k, err
}

// unfinished takes the last identifier out if its line has no end and there is no such
// directory: a crash has torn the line.
func (k *Known) unfinished(list List, queues *durable.Dir, report func(path, text string)) {
	n, at := len(k.Listed)-1, bytes.LastIndexByte(list, '\n')+1
	if n < 0 || at == len(list) {
		return
	}
	if last, err := listed(list[at:]); err != nil || last != k.Listed[n] {
		return
	}
	if _, err := queues.Stat(k.Listed[n]); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	report(ListName, fmt.Sprintf("the last line, %s, has no end, and there is no such queue; the line is passed over", k.Listed[n]))
	k.Listed, k.Torn = k.Listed[:n], at
}

// unlisted returns the names of directories with a property file of a queue, without
// those of the identifiers in ids. queues is the directory of all queues. With every,
// a directory that cannot be read now is an error.
func unlisted(queues *durable.Dir, ids []string, every bool) (names []string, err error) {
	known := make(map[string]bool, len(ids))
	for _, id := range ids {
		known[id] = true
	}
	var others []string
	err = queues.Names(func(name string) {
		if !known[name] && name != LostFound {
			others = append(others, name)
		}
	})
	if err != nil {
		return nil, err
	}
	for _, name := range others {
		if id, err := job.CleanQueueID(name); err != nil || id != name {
			continue
		}
		d, err := queues.Sub(name)
		if err == nil {
			_, err = d.Stat(QueueInfoName)
			d.Close()
		}
		switch {
		case err == nil:
			names = append(names, name)
		case every && !durable.Lost(err):
			return nil, err // a list without it would lose the queue
		}
	}
	slices.Sort(names)
	return names, nil
}

// Used reports whether there are job files in the directory of a queue.
func Used(queues *durable.Dir, id string) bool {
	root, err := queues.Sub(id)
	if err != nil {
		return false
	}
	defer root.Close()
	some := false
	for st := job.Pending; st <= job.Deleted; st++ {
		if d, err := root.Sub(st.String()); err == nil {
			_ = d.Names(func(name string) {
				_, err := job.ParseID(name)
				some = some || err == nil
			})
			d.Close()
		}
	}
	return some
}

// Add returns the list with a line for a queue at its end.
func (l List) Add(id string) List {
	if len(l) > 0 && l[len(l)-1] != '\n' {
		l = append(l, '\n')
	}
	return append(append(l, id...), '\n')
}

// Drop returns the list without the lines of a queue. All others stay as they
// are.
func (l List) Drop(id string) (rest List) {
	for line := range bytes.Lines(l) {
		if cleaned, err := job.CleanQueueID(string(bytes.TrimSpace(line))); err != nil || cleaned != id {
			rest = append(rest, line...)
		}
	}
	return rest
}

// listDirectories makes the list of a home without one. Nothing is told of directories
// without jobs: the first queue may have been on its way when the machine stopped.
func listDirectories(home, queues *durable.Dir, report func(path, text string)) (list List, err error) {
	ids, err := unlisted(queues, nil, true)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	for _, id := range ids {
		list = list.Add(id)
	}
	if slices.ContainsFunc(ids, func(id string) bool { return Used(queues, id) }) {
		report(ListName, fmt.Sprintf("missing; made of the %d directories with %s", len(ids), QueueInfoName))
	}
	if err := list.Write(home); err != nil && !errors.Is(err, unix.EROFS) {
		return nil, err
	}
	return list, nil
}

// Published reports whether there are published documents of a queue.
func Published(home *durable.Dir, id string) (bool, error) {
	d, err := home.Sub(PublishedDir)
	if err == nil {
		_, err = d.Stat(id)
		d.Close()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// RemovePublished removes the published documents of a queue.
func RemovePublished(home *durable.Dir, id string) error {
	d, err := home.Sub(PublishedDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.RemoveTree(id); err != nil {
		return err
	}
	return d.Sync()
}

// LastPublished returns the number of the last event that published documents of a queue
// name, 0 without any. Numbers of a queue that lost its index go on above it: a name that
// ends with an event never comes to mean another one.
func LastPublished(home *durable.Dir, id string) (last uint64, err error) {
	all, err := home.Sub(PublishedDir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer all.Close()
	of, err := all.Sub(id)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer of.Close()
	var sets []string
	if err := of.Names(func(name string) { sets = append(sets, name) }); err != nil {
		return 0, err
	}
	for _, name := range sets {
		st, err := of.Stat(name)
		if err != nil {
			return 0, err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			continue
		}
		seq, err := lastOfSet(of, name)
		if err != nil {
			return 0, fmt.Errorf("%s/%s/%s: %w", PublishedDir, id, name, err)
		}
		last = max(last, seq)
	}
	return last, nil
}

var (
	eventInName  = regexp.MustCompile(`[0-9]{12,}`)
	eventInEntry = regexp.MustCompile(`cut:seq="([0-9]+)"`)
)

// openSuffix ends the name of a list that grows: its last entries have the last events.
const openSuffix = ".entries"

// lastOfSet is LastPublished of one set.
func lastOfSet(of *durable.Dir, name string) (last uint64, err error) {
	set, err := of.Sub(name)
	if err != nil {
		return 0, err
	}
	defer set.Close()
	var open []string
	err = set.Names(func(name string) {
		for _, digits := range eventInName.FindAllString(name, -1) {
			if n, err := strconv.ParseUint(digits, 10, 64); err == nil {
				last = max(last, n)
			}
		}
		if strings.HasSuffix(name, openSuffix) {
			open = append(open, name)
		}
	})
	for _, name := range open {
		if err != nil {
			break
		}
		var tail []byte
		tail, err = tailOf(set, name)
		for _, m := range eventInEntry.FindAllSubmatch(tail, -1) {
			if n, err := strconv.ParseUint(string(m[1]), 10, 64); err == nil {
				last = max(last, n)
			}
		}
	}
	return last, err
}

// tailOf returns the end of a file: some entries at least.
func tailOf(d *durable.Dir, name string) ([]byte, error) {
	const length = 256 << 10
	f, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	var tail bytes.Buffer
	_, err = io.Copy(&tail, io.NewSectionReader(f, max(0, size-length), length))
	return tail.Bytes(), err
}
