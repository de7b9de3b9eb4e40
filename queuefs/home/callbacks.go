package home

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"cutie/queuefs/durable"
)

// CallbacksName is the file with the URLs of callbacks, in lines "QUEUE: URL". The path
// of such a URL is often all that a receiver asks for, so the file is for its owner
// alone and never published. queue-info.txt has scheme and host.
const CallbacksName = "callback-urls.txt"

const maxCallbacks = 64 << 20

// PublicURL returns scheme and host of a URL.
func PublicURL(full string) string {
	u, err := url.Parse(full)
	if err != nil || full == "" {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
}

// Callbacks are the URLs of callbacks. They are safe for concurrent use.
//
// A new URL is in the file before queue-info.txt has its scheme and host, so a crash
// between the two leaves a line more, and both URLs can be found.
type Callbacks struct {
	Dir *durable.Dir // the home

	mu    sync.Mutex
	lines []callback
	stamp unix.Stat_t // of the file when it was read
}

type callback struct{ queue, url string }

// Of returns the whole URL for the callback in queue-info.txt, which may be whole
// itself. Without a line in the file it is the callback as it is.
func (c *Callbacks) Of(queue, public string) (string, error) {
	if public == "" || public != PublicURL(public) {
		return public, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.load(); err != nil {
		return "", err
	}
	if i := c.last(queue, public); i >= 0 {
		return c.lines[i].url, nil
	}
	return public, nil
}

// last returns the place of the last URL with this beginning, -1 if there is none.
func (c *Callbacks) last(queue, public string) int {
	for i := len(c.lines) - 1; i >= 0; i-- {
		if l := &c.lines[i]; l.queue == queue && PublicURL(l.url) == public {
			return i
		}
	}
	return -1
}

// Keep puts a URL on stable storage and returns the callback for queue-info.txt. The
// scheme and host that is there already means the URL known for it.
func (c *Callbacks) Keep(queue, full string) (public string, err error) {
	if public = PublicURL(full); full == public {
		return public, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.load(); err != nil {
		return "", err
	}
	if i := c.last(queue, public); i >= 0 && c.lines[i].url == full {
		return public, nil
	}
	return public, c.write(append(slices.Clip(c.lines), callback{queue, full}))
}

// Settle removes the URLs of a queue except the one in use.
func (c *Callbacks) Settle(queue, public string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.load(); err != nil {
		return err
	}
	used := c.last(queue, public)
	var kept []callback
	for i, l := range c.lines {
		if i == used || l.queue != queue {
			kept = append(kept, l)
		}
	}
	if len(kept) == len(c.lines) {
		return nil
	}
	return c.write(kept)
}

// load reads the file again if it has changed. There need not be one.
func (c *Callbacks) load() error {
	st, err := c.Dir.Stat(CallbacksName)
	if errors.Is(err, fs.ErrNotExist) {
		st, err = unix.Stat_t{}, nil
	}
	if err != nil || st.Ino == c.stamp.Ino && st.Size == c.stamp.Size && st.Mtim == c.stamp.Mtim {
		return err
	}
	var lines []callback
	if st.Ino != 0 {
		text, err := c.Dir.ReadFile(CallbacksName, nil, maxCallbacks)
		if err != nil {
			return err
		}
		n := 0
		for line := range strings.Lines(string(text)) {
			n++
			if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
				continue
			}
			queue, full, ok := strings.Cut(line, ": ")
			if full = strings.TrimSpace(full); !ok || full == "" || checkURI("callback", full) != nil {
				return fmt.Errorf("%s: line %d is not QUEUE: URL", CallbacksName, n)
			}
			lines = append(lines, callback{queue, full})
		}
	}
	c.lines, c.stamp = lines, st
	return nil
}

// write gives the file other lines.
func (c *Callbacks) write(lines []callback) error {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.queue + ": " + l.url + "\n")
	}
	if err := c.Dir.Replace(CallbacksName, []byte(b.String())); err != nil {
		return err
	}
	c.lines, c.stamp = lines, unix.Stat_t{} // read again, which shows what is there
	return nil
}
