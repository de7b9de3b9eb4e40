package table

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"cutie/queuefs/durable"
	"cutie/queuefs/home"
)

// The path of the URL of a callback is often all that a receiver asks for, so the URL is for
// the owner of the home alone and never published: queue-info.txt has scheme and host. The row
// of a queue has one URL a line.
//
// A new URL is in the row before queue-info.txt has its scheme and host, so a crash between
// the two leaves a line more, and both URLs can be found.

// Callback returns the whole URL for the callback in queue-info.txt, which may be whole itself.
// The error wraps [durable.ErrDamaged] without a URL in the row, and for a damaged row;
// KeepCallback writes another one.
func (t *Table) Callback(queue, public string) (string, error) {
	if public == "" || public != home.PublicURL(public) {
		return public, nil
	}
	urls, err := t.urls(queue)
	if err != nil {
		return "", err
	}
	if i := last(urls, public); i >= 0 {
		return urls[i], nil
	}
	return "", lost(queue, fmt.Errorf("%w: no URL of %s", durable.ErrDamaged, public))
}

func lost(queue string, err error) error {
	return fmt.Errorf("callback of queue %s: %w; set the callback of the queue again", queue, err)
}

// last returns the place of the last URL with this beginning, -1 if there is none.
func last(urls []string, public string) int {
	for i, u := range slices.Backward(urls) {
		if home.PublicURL(u) == public {
			return i
		}
	}
	return -1
}

// KeepCallback puts a URL on stable storage and returns the callback for queue-info.txt. The
// scheme and host that is there already means the URL known for it.
func (t *Table) KeepCallback(queue, full string) (public string, err error) {
	if public = home.PublicURL(full); full == "" {
		return "", nil
	}
	urls, err := t.urls(queue)
	if err != nil && !errors.Is(err, durable.ErrDamaged) {
		return "", err
	}
	if i := last(urls, public); i >= 0 && (urls[i] == full || full == public) {
		return public, nil
	}
	return public, t.setURLs(queue, append(urls, full))
}

// SettleCallback removes the URLs of a queue except the one in use.
func (t *Table) SettleCallback(queue, public string) error {
	urls, err := t.urls(queue)
	if errors.Is(err, durable.ErrDamaged) {
		return t.setURLs(queue, nil)
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
	return t.setURLs(queue, used)
}

// urls returns the URLs in the row of a queue. There need not be one.
func (t *Table) urls(queue string) ([]string, error) {
	text, err := t.Get(Callbacks, queue)
	if errors.Is(err, durable.ErrDamaged) {
		err = lost(queue, err)
	}
	return strings.Fields(string(text)), err
}

// setURLs gives the row of a queue other URLs; without any it goes.
func (t *Table) setURLs(queue string, urls []string) error {
	if len(urls) == 0 {
		return t.Set(Callbacks, queue, nil)
	}
	return t.Set(Callbacks, queue, []byte(strings.Join(urls, "\n")+"\n"))
}

// Mirrors returns all queues that are mirrors, or were until a takeover. A damaged row keeps
// its queue a mirror, which is safe: Bad says why.
func (t *Table) Mirrors() (map[string]*home.Mirror, error) {
	all := map[string]*home.Mirror{}
	err := t.Each(Mirrors, "", "", func(queue string, text []byte, bad error) bool {
		m := new(home.Mirror)
		if bad == nil {
			m, bad = home.ParseMirror(text)
		}
		if bad == nil && m.Live() && m.Source == "" {
			bad = errors.New("its original is not known")
		}
		if bad != nil {
			m = &home.Mirror{Bad: durable.Bare(bad).Error()}
		}
		all[queue] = m
		return true
	})
	return all, err
}

// SetMirror puts the original of a queue on stable storage.
func (t *Table) SetMirror(queue string, m *home.Mirror) error { return t.Set(Mirrors, queue, m.Text()) }

// ForgetMirror removes the row of a queue. There need not be one.
func (t *Table) ForgetMirror(queue string) error {
	if !t.Has(Mirrors, queue) {
		return nil
	}
	return t.Set(Mirrors, queue, nil)
}
