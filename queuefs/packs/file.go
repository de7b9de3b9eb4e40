package packs

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"

	"golang.org/x/sys/unix"

	"cutie/queuefs/job"
)

// A pack is log/index/queues/QID/cN, beside the index page N:
//
//	"CUTIEPK2", then of each job: number u32 | text length u32 | payload length u32 | text | payload
const (
	magic = "CUTIEPK2"
	entry = 12
	limit = 8 << 10   // bytes of text and payload of a small job
	size  = 4 << 20   // bytes of a pack, at most about
	step  = 128 << 10 // bytes read at a time: more make syncs of the journal wait
)

var errNone = errors.New("no pack")

func fileName(n int) string { return fmt.Sprintf("c%09d", n) }

func parseFileName(name string) (int, bool) {
	if len(name) != 10 || name[0] != 'c' {
		return 0, false
	}
	n, err := strconv.Atoi(name[1:])
	return n, err == nil && n >= 0 && fileName(n) == name
}

// read reads the pack of page n.
func (p *Packs) read(n int) (map[job.ID]*Copy, error) {
	dir, err := p.open()
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	f, err := dir.Open(fileName(n))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || st.Size() > 2*size {
		return nil, errNone
	}
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM) // see step
	data := make([]byte, st.Size())
	for at := 0; at < len(data); {
		k, err := io.ReadFull(f, data[at:min(at+step, len(data))])
		if err != nil {
			return nil, err
		}
		at += k
	}
	return parse(data)
}

func parse(data []byte) (map[job.ID]*Copy, error) {
	if len(data) < len(magic) || string(data[:len(magic)]) != magic {
		return nil, errNone
	}
	jobs := map[job.ID]*Copy{}
	for data = data[len(magic):]; len(data) > 0; {
		if len(data) < entry {
			return nil, errNone
		}
		le := binary.LittleEndian
		id, text, payload := le.Uint32(data), uint64(le.Uint32(data[4:])), uint64(le.Uint32(data[8:]))
		if data = data[entry:]; text+payload > uint64(len(data)) {
			return nil, errNone
		}
		end := text + payload
		c := &Copy{Text: data[:text:text], Payload: data[text:end:end]}
		c.textSum, c.payloadSum = sha256.Sum256(c.Text), sha256.Sum256(c.Payload)
		jobs[job.ID(id)] = c
		data = data[end:]
	}
	return jobs, nil
}

func appendCopy(dst []byte, id job.ID, c *Copy) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint32(dst, uint32(id))
	dst = le.AppendUint32(dst, uint32(len(c.Text)))
	dst = le.AppendUint32(dst, uint32(len(c.Payload)))
	return append(append(dst, c.Text...), c.Payload...)
}
