package home

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"cutie/queuefs/durable"
)

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
