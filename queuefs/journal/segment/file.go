package segment

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"cutie/queuefs/durable"
	"cutie/queuefs/journal"
)

// fdatasync puts the contents of f on stable storage, without the times.
func fdatasync(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if err != unix.EINTR {
			return err
		}
	}
}

// zeroBuffer is how many bytes zeroFill writes at a time.
const zeroBuffer = 2 << 20

// zeroFill gives f, a file in d, size bytes of zeros on the disk, around the page
// cache if the file system allows it: nobody will read them. It does not begin
// without the free space: a partial file would take it from others.
func zeroFill(d *durable.Dir, name string, f *os.File, size int64) error {
	if free, _, err := d.Free(); err == nil && free < size {
		return unix.ENOSPC
	}
	zero := make([]byte, min(size, zeroBuffer))
	w := f
	if direct, err := os.OpenFile(d.Path()+"/"+name, os.O_WRONLY|unix.O_DIRECT, 0); err == nil {
		defer direct.Close()
		if _, err := direct.WriteAt(zero, 0); err == nil {
			w = direct
		}
	}
	for at := int64(0); at < size; at += int64(len(zero)) {
		if _, err := w.WriteAt(zero[:min(int64(len(zero)), size-at)], at); err != nil {
			return err
		}
	}
	return nil
}

func (s *segment) openDirect(d *durable.Dir) {
	if f, err := os.OpenFile(d.Path()+"/"+s.name, os.O_WRONLY|unix.O_DIRECT, 0); err == nil {
		s.direct = f
	}
}

// writeAt writes whole blocks.
func (s *segment) writeAt(p []byte, at int64) error {
	if s.direct != nil && len(p) >= directBatch {
		if n, err := s.direct.WriteAt(p, at); err == nil {
			return nil
		} else if n > 0 {
			return err
		}
	}
	_, err := s.f.WriteAt(p, at)
	return err
}

// files makes the files of segments, uses them again, and removes them. Its mutex
// comes before the one of the log.
type files struct {
	dir  *durable.Dir
	size int64 // bytes of a segment where the disk is not short
	may  func(bytes int64, use journal.Use) bool

	mu     sync.Mutex // held while a file is made, renamed or removed
	spares []string   // files to be used again
	gone   []*segment // let go of, but still under their names

	spare atomic.Int32 // how many spares there are
	short atomic.Bool  // the last attempt to make a segment failed: the next is for Reserve
}

const sparePrefix = durable.TempPrefix + "spare-"

// keepSpares is how many released segments wait to be used again.
const keepSpares = 4

// The next segment is made when 1/prepareAfter of the current one is full. It may
// take as long as to fill half of one.
const prepareAfter = 8

// On a disk short of space smaller segments are made: of smallSize at least for
// records of [journal.Adds], because the largest description of a job must fit; of
// scantySize for others.
const (
	smallSize  = 4 << 20
	scantySize = 1 << 20
)

// diskParts is how many segments of a size must fit the free space if a smaller one
// is possible.
const diskParts = 8

// leaves returns how many bytes at the end of a segment are not for a use unless
// another segment follows.
func leaves(use journal.Use, size int64) int64 {
	switch use {
	case journal.Adds:
		return size / 8
	case journal.Changes:
		return size / 16
	}
	return 0
}

// holds reports whether a segment of so many bytes has space for a batch with n
// bytes of records.
func holds(segment int64, n int) bool { return blockSize+padded(batchHeader+n) <= segment }

// sizes returns the sizes a segment may have for a use, the largest first.
func (f *files) sizes(use journal.Use) []int64 {
	least := int64(scantySize)
	if use == journal.Adds {
		least = smallSize
	}
	all := []int64{f.size}
	for size := f.size / 4; size >= least && size%blockSize == 0; size /= 4 {
		all = append(all, size)
	}
	return all
}

// leastNext returns the bytes of the disk for the next segment, at least.
func (f *files) leastNext() int64 {
	least := f.size
	for size := least / 4; size >= smallSize && size%blockSize == 0; size /= 4 {
		least = size
	}
	return least
}

// whole reports whether segments are made with so many bytes.
func (f *files) whole(size int64) bool { return slices.Contains(f.sizes(journal.Frees), size) }

// cut reports whether a segment of so many bytes had more when it was made.
func (f *files) cut(size int64) bool { return size < f.size && !f.whole(size) }

// first makes the first segment of a journal: of the second size there is. It is filled
// with zeros, and read to its end after a crash, and many homes have few jobs for a long
// time.
func (f *files) first(number uint64) (*segment, error) {
	sizes := f.sizes(journal.Frees)
	return f.create(number, journal.Frees, sizes[min(1, len(sizes)-1):])
}

// make makes a segment for n bytes of records at least, of a spare file if there is
// one, else of the largest size the disk can spare; f.mu is held.
func (f *files) make(number uint64, use journal.Use, n int) (*segment, error) {
	if k := len(f.spares); k > 0 {
		spare := f.spares[k-1]
		f.keep(f.spares[:k-1])
		return createSegment(f.dir, number, f.size, spare)
	}
	return f.create(number, use, slices.DeleteFunc(f.sizes(use), func(size int64) bool { return !holds(size, n) }))
}

// create makes a segment of the largest size the disk can spare.
func (f *files) create(number uint64, use journal.Use, sizes []int64) (*segment, error) {
	err := fmt.Errorf("prepare journal segment: %w", unix.ENOSPC)
	free, _, e := f.dir.Free()
	if e != nil {
		free = math.MaxInt64 // the attempt will show
	}
	for i, size := range sizes {
		if i < len(sizes)-1 && free/size < diskParts || f.may != nil && !f.may(size, use) {
			continue
		}
		seg, e := createSegment(f.dir, number, size, "")
		if !errors.Is(e, unix.ENOSPC) && !errors.Is(e, unix.EDQUOT) {
			return seg, e
		}
		err = e
	}
	return nil, err
}

// keep sets the spare files.
func (f *files) keep(names []string) {
	f.spares = names
	f.spare.Store(int32(len(names)))
}

// list returns the numbers of the segments in order and the highest number of any
// file. It keeps whole spares and, to tidy up, removes unfinished files.
func (f *files) list(tidy bool) (numbers []uint64, highest uint64, err error) {
	var temps []string
	if err := f.dir.Names(func(name string) {
		if n, ok := parseSegmentName(strings.TrimPrefix(name, sparePrefix)); ok {
			highest = max(highest, n)
		}
		if n, ok := parseSegmentName(name); ok {
			numbers = append(numbers, n)
		} else if strings.HasPrefix(name, durable.TempPrefix) {
			temps = append(temps, name)
		}
	}); err != nil {
		return nil, 0, err
	}
	slices.Sort(temps)
	var spares []string
	for _, name := range temps {
		st, err := f.dir.Stat(name)
		if err == nil && strings.HasPrefix(name, sparePrefix) && st.Size == f.size && len(spares) < keepSpares {
			spares = append(spares, name)
		} else if !tidy {
			continue
		} else if err := f.dir.Remove(name); err != nil {
			return nil, 0, err
		}
	}
	f.keep(spares)
	slices.Sort(numbers)
	return numbers, highest, nil
}

// drop puts away released segments: some wait to be used again, the others are
// removed. They go oldest first: a crash or an error leaves no hole, and the next
// drop does the rest. f.mu is held.
func (f *files) drop(gone []*segment) error {
	f.gone = append(f.gone, gone...)
	slices.SortFunc(f.gone, func(a, b *segment) int { return cmp.Compare(a.number, b.number) })
	for len(f.gone) > 0 {
		s := f.gone[0]
		if len(f.spares) < keepSpares && s.size == f.size && !s.aside {
			spare := sparePrefix + s.name
			if err := f.dir.Rename(s.name, f.dir, spare); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			} else if err == nil {
				f.keep(append(f.spares, spare))
			}
		} else if err := f.dir.Remove(s.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		f.gone = f.gone[1:]
		f.short.Store(false) // there is space now
	}
	return nil
}

// trim removes the spare files but for so many; f.mu is held.
func (f *files) trim(keep int) error {
	keep = min(keep, len(f.spares))
	gone := slices.Clone(f.spares[keep:])
	f.keep(f.spares[:keep])
	var errs []error
	for _, name := range gone {
		errs = append(errs, f.dir.Remove(name))
	}
	return errors.Join(errs...)
}
