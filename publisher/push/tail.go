package push

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"

	"cutie/queuefs/durable"
)

// A tail is the file beside the sealed file of a book, with the changes since that was
// written. Its name is that of the sealed file and .tail. It begins with the digest of
// the contents of the sealed file, so that a tail of an older one does not count:
//
//	of DIGEST
//	CRC + {…}      a record, new or changed
//	CRC - "KEY"    a record removed
//
// CRC is the CRC-32 of the rest of the line, after the digest and the number of the
// line. A line is on stable storage when [Book.Save] returns.
//
//	tail               done on opening
//	absent             the sealed file has all
//	of another file    removed: a crash came right after the sealed file was replaced
//	torn at its end    taken up to there: the last Save had not returned
//	damaged elsewhere  set aside and reported, taken up to there
type tail struct {
	dir  *durable.Dir
	name string
	of   string // digest of the sealed contents
	size int    // bytes; 0: there is no file
	line int    // number of the last line
	bad  bool   // a write has failed: the sealed file is to be written
}

const tailExt = ".tail"

func newTail(file durable.Sealed, contents []byte) tail {
	return tail{dir: file.Dir, name: file.Name + tailExt, of: digestOf(contents)}
}

func digestOf(contents []byte) string {
	sum := sha256.Sum256(contents)
	return hex.EncodeToString(sum[:])
}

func (t *tail) first() string { return "of " + t.of + "\n" }

// seal returns a line with its checksum.
func (t *tail) seal(dst []byte, n int, text []byte) []byte {
	sum := crc32.ChecksumIEEE(fmt.Appendf(nil, "%s %d %s", t.of, n, text))
	return append(append(fmt.Appendf(dst, "%08x ", sum), text...), '\n')
}

// read gives each line to take, without its checksum. whole is false if there was
// damage, and not only a torn end; former is whether the tail is of another sealed file.
func (t *tail) read(max int, take func(text []byte) error) (whole, former bool, err error) {
	file, err := t.dir.ReadFile(t.name, nil, max)
	if errors.Is(err, fs.ErrNotExist) {
		return true, false, nil
	}
	if errors.Is(err, durable.ErrTooLong) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	rest, ok := bytes.CutPrefix(file, []byte(t.first()))
	if !ok {
		former = isFormer(file)
		return former, former, nil
	}
	t.size = len(file)
	for len(rest) > 0 {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		_, text, _ := bytes.Cut(line, []byte(" "))
		if !ended || !bytes.Equal(append(line[:len(line):len(line)], '\n'), t.seal(nil, t.line+1, text)) {
			t.bad = true // nothing is to be added after it
			return !bytes.Contains(after, []byte("\n")), false, nil
		}
		if err := take(text); err != nil {
			return false, false, nil
		}
		t.line++
		rest = after
	}
	return true, false, nil
}

// isFormer reports whether a file is the tail of some sealed file, by its first two lines: a
// damaged first line is not that of another tail.
func isFormer(file []byte) bool {
	first, rest, _ := bytes.Cut(file, []byte("\n"))
	of, ok := bytes.CutPrefix(first, []byte("of "))
	line, _, ended := bytes.Cut(rest, []byte("\n"))
	if !ended {
		return true // torn in its first line: the Save had not returned
	}
	_, text, _ := bytes.Cut(line, []byte(" "))
	t := tail{of: string(of)}
	return ok && bytes.Equal(append(line[:len(line):len(line)], '\n'), t.seal(nil, 1, text))
}

// damage says up to where the tail was read.
func (t *tail) damage() error {
	return fmt.Errorf("%s: %w: changes after line %d are lost", t.name, durable.ErrDamaged, t.line+1)
}

// add appends lines, on stable storage when it returns. After an error the file is not
// added to any more.
func (t *tail) add(texts [][]byte) (err error) {
	var lines []byte
	if t.size == 0 {
		lines = append(lines, t.first()...)
	}
	for i, text := range texts {
		lines = t.seal(lines, t.line+1+i, text)
	}
	t.bad = true
	f, err := t.dir.Append(t.name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := t.dir.Step("append "+t.name, func() error { return write(f, lines) }); err != nil {
		return err
	}
	if err := t.dir.SyncFile(f); err != nil {
		return err
	}
	if t.size == 0 {
		if err := t.dir.Sync(); err != nil {
			return err
		}
	}
	t.size, t.line, t.bad = t.size+len(lines), t.line+len(texts), false
	return nil
}

func write(f *os.File, p []byte) error {
	_, err := f.Write(p)
	return err
}

// remove removes the file. One that comes back after a crash is of another sealed file.
func (t *tail) remove() error {
	if err := t.dir.Remove(t.name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
