package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"

	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/table"
)

// An image of a home in an object store has the rows of the table in files of [home.PackedDir]:
// large ones each in a file of its own, so that an unchanged one is not put into the store
// again, the others together. A file has rows one after another:
//
//	octets of kind u8, key u16, contents u32 | kind | key | contents
//
// The opening that finds such files makes the table of them.

const (
	largeRow   = 32 << 10
	packedFile = 1 << 20 // about, of rows together
	packedMost = 64 << 20

	unpackedDir = home.PackedDir + "-done" // on its way to be removed
)

// Pack calls add with each file of the rows, with the checkpoint at; nil is that of the table.
func (s *Store) Pack(at *table.Checkpoint, add func(path string, size int64, from io.Reader) error) error {
	var file []byte
	files := 0
	put := func(name string, data []byte) error {
		return add(home.LogDir+"/"+home.PackedDir+"/"+name, int64(len(data)), bytes.NewReader(data))
	}
	for _, k := range table.Kinds {
		if k == table.Subscriptions {
			continue // they stay where they were made
		}
		var failed error
		err := s.Table.Each(k, "", "", func(key string, contents []byte, bad error) bool {
			switch {
			case bad != nil || at != nil && k == table.Meta && key == table.CheckpointKey:
				return true // a damaged one is made again there as it is here
			case len(contents) >= largeRow:
				failed = put(fmt.Sprintf("%s-%x", k, sha256.Sum256([]byte(key))), appendRow(nil, k, key, contents))
				return failed == nil
			}
			if file = appendRow(file, k, key, contents); len(file) >= packedFile {
				failed = put(fmt.Sprintf("rows-%06d", files), file)
				file, files = file[:0], files+1
			}
			return failed == nil
		})
		if err = errors.Join(err, failed); err != nil {
			return err
		}
	}
	if at != nil {
		file = appendRow(file, table.Meta, table.CheckpointKey, at.Text())
	}
	return put(fmt.Sprintf("rows-%06d", files), file)
}

// PackOwn writes the rows that a backup takes along. A home with them in a file of
// [home.PackedDir], and without a table, has them after its opening.
func (s *Store) PackOwn(w io.Writer) error {
	for _, k := range table.Own {
		var failed error
		err := s.Table.Each(k, "", "", func(key string, contents []byte, bad error) bool {
			if bad == nil {
				_, failed = w.Write(appendRow(nil, k, key, contents))
			}
			return failed == nil
		})
		if err = errors.Join(err, failed); err != nil {
			return err
		}
	}
	return nil
}

// keepSubscriptions stages those of the table in the files of before a directory was made again.
func (s *Store) keepSubscriptions() error {
	t, err := table.Open(s.Former, true)
	if err != nil {
		s.Report(TablePath, fmt.Sprintf("as it was before the directory was made again: %v; subscriptions are forgotten", durable.Bare(err)))
		return nil
	}
	err = t.Each(table.Subscriptions, "", "", func(key string, contents []byte, bad error) bool {
		if bad == nil {
			s.Table.Put(table.Subscriptions, key, bytes.Clone(contents))
		}
		return true
	})
	return errors.Join(err, t.Close())
}

func appendRow(dst []byte, k table.Kind, key string, contents []byte) []byte {
	dst = append(dst, byte(len(k)))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(key)))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(contents)))
	return append(append(append(dst, k...), key...), contents...)
}

// cutRow returns the first row of data, and what follows.
func cutRow(data []byte) (k table.Kind, key string, contents, rest []byte, err error) {
	if len(data) >= 7 {
		kinds, keys := int(data[0]), int(binary.LittleEndian.Uint16(data[1:]))
		size := int64(binary.LittleEndian.Uint32(data[3:]))
		if data = data[7:]; int64(len(data)) >= int64(kinds+keys)+size {
			k, key, data = table.Kind(data[:kinds]), string(data[kinds:kinds+keys]), data[kinds+keys:]
			contents, rest = data[:size], data[size:]
		}
	}
	if contents == nil || !slices.Contains(table.Kinds, k) || key == "" {
		return k, key, nil, nil, fmt.Errorf("%w: no row of a table", durable.ErrDamaged)
	}
	return k, key, contents, rest, nil
}

// unpack makes the table of the files of an image, if there are some. A crash meanwhile leaves
// them, and the next opening does it again.
func (s *Store) unpack() error {
	if s.Look {
		return nil
	}
	if err := s.Log.RemoveTree(unpackedDir); err != nil {
		return err
	}
	packed, err := s.Log.Sub(home.PackedDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer packed.Close()
	var names []string
	if err := packed.Names(func(name string) { names = append(names, name) }); err != nil {
		return err
	}
	if err := s.Log.Remove(table.Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	t, err := table.Open(s.Log, false)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err = fill(t, packed, name); err != nil {
			err = fmt.Errorf("%s/%s/%s: %w", home.LogDir, home.PackedDir, name, err)
			break
		}
	}
	if err == nil {
		err = t.Commit()
	}
	if err = errors.Join(err, t.Close()); err != nil {
		return err
	}
	// What is left of them after a crash must not make a table again.
	if err := errors.Join(s.Log.Sync(), s.Log.Rename(home.PackedDir, s.Log, unpackedDir), s.Log.Sync()); err != nil {
		return err
	}
	return s.Log.RemoveTree(unpackedDir)
}

// fill stages the rows of a file.
func fill(t *table.Table, packed *durable.Dir, name string) error {
	data, err := packed.ReadFile(name, nil, min(packedMost, math.MaxInt32))
	for err == nil && len(data) > 0 {
		var k table.Kind
		var key string
		var contents []byte
		if k, key, contents, data, err = cutRow(data); err == nil {
			t.Put(k, key, contents)
		}
	}
	if err == nil && t.Full() {
		err = t.Commit()
	}
	return err
}
