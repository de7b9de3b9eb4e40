package home

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"slices"

	"cutie/queuefs/durable"
)

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
