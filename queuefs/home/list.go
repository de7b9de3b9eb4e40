package home

import (
	"bytes"
	"fmt"
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
