package home

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

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

// Directories returns the names of directories in dir with a queue-info.txt, in their
// order: the queues of a home without a list.
func Directories(dir string) (ids []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if id, err := job.CleanQueueID(e.Name()); err != nil || id != e.Name() {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, e.Name(), QueueInfoName)); err == nil {
			ids = append(ids, e.Name())
		}
	}
	return ids, err
}

// Write replaces the list of a home.
func (l List) Write(d *durable.Dir) error { return d.Replace(ListName, l) }

// Queues returns the identifiers in the list, in their order; never nil without
// an error. A name that cleaning could not have made is an error.
func (l List) Queues() (ids []string, err error) {
	ids = []string{} // an empty list says that there are none
	sc := bufio.NewScanner(bytes.NewReader(l))
	seen := map[string]bool{}
	for n := 1; sc.Scan(); n++ {
		line := strings.TrimSpace(sc.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, err := job.CleanQueueID(line)
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", ListName, n, err)
		}
		if !seen[id] {
			ids = append(ids, id)
			seen[id] = true
		}
	}
	return ids, sc.Err()
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
