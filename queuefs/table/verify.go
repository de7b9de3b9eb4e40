package table

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// bbolt trusts its file: a page that leads to itself has it run for ever, and one with a wrong
// length has it read anywhere, in its own check even in a goroutine where nobody can catch the
// fault. So the tree is verified here, before bbolt follows it, and read with ReadAt, so that
// a bad sector is an error:
//
//	page      id u64 | flags u16 | count u16 | overflow u32 | elements | keys and values
//	meta      magic u32 | version u32 | page size u32 | flags u32 | root u64 | sequence u64 |
//	          free list u64 | end u64 | transaction u64 | FNV-1a u64 over these
//	branch    position u32 | length of key u32 | page u64
//	leaf      flags u32 | position u32 | length of key u32 | length of value u32
//	bucket    root u64 | sequence u64 | if root is 0, a leaf page in its place
//	free list page u64, as often as count says, or as the first says if count is 65,535
//
// Positions count from their element. The two metas are of the last two transactions.
const (
	pageHeader = 16
	element    = 16
	metaSize   = 64

	branchPage = 1
	leafPage   = 2
	freePage   = 16

	maxDepth = 32
)

// A tree is a file of bbolt that is being verified.
type tree struct {
	file io.ReaderAt
	size int // of a page
	end  uint64
	seen []bool // by page
	row  func(kind, key, value []byte)
	bufs [maxDepth][]byte
}

// verifyFile verifies all pages of a file of size octets, and calls row with each row. Errors
// other than of reading wrap [durable.ErrDamaged].
func verifyFile(file io.ReaderAt, size int64, row func(kind, key, value []byte)) error {
	t := &tree{file: file, row: row}
	meta, err := t.meta(size)
	if err != nil {
		return err
	}
	t.seen = make([]bool, t.end)
	t.seen[0], t.seen[1] = true, true
	if err := t.walk(binary.LittleEndian.Uint64(meta[16:]), nil, nil, nil, 0); err != nil {
		return err
	}
	if err := t.freeList(binary.LittleEndian.Uint64(meta[32:])); err != nil {
		return err
	}
	for id, seen := range t.seen {
		if !seen {
			return wrong(uint64(id), "it is in no use, and not free")
		}
	}
	return nil
}

func wrong(page uint64, why string) error {
	return damage(fmt.Errorf("page %d of the file: %s", page, why))
}

// meta reads both metas, and returns the newer one. Without one of them the table would be an
// older one.
func (t *tree) meta(size int64) (newer []byte, err error) {
	one, err := t.metaAt(0, size)
	if err != nil {
		return nil, err
	}
	t.size = int(binary.LittleEndian.Uint32(one[8:]))
	if t.size < 1024 || t.size > 1<<16 || t.size&(t.size-1) != 0 {
		return nil, wrong(0, "the size of pages makes no sense")
	}
	two, err := t.metaAt(int64(t.size), size)
	if err != nil {
		return nil, err
	}
	newer = one
	if binary.LittleEndian.Uint64(two[48:]) > binary.LittleEndian.Uint64(one[48:]) {
		newer = two
	}
	t.end = binary.LittleEndian.Uint64(newer[40:])
	if have := uint64(size) / uint64(t.size); t.end < 4 || t.end > have {
		return nil, damage(fmt.Errorf("it has %d pages of %d", have, t.end))
	}
	return newer, nil
}

func (t *tree) metaAt(at, size int64) ([]byte, error) {
	b := make([]byte, pageHeader+metaSize)
	if size < at+int64(len(b)) {
		return nil, damage(errors.New("the file is cut"))
	}
	if _, err := t.file.ReadAt(b, at); err != nil {
		return nil, err
	}
	b = b[pageHeader:]
	h := fnv.New64a()
	h.Write(b[:metaSize-8])
	if binary.LittleEndian.Uint64(b[metaSize-8:]) != h.Sum64() {
		return nil, damage(fmt.Errorf("the meta at %d does not verify", at))
	}
	return b, nil
}

// page reads a page that nothing else has led to.
func (t *tree) page(id uint64, depth int) ([]byte, error) {
	if id < 2 || id >= t.end || depth >= maxDepth {
		return nil, wrong(id, "there is no such page")
	}
	size := t.size
	for {
		b := t.bufs[depth]
		if cap(b) < size {
			b = make([]byte, size)
		}
		b = b[:size]
		t.bufs[depth] = b
		if _, err := t.file.ReadAt(b, int64(id)*int64(t.size)); err != nil {
			return nil, err
		}
		over := uint64(binary.LittleEndian.Uint32(b[12:]))
		if binary.LittleEndian.Uint64(b) != id || id+over >= t.end {
			return nil, wrong(id, "it is another page")
		}
		if n := int(over+1) * t.size; size < n {
			size = n
			continue
		}
		for n := id; n <= id+over; n++ {
			if t.seen[n] {
				return nil, wrong(n, "it is in use twice")
			}
			t.seen[n] = true
		}
		return b, nil
	}
}

// walk verifies the pages from id on down, with keys not before from, and before to; nil is no
// bound. kind is that of the rows; nil: the rows are kinds.
func (t *tree) walk(id uint64, kind, from, to []byte, depth int) error {
	b, err := t.page(id, depth)
	if err != nil {
		return err
	}
	if binary.LittleEndian.Uint16(b[8:]) != branchPage {
		return t.leaf(id, b, kind, from, to, depth)
	}
	count := int(binary.LittleEndian.Uint16(b[10:]))
	if count == 0 {
		return wrong(id, "it leads nowhere")
	}
	var key, next []byte
	for i := range count {
		if key = next; i == 0 {
			if key, err = branchKey(id, b, 0); err != nil {
				return err
			}
		}
		if next = to; i+1 < count {
			if next, err = branchKey(id, b, i+1); err != nil {
				return err
			}
		}
		if bytes.Compare(key, from) < 0 || next != nil && bytes.Compare(key, next) >= 0 {
			return wrong(id, "its keys are not in their order")
		}
		child := binary.LittleEndian.Uint64(b[pageHeader+i*element+8:])
		if err := t.walk(child, kind, key, next, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func branchKey(id uint64, b []byte, i int) ([]byte, error) {
	at := pageHeader + i*element
	if at+element > len(b) {
		return nil, wrong(id, "it has too many keys")
	}
	return part(id, b, at, binary.LittleEndian.Uint32(b[at:]), binary.LittleEndian.Uint32(b[at+4:]))
}

// part returns size octets of a page from a position after the element at.
func part(id uint64, b []byte, at int, position, size uint32) ([]byte, error) {
	first := uint64(at) + uint64(position)
	if position < element || first+uint64(size) > uint64(len(b)) {
		return nil, wrong(id, "a key or value is not in it")
	}
	return b[first : first+uint64(size)], nil
}

// leaf verifies a page of rows, or of kinds.
func (t *tree) leaf(id uint64, b, kind, from, to []byte, depth int) error {
	if len(b) < pageHeader || binary.LittleEndian.Uint16(b[8:]) != leafPage {
		return wrong(id, "it is not of the tree")
	}
	var last []byte
	for i := range int(binary.LittleEndian.Uint16(b[10:])) {
		at := pageHeader + i*element
		if at+element > len(b) {
			return wrong(id, "it has too many rows")
		}
		flags, position := binary.LittleEndian.Uint32(b[at:]), binary.LittleEndian.Uint32(b[at+4:])
		keys, values := binary.LittleEndian.Uint32(b[at+8:]), binary.LittleEndian.Uint32(b[at+12:])
		key, err := part(id, b, at, position, keys)
		if err != nil {
			return err
		}
		value, err := part(id, b, at, position+keys, values)
		if err != nil {
			return err
		}
		if len(key) == 0 || last != nil && bytes.Compare(last, key) >= 0 ||
			bytes.Compare(key, from) < 0 || to != nil && bytes.Compare(key, to) >= 0 {
			return wrong(id, "its keys are not in their order")
		}
		last = key
		switch {
		case kind != nil && flags == 0:
			t.row(kind, key, value)
		case kind != nil || flags != 1 || len(value) < element:
			return wrong(id, "a row is none")
		default:
			if root := binary.LittleEndian.Uint64(value); root != 0 {
				err = t.walk(root, key, nil, nil, depth+1)
			} else {
				err = t.leaf(id, value[element:], key, nil, nil, depth)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// freeList verifies the list of free pages.
func (t *tree) freeList(id uint64) error {
	b, err := t.page(id, 0)
	if err != nil {
		return err
	}
	count, ids := uint64(binary.LittleEndian.Uint16(b[10:])), b[pageHeader:]
	if count == 0xffff {
		count, ids = binary.LittleEndian.Uint64(ids), ids[8:]
	}
	if binary.LittleEndian.Uint16(b[8:]) != freePage || count > uint64(len(ids)/8) {
		return wrong(id, "it is no list of free pages")
	}
	for range count {
		n := binary.LittleEndian.Uint64(ids)
		if ids = ids[8:]; n >= t.end || t.seen[n] {
			return wrong(n, "it is free and in use")
		}
		t.seen[n] = true
	}
	return nil
}
