package home

import (
	"bytes"
	"cutie/queuefs/durable"
	"cutie/queuefs/job"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"
)

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
