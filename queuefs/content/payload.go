package content

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"sync"

	"golang.org/x/sys/unix"

	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/tree"
)

// Payload opens the payload of a job of any status.
func (r *Reader) Payload(id job.ID) (*tree.Payload, error) {
	for range tries {
		v, ok := r.Ledger.View(id)
		if !ok {
			return nil, r.Ledger.NoJob()
		}
		p, err := r.payloadOf(id, &v)
		if err == nil {
			return p, nil
		}
		if !moved(err) {
			return nil, err
		}
		brought, e := r.bringPayload(id, &v)
		if e != nil {
			return nil, failure("payload", id, e)
		}
		if w, ok := r.Ledger.View(id); ok && w == v && !brought {
			return nil, err
		}
	}
	return nil, fmt.Errorf("payload of %s does not hold still", id)
}

// bringPayload brings a payload that the directory lacks.
func (r *Reader) bringPayload(id job.ID, v *ledger.View) (bool, error) {
	if brought, err := r.bring(id); brought || err != nil || r.Far == nil || v.Size <= Inline {
		return brought, err
	}
	return r.Far.Payload(id, v.SHA256)
}

// payloadOf opens a payload: a small one in memory, a large one in its file.
func (r *Reader) payloadOf(id job.ID, v *ledger.View) (*tree.Payload, error) {
	size := v.Size
	if size > Inline {
		f, err := r.Tree.OpenPayload(id, v.Temp)
		if err != nil {
			return nil, failure("payload", id, err)
		}
		if st, e := f.Stat(); e != nil || st.Size() != size {
			f.Close()
			if e != nil {
				return nil, failure("payload", id, e)
			}
			return nil, fmt.Errorf("payload of %s has %d octets instead of %d", id, st.Size(), size)
		}
		return tree.PayloadIn(f, size), nil
	}
	var data []byte
	var err error
	if v.Journaled.Payload != 0 {
		data, err = r.Ledger.Payload(v)
	} else {
		data, err = r.Tree.ReadPayload(id, v.Temp, make([]byte, 0, size+512), Inline)
	}
	switch {
	case err != nil:
		return nil, failure("payload", id, err)
	case int64(len(data)) != size:
		return nil, fmt.Errorf("payload of %s has %d octets instead of %d", id, len(data), size)
	}
	return tree.PayloadOf(data), nil
}

// Find looks, without reading, for the payload of a job in its original length. One in
// the journal or a pack is not looked for.
func (r *Reader) Find(id job.ID) error {
	for range tries {
		v, ok := r.Ledger.View(id)
		if !ok {
			return r.Ledger.NoJob()
		}
		if v.Journaled.Payload != 0 || r.Packs.Find(id).Matches(&v.Job) {
			return nil
		}
		st, err := r.Tree.StatPayload(id, v.Temp)
		switch {
		case err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG:
			return fmt.Errorf("payload of %v is not a regular file", id)
		case err == nil && st.Size != v.Size:
			return fmt.Errorf("payload of %v has %d octets instead of %d", id, st.Size, v.Size)
		case err == nil:
			return nil
		case !errors.Is(err, fs.ErrNotExist):
			return failure("payload", id, err)
		}
		brought, e := r.bringPayload(id, &v)
		if e != nil {
			return failure("payload", id, e)
		}
		if w, ok := r.Ledger.View(id); ok && w == v && !brought {
			return fmt.Errorf("payload of %v: %w", id, err)
		}
	}
	return fmt.Errorf("payload of %v does not hold still", id)
}

// Verify reads the payload of a job and compares it with the digest in the index.
func (r *Reader) Verify(id job.ID) error {
	v, ok := r.Ledger.View(id)
	if !ok {
		return ledger.ErrNoJob
	}
	p, err := r.Payload(id)
	if err != nil {
		return err
	}
	defer p.Close()
	d := digests.Get().(*digester)
	defer digests.Put(d)
	d.Reset()
	// Through the page cache: the consumer reads it again at once.
	if _, err := io.CopyBuffer(d, struct{ io.Reader }{p}, d.buf[:]); err != nil {
		return failure("payload", id, err)
	}
	if [32]byte(d.Sum(d.sum[:0])) != v.SHA256 {
		return fmt.Errorf("payload of %v has not its SHA-256 digest", id)
	}
	return nil
}

// A digester hashes payloads, one at a time.
type digester struct {
	hash.Hash
	sum [sha256.Size]byte
	buf [16 << 10]byte
}

var digests = sync.Pool{New: func() any { return &digester{Hash: sha256.New()} }}

// Sound is why a job is not to be handed out, nil if it is. A payload in a file that is
// shorter than [VerifiedBelow], and with all every payload, is read and compared with the
// digest in the index. Of the others the length is looked at; one in the journal was written
// a moment ago, and one in a pack is read from there.
func (r *Reader) Sound(id job.ID, all bool) error {
	if v, ok := r.Ledger.View(id); ok && (all || v.Size < VerifiedBelow && v.Journaled.Payload == 0 && !r.Packs.Find(id).Matches(&v.Job)) {
		return r.Verify(id)
	}
	return r.Find(id)
}

// VerifiedBelow is the length of the payloads that are not compared with their digest when
// they are handed out, unless their queue wants it: to read and hash a shorter one costs
// little beside handing it out.
const VerifiedBelow = 1 << 20
