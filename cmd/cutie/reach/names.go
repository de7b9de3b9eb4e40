package reach

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cutie/queuefs"
)

// completionLimit is how long a daemon may take to send the names of its
// queues.
const completionLimit = 500 * time.Millisecond

// QueueNames returns the names of the queues of a daemon that answers soon, for
// completions. A home without a daemon is not opened; its list is read. Errors give no
// names.
func (f *Finder) QueueNames(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, completionLimit)
	defer cancel()
	t, err := f.Daemon(ctx)
	if err != nil {
		return nil
	}
	if t == nil {
		return listedQueues(f.Home)
	}
	defer t.Close()
	s, _ := t.Service(ctx)
	return s.Queues
}

// listedQueues reads queues.txt of a home (Cutie 0.3, 6.3).
func listedQueues(home string) (names []string) {
	list, err := os.Open(filepath.Join(home, "queues.txt"))
	if err != nil {
		return nil
	}
	defer list.Close()
	text, err := io.ReadAll(io.LimitReader(list, 1<<20))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		if id, err := queuefs.CleanQueueID(strings.TrimSpace(line)); err == nil && !strings.HasPrefix(line, "#") {
			names = append(names, id)
		}
	}
	return names
}
