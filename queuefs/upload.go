package queuefs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"sync"
	"time"

	"cutie/queuefs/buffers"
	"cutie/queuefs/digest"
	"cutie/queuefs/durable"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/record"
)

// An Upload is the payload of one job of a [Submission]. Small payloads are kept in
// memory. Payloads above 128 KiB, or beyond the limit of the whole submission, go
// to a temporary file on the way.
type Upload struct {
	payload
	sub  *Submission
	meta job.Meta
	rec  record.Record // see describe

	known bool // the job is in the queue already, by its key
}

// SetMeta replaces the metadata of the job, also after its payload was written.
func (d *Upload) SetMeta(m job.Meta) error {
	if err := m.Check(); err != nil {
		return err
	}
	d.meta = m
	return nil
}

// Meta returns the metadata of the job.
func (d *Upload) Meta() job.Meta { return d.meta }

// Verify compares the complete payload with the digests from the submitter, if the
// queue verifies on write. Commit does so too; the error is [digest.ErrMismatch].
func (d *Upload) Verify() error {
	_, err := d.checked()
	return err
}

// kinds returns the digests beside SHA-256: those of the queue, then others of the
// submitter.
func (d *Upload) kinds() []digest.Type { return further(d.sub.digests.Types(), d.meta.Expect) }

// checked returns the digests of the payload, the SHA-256 first. The error is
// [digest.ErrMismatch] if the submitter gave another one.
func (d *Upload) checked() ([]digest.Value, error) { return d.digests(d.kinds(), d.meta.Expect) }

// describe describes the job in j and in the record of the upload, both without the facts
// of its event.
func (d *Upload) describe(j *job.Job) error {
	digests, err := d.checked()
	if err != nil {
		return err
	}
	m, to := &d.meta, d.sub.to
	if !m.NotBefore.IsZero() && m.NotBefore.UnixMicro() <= to.svc.now() {
		m.NotBefore = time.Time{} // its time has come
	}
	*j = m.Job()
	j.Queue, j.Size, j.Digests = to.ID(), d.size, digests
	d.rec = record.Record{Kind: job.Submit, To: job.Pending, Verify: d.sub.verify, Flags: record.Inline, Temp: d.temp(),
		Payload: record.Payload{Size: j.Size, MediaType: m.MediaType, SHA256: d.sha256(), MD5: j.MD5()}}
	if d.rec.Temp != "" {
		d.rec.Flags = record.InTemp
	}
	return nil
}

// keep puts the temporary file of an upload where the home is, before a record names it.
func (d *Upload) keep(ctx context.Context) error {
	name, err := d.sub.to.svc.stored.Keep(ctx, d.temp(), d.sha256())
	d.file.Named(name)
	d.rec.Temp = name
	return ledger.StorageError(err)
}

var errReadBack = errors.New("the payload was not stored as it came")

// readBack compares the payload with its temporary file, which is synced, on the disk: the
// next reading is one of the disk, if the system can.
func (d *Upload) readBack() error {
	r, err := d.Reader()
	if err != nil {
		return err
	}
	if f, err := d.file.File(); err == nil {
		durable.Uncache(f, 0, d.size)
	}
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return ledger.StorageError(err)
	}
	if [sha256.Size]byte(h.Sum(nil)) != d.sha256() {
		return fmt.Errorf("%s: %w", d.temp(), errReadBack)
	}
	return nil
}

// dropTemp removes a temporary file. After a failed commit the journal may speak of it
// all the same; opening the home settles it.
func (s *Service) dropTemp(temp string) {
	if temp != "" && s.shared.Gate.Err() == nil {
		s.dirs.temp.Remove(temp)
	}
}

// A budget limits the memory for payloads committed together. It is for one goroutine.
type budget struct {
	inline int                            // most bytes of one payload in memory
	free   int                            // bytes of payloads still allowed in memory
	spool  func() (*durable.Spool, error) // makes a temporary file
	// memory has the bytes for payloads in memory and for the buffer of a file. nil
	// allows all that inline and free allow.
	memory *buffers.Account

	begun   int  // payloads
	spooled bool // the buffer of a file was taken from memory; there is one at a time
}

// small is how much of a single payload is not worth an account.
const small = 4 << 10

// hold takes n bytes for the payload in memory, all together.
func (u *payload) hold(n int) error {
	if n <= u.held || n <= small && u.budget.begun == 1 {
		return nil
	}
	if err := u.budget.memory.Take(n - u.held); err != nil {
		return err
	}
	u.held = n
	return nil
}

// toFile moves the payload to a temporary file, with the buffer of the file in place of
// the payload in memory.
func (u *payload) toFile() error {
	if !u.budget.spooled {
		if err := u.budget.memory.Take(durable.SpoolMemory); err != nil {
			return err
		}
		u.budget.spooled = true
	}
	u.budget.memory.Give(u.held)
	u.held = 0
	return u.spill()
}

// spill is toFile without account of the memory.
func (u *payload) spill() error {
	f, err := u.budget.spool()
	if err != nil {
		return u.fail(err)
	}
	u.file = f
	if _, err := f.Write(u.buf); err != nil {
		return u.fail(err)
	}
	u.budget.free += len(u.buf)
	u.buf = u.buf[:0]
	if u.budget.begun > many {
		u.buf, u.sums.buf = nil, nil
	}
	return nil
}

// many is from how many uploads on spare memory of each would add up.
const many = 8

// A payload is the content of a job or of a result on its way: hashed once, in memory up to
// a limit, and above it in a temporary file. Committing or removing the file is the work of
// the caller. An error of storage is final. It is for one goroutine.
type payload struct {
	budget *budget
	sums   *sums // nil after close
	hashed bool
	buf    []byte
	file   *durable.Spool
	size   int64
	held   int // bytes taken from the budget
	err    error
}

// begin makes the zero value ready for use. Call close in the end.
func (u *payload) begin(b *budget) {
	b.begun++
	u.budget, u.sums = b, newSums()
	u.buf = u.sums.buf[:0]
}

// hash has further digests computed beside the SHA-256. Calls after the first one
// change nothing.
func (u *payload) hash(kinds []digest.Type) {
	if !u.hashed {
		u.hashed = true
		u.sums.add(kinds)
	}
}

// fail keeps the error of storage that ends the payload, with its meaning for callers.
func (u *payload) fail(err error) error {
	u.err = ledger.StorageError(err)
	return u.err
}

// usable returns the error of storage that has ended the payload, or errOver.
func (u *payload) usable() error {
	if u.sums == nil {
		return errOver
	}
	return u.err
}

// Size returns the bytes so far.
func (u *payload) Size() int64 { return u.size }

// temp returns the name of the temporary file, "" if there is none.
func (u *payload) temp() string {
	if u.file == nil {
		return ""
	}
	return u.file.Name()
}

// Write adds to the payload.
func (u *payload) Write(p []byte) (int, error) {
	if err := u.usable(); err != nil {
		return 0, err
	}
	if u.file == nil && len(p) > u.spare() {
		if err := u.toFile(); err != nil {
			return 0, err
		}
	}
	if u.file != nil {
		if _, err := u.file.Write(p); err != nil {
			return 0, u.fail(err)
		}
	} else {
		if err := u.hold(len(u.buf) + len(p)); err != nil {
			return 0, err
		}
		u.buf = append(u.buf, p...)
		u.budget.free -= len(p)
	}
	u.count(p)
	return len(p), nil
}

// ReadFrom adds the rest of src to the payload, read straight into its buffer and
// hashed in large pieces. An error of src ends nothing.
func (u *payload) ReadFrom(src io.Reader) (int64, error) {
	if err := u.usable(); err != nil {
		return 0, err
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
func (u *payload) readInline(src io.Reader) (more bool, err error) {
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
		if _, err := u.file.Write(piece); err != nil {
			return false, u.fail(err)
		}
	} else {
		u.budget.free -= len(piece)
	}
	if err == io.EOF {
		return false, nil
	}
	return true, err
}

// readPiece fills the buffer of the file from src, and reports whether more is to
// come.
func (u *payload) readPiece(src io.Reader) (more bool, err error) {
	room, err := u.file.Room()
	if err != nil {
		return false, u.fail(err)
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
func (u *payload) spare() int {
	return max(0, min(u.budget.inline-len(u.buf), u.budget.free))
}

// count counts and hashes bytes of the payload.
func (u *payload) count(p []byte) {
	u.size += int64(len(p))
	u.sums.write(p)
}

// end gives back unused memory at the end of the payload, also spare capacity if
// there are many of them.
func (u *payload) end() error {
	if u.file != nil {
		return u.file.Park()
	}
	if u.budget.begun > many && cap(u.buf) > 2*len(u.buf) {
		u.buf, u.sums.buf = slices.Clone(u.buf), nil
	}
	return nil
}

// move puts the complete payload under another budget, with no more memory than it
// needs.
func (u *payload) move(to *budget) error {
	if u.file == nil && len(u.buf) > to.free {
		if err := u.spill(); err != nil {
			return err
		}
	}
	if u.file != nil {
		if err := u.file.Park(); err != nil {
			return ledger.StorageError(err)
		}
		u.buf = nil
	} else {
		u.buf = slices.Clone(u.buf)
		to.free -= len(u.buf)
	}
	u.budget.memory.Give(u.held)
	u.held = 0
	u.sums.buf = nil // it has room for more than is in it, and stays for long
	u.budget = to
	return nil
}

// Reader returns a reader of the payload so far, for use before the end of the
// submission.
func (u *payload) Reader() (io.Reader, error) {
	if err := u.usable(); err != nil {
		return nil, err
	}
	if u.file == nil {
		return bytes.NewReader(u.buf), nil
	}
	f, err := u.file.File()
	if err != nil {
		return nil, ledger.StorageError(err)
	}
	return io.NewSectionReader(f, 0, u.size), nil
}

// maxKept is the largest buffer kept for the next upload.
const maxKept = 256 << 10

// close gives back the memory and closes the file, which stays where it is.
func (u *payload) close() {
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
	last [sha256.Size]byte // of sha, so that its result takes no allocation
	more []sum             // beside SHA-256
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

// sha256 returns the digest of the payload so far.
func (u *payload) sha256() [sha256.Size]byte {
	u.sums.sha.Sum(u.sums.last[:0])
	return u.sums.last
}

// digests returns the digests of the payload: the SHA-256, then those of kinds. The
// error is [digest.ErrMismatch] if one of expect, all of them of these kinds, is
// another.
func (u *payload) digests(kinds []digest.Type, expect []digest.Value) ([]digest.Value, error) {
	if err := u.usable(); err != nil {
		return nil, err
	}
	sha := u.sha256()
	all := append(make([]digest.Value, 0, 1+len(kinds)), digest.NewValue(digest.SHA256, sha[:]))
	for _, t := range kinds {
		v, err := u.digest(t)
		if err != nil {
			return nil, ledger.StorageError(err)
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
func (u *payload) digest(t digest.Type) (digest.Value, error) {
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

// further returns the kinds of digests that are expected beside SHA-256 and beside kinds,
// behind these.
func further(kinds []digest.Type, expect []digest.Value) []digest.Type {
	for _, e := range expect {
		if e.Type != digest.SHA256 && !slices.Contains(kinds, e.Type) {
			kinds = append(kinds, e.Type)
		}
	}
	return kinds
}
