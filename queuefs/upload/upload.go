// Package upload has the payload of a job on its way: hashed once, in memory up to a
// limit, and above the limit in a temporary file. It knows no queue and no journal:
// committing or removing the file is the work of the caller.
package upload

import (
	"bytes"
	"crypto/sha256"
	"hash"
	"io"
	"slices"
	"sync"

	"cutie/queuefs/buffers"
	"cutie/queuefs/digest"
	"cutie/queuefs/durable"
)

// A Budget limits the memory for payloads committed together. It is for one goroutine.
type Budget struct {
	Inline int                            // most bytes of one payload in memory
	Free   int                            // bytes of payloads still allowed in memory
	Spool  func() (*durable.Spool, error) // makes a temporary file
	// Memory has the bytes for payloads in memory and for the buffer of a file. nil
	// allows all that Inline and Free allow.
	Memory *buffers.Account

	begun int  // uploads
	spool bool // the buffer of a file was taken from Memory; there is one at a time
}

// small is how much of a single payload is not worth an account.
const small = 4 << 10

// hold takes n bytes for the payload in memory, all together.
func (u *Upload) hold(n int) error {
	if n <= u.held || n <= small && u.budget.begun == 1 {
		return nil
	}
	if err := u.budget.Memory.Take(n - u.held); err != nil {
		return err
	}
	u.held = n
	return nil
}

// toFile takes the buffer of a file in place of the payload in memory.
func (u *Upload) toFile() error {
	if !u.budget.spool {
		if err := u.budget.Memory.Take(durable.SpoolMemory); err != nil {
			return err
		}
		u.budget.spool = true
	}
	u.budget.Memory.Give(u.held)
	u.held = 0
	return nil
}

// many is from how many uploads on spare memory of each would add up.
const many = 8

// An Upload is a payload on its way. It is for one goroutine. An error of storage is
// final; see Err.
type Upload struct {
	budget *Budget
	sums   *sums
	hashed bool
	buf    []byte
	file   *durable.Spool
	size   int64
	held   int // bytes taken from Memory
	err    error
}

// New begins an upload. Call Close in the end.
func New(b *Budget) *Upload {
	u := new(Upload)
	u.Begin(b)
	return u
}

// Begin is New in the place of the zero value.
func (u *Upload) Begin(b *Budget) {
	b.begun++
	u.budget, u.sums = b, newSums()
	u.buf = u.sums.buf[:0]
}

// InFile begins an upload straight to a file, whatever its size. Call Close in the end.
func InFile(spool func() (*durable.Spool, error)) (*Upload, error) {
	f, err := spool()
	if err != nil {
		return nil, err
	}
	u := New(&Budget{Spool: spool})
	u.file = f
	return u, nil
}

// Hash has further digests computed beside the SHA-256. Calls after the first one
// change nothing.
func (u *Upload) Hash(kinds func() []digest.Type) {
	if !u.hashed {
		u.hashed = true
		u.sums.add(kinds())
	}
}

// Err returns the error of storage that has ended the upload, as it came.
func (u *Upload) Err() error { return u.err }

// Size returns the octets so far.
func (u *Upload) Size() int64 { return u.size }

// Data returns the payload in memory, without octets if it is in a file.
func (u *Upload) Data() []byte { return u.buf }

// Temp returns the name of the temporary file, "" if there is none.
func (u *Upload) Temp() string {
	if u.file == nil {
		return ""
	}
	return u.file.Name()
}

// Named says that the temporary file has another name now.
func (u *Upload) Named(name string) { u.file.Named(name) }

// Write adds to the payload.
func (u *Upload) Write(p []byte) (int, error) {
	if u.err != nil {
		return 0, u.err
	}
	if u.file == nil && len(p) > u.spare() {
		if err := u.toFile(); err != nil {
			return 0, err
		}
		if u.err = u.spill(); u.err != nil {
			return 0, u.err
		}
	}
	if u.file == nil {
		if err := u.hold(len(u.buf) + len(p)); err != nil {
			return 0, err
		}
	}
	if u.file != nil {
		if _, u.err = u.file.Write(p); u.err != nil {
			return 0, u.err
		}
	} else {
		u.buf = append(u.buf, p...)
		u.budget.Free -= len(p)
	}
	u.count(p)
	return len(p), nil
}

// ReadFrom adds the rest of src to the payload, read straight into its buffer and
// hashed in large pieces. An error of src leaves Err as it is.
func (u *Upload) ReadFrom(src io.Reader) (int64, error) {
	if u.err != nil {
		return 0, u.err
	}
	before := u.size
	more, err := true, error(nil)
	if u.file == nil {
		more, err = u.readInline(src)
	}
	for more && err == nil {
		more, err = u.readPiece(src)
	}
	return u.size - before, err
}

// scratches are first buffers: most payloads fit.
var scratches = sync.Pool{New: func() any { return new([4 << 10]byte) }}

// readInline reads src into memory, up to the limit. With more to come it moves
// the payload to a file and returns true.
func (u *Upload) readInline(src io.Reader) (more bool, err error) {
	start := len(u.buf)
	most := start + u.spare()
	scratch := scratches.Get().(*[4 << 10]byte)
	n, err := readFull(src, scratch[:min(len(scratch), most-start+1)])
	u.buf = append(u.buf, scratch[:n]...)
	scratches.Put(scratch)
	if err := u.hold(len(u.buf)); err != nil {
		return false, err
	}
	for err == nil && len(u.buf) <= most { // one byte more shows that it is too much
		if len(u.buf) == cap(u.buf) {
			u.buf = slices.Grow(u.buf, min(max(16<<10, len(u.buf)), most+1-len(u.buf)))
		}
		window := min(cap(u.buf), most+1)
		if err := u.hold(window); err != nil {
			return false, err
		}
		n, err = src.Read(u.buf[len(u.buf):window])
		u.buf = u.buf[:len(u.buf)+n]
	}
	piece := u.buf[start:]
	if u.count(piece); len(u.buf) > most {
		u.buf = u.buf[:start]
		if err := u.toFile(); err != nil {
			return false, err
		}
		if u.err = u.spill(); u.err != nil {
			return false, u.err
		}
		if _, u.err = u.file.Write(piece); u.err != nil {
			return false, u.err
		}
	} else {
		u.budget.Free -= len(piece)
	}
	if err == io.EOF {
		return false, nil
	}
	return true, err
}

// readPiece fills the buffer of the file from src, and reports whether more is to
// come.
func (u *Upload) readPiece(src io.Reader) (more bool, err error) {
	room, err := u.file.Room()
	if err != nil {
		u.err = err
		return false, err
	}
	n, err := readFull(src, room)
	u.file.Filled(n)
	u.count(room[:n])
	if err == io.EOF {
		return false, nil
	}
	return true, err
}

// readFull fills p from src. Unlike [io.ReadFull] it returns the error of src,
// because io.ErrUnexpectedEOF is the error of a connection cut off.
func readFull(src io.Reader, p []byte) (n int, err error) {
	for err == nil && n < len(p) {
		var k int
		k, err = src.Read(p[n:])
		n += k
	}
	return n, err
}

// spare returns the bytes still free in memory.
func (u *Upload) spare() int {
	return max(0, min(u.budget.Inline-len(u.buf), u.budget.Free))
}

// count counts and hashes bytes of the payload.
func (u *Upload) count(p []byte) {
	u.size += int64(len(p))
	u.sums.write(p)
}

// spill moves the payload to a temporary file.
func (u *Upload) spill() error {
	f, err := u.budget.Spool()
	if err != nil {
		return err
	}
	u.file = f
	if _, err := f.Write(u.buf); err != nil {
		return err
	}
	u.budget.Free += len(u.buf)
	u.buf = u.buf[:0]
	if u.budget.begun > many {
		u.buf, u.sums.buf = nil, nil
	}
	return nil
}

// End gives back unused memory at the end of the payload, also spare capacity if
// there are many uploads.
func (u *Upload) End() error {
	if u.file != nil {
		return u.file.Park()
	}
	if u.budget.begun > many && cap(u.buf) > 2*len(u.buf) {
		u.buf, u.sums.buf = slices.Clone(u.buf), nil
	}
	return nil
}

// Move puts the complete upload under another budget, with no more memory than it
// needs.
func (u *Upload) Move(to *Budget) error {
	if u.file == nil && len(u.buf) > to.Free {
		if u.err = u.spill(); u.err != nil {
			return u.err
		}
	}
	if u.file != nil {
		if err := u.file.Park(); err != nil {
			return err
		}
		u.buf = nil
	} else {
		u.buf = slices.Clone(u.buf)
		to.Free -= len(u.buf)
	}
	u.budget.Memory.Give(u.held)
	u.held = 0
	u.sums.buf = nil // it has room for more than is in it, and stays for long
	u.budget = to
	return nil
}

// Reader returns a reader of the payload so far, for use before Close.
func (u *Upload) Reader() (io.Reader, error) {
	switch {
	case u.err != nil:
		return nil, u.err
	case u.file == nil:
		return bytes.NewReader(u.buf), nil
	}
	f, err := u.file.File()
	if err != nil {
		return nil, err
	}
	return io.NewSectionReader(f, 0, u.size), nil
}

// Uncache has the next reading of the file, which was synced, be one of the disk, if the
// system can.
func (u *Upload) Uncache() {
	if f, err := u.file.File(); err == nil {
		durable.Uncache(f, 0, u.size)
	}
}

// Park gives back the descriptor of the file until it is read or synced.
func (u *Upload) Park() error { return u.file.Park() }

// Sync puts the contents of the file on stable storage.
func (u *Upload) Sync() error { return u.file.Sync() }

// maxKept is the largest buffer kept for the next upload.
const maxKept = 256 << 10

// Close gives back the memory and closes the file, which stays where it is.
func (u *Upload) Close() {
	if u.file != nil {
		u.file.Close()
	}
	if cap(u.buf) <= maxKept {
		u.sums.buf = u.buf[:0]
	}
	u.sums.free()
	u.sums, u.buf = nil, nil
}

// sums are the digests of a payload, computed on the way. The SHA-256 and the buffer
// are reused for other uploads.
type sums struct {
	sha  hash.Hash
	more []sum // beside SHA-256
	buf  []byte
}

type sum struct {
	digest.Type
	hash.Hash
}

var sumsPool = sync.Pool{New: func() any { return &sums{sha: sha256.New()} }}

func newSums() *sums {
	s := sumsPool.Get().(*sums)
	s.sha.Reset()
	return s
}

func (s *sums) free() {
	s.more = nil
	sumsPool.Put(s)
}

func (s *sums) add(kinds []digest.Type) {
	for _, t := range kinds {
		s.more = append(s.more, sum{t, t.New()})
	}
}

func (s *sums) write(p []byte) {
	s.sha.Write(p)
	for _, x := range s.more {
		x.Write(p)
	}
}

// SHA256 returns the digest of the payload so far.
func (u *Upload) SHA256() (sum [sha256.Size]byte) {
	u.sums.sha.Sum(sum[:0])
	return sum
}

// Digests returns the digests of the payload: the SHA-256, then those of kinds. The
// error is [digest.ErrMismatch] if one of expect, all of them of these kinds, is
// another.
func (u *Upload) Digests(kinds []digest.Type, expect []digest.Value) ([]digest.Value, error) {
	sha := u.SHA256()
	all := append(make([]digest.Value, 0, 1+len(kinds)), digest.NewValue(digest.SHA256, sha[:]))
	for _, t := range kinds {
		v, err := u.digest(t)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	for _, want := range expect {
		i := slices.IndexFunc(all, func(v digest.Value) bool { return v.Type == want.Type })
		if err := want.Check(all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// digest returns a digest computed on the way, or else computes it now.
func (u *Upload) digest(t digest.Type) (digest.Value, error) {
	for _, x := range u.sums.more {
		if x.Type == t {
			return digest.NewValue(t, x.Sum(nil)), nil
		}
	}
	h := t.New()
	r, err := u.Reader()
	if err == nil {
		_, err = io.Copy(h, r)
	}
	return digest.NewValue(t, h.Sum(nil)), err
}
