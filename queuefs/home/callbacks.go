package home

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"

	"cutie/queuefs/durable"
)

// CallbacksDir has a sealed file for each queue with a callback: its URL in a line. The
// path of such a URL is often all that a receiver asks for, so these files are for their
// owner alone and never published. queue-info.txt has scheme and host.
const CallbacksDir = "callback-urls"

const maxCallback = 64 << 10

// PublicURL returns scheme and host of a URL.
func PublicURL(full string) string {
	u, err := url.Parse(full)
	if err != nil || full == "" {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
}

// Callbacks are the URLs of callbacks. They are safe for concurrent use, by one caller
// for each queue if it changes them.
//
// A new URL is in the file before queue-info.txt has its scheme and host, so a crash
// between the two leaves a line more, and both URLs can be found.
type Callbacks struct {
	Home *durable.Dir
}

// Of returns the whole URL for the callback in queue-info.txt, which may be whole
// itself. The error wraps [durable.ErrDamaged] without a line in the file, and for a damaged
// file; Keep writes another one.
func (c *Callbacks) Of(queue, public string) (string, error) {
	if public == "" || public != PublicURL(public) {
		return public, nil
	}
	urls, err := c.read(queue)
	if err != nil {
		return "", err
	}
	if i := last(urls, public); i >= 0 {
		return urls[i], nil
	}
	return "", lost(fmt.Errorf("%s/%s: %w: no URL of %s", CallbacksDir, queue, durable.ErrDamaged, public))
}

func lost(err error) error { return fmt.Errorf("%w; set the callback of the queue again", err) }

// last returns the place of the last URL with this beginning, -1 if there is none.
func last(urls []string, public string) int {
	for i, u := range slices.Backward(urls) {
		if PublicURL(u) == public {
			return i
		}
	}
	return -1
}

// Keep puts a URL on stable storage and returns the callback for queue-info.txt. The
// scheme and host that is there already means the URL known for it.
func (c *Callbacks) Keep(queue, full string) (public string, err error) {
	if public = PublicURL(full); full == "" {
		return "", nil
	}
	urls, err := c.read(queue)
	if err != nil && !errors.Is(err, durable.ErrDamaged) {
		return "", err
	}
	if i := last(urls, public); i >= 0 && (urls[i] == full || full == public) {
		return public, nil
	}
	return public, c.write(queue, append(urls, full))
}

// Settle removes the URLs of a queue except the one in use.
func (c *Callbacks) Settle(queue, public string) error {
	urls, err := c.read(queue)
	if errors.Is(err, durable.ErrDamaged) {
		return c.write(queue, nil)
	}
	if err != nil {
		return err
	}
	var used []string
	if i := last(urls, public); i >= 0 {
		used = urls[i : i+1]
	}
	if len(used) == len(urls) {
		return nil
	}
	return c.write(queue, used)
}

// read returns the URLs in the file of a queue. There need not be one.
func (c *Callbacks) read(queue string) (urls []string, err error) {
	dir, err := c.Home.Sub(CallbacksDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	text, err := sealed(dir, queue).Read()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		err = fmt.Errorf("%s/%s: %w", CallbacksDir, queue, durable.Bare(err))
		if errors.Is(err, durable.ErrDamaged) {
			err = lost(err)
		}
		return nil, err
	}
	return strings.Fields(string(text)), nil
}

func sealed(dir *durable.Dir, queue string) durable.Sealed {
	return durable.Sealed{Dir: dir, Name: queue, Kind: "callback of queue " + queue, Max: maxCallback}
}

// write gives the file of a queue other URLs; without any it goes.
func (c *Callbacks) write(queue string, urls []string) error {
	dir, err := c.Home.MakeSub(CallbacksDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	if len(urls) > 0 {
		return sealed(dir, queue).Write([]byte(strings.Join(urls, "\n") + "\n"))
	}
	if err := dir.Remove(queue); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return dir.Sync()
}

// Sweep removes what a crash has left unfinished.
func (c *Callbacks) Sweep() error {
	dir, err := c.Home.Sub(CallbacksDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sweep(nil)
}
