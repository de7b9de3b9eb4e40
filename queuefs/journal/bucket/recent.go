package bucket

import (
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"sync"

	"cutie/queuefs/durable"
	"cutie/queuefs/journal"
)

const (
	chunks     = 32       // files at most
	leastKnown = 16       // batches known without asking the store, at least
	perBatch   = 32 << 10 // bytes of files for each of more such batches
)

// recent are batches to be read soon: those of records whose files are still to be
// written. Their bytes are in temporary files without names, and only spare requests.
type recent struct {
	temp *durable.Dir // nil: there are no such files
	most int64        // bytes of all files

	mu      sync.RWMutex
	entries []entry // by number, with gaps
	chunks  []*chunk
	held    int64 // bytes of the batches
}

// An entry is a batch with the offsets of its records.
type entry struct {
	number uint64
	first  journal.LSN
	size   int
	own    digest
	at     []uint32
	chunk  *chunk // nil: the bytes are in the store alone
	start  int64  // in the chunk
}

func (e *entry) after() journal.LSN { return e.first + journal.LSN(len(e.at)) }

type chunk struct {
	f    *os.File
	size int64
}

// add adds a batch, unless it is there.
func (r *recent) add(h *header, at []uint32, buf []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, there := r.place(h.number)
	if there {
		return
	}
	e := entry{number: h.number, first: h.first, size: len(buf), own: h.own, at: at}
	if h.count > 0 {
		e.chunk, e.start = r.write(buf)
	}
	r.entries = slices.Insert(r.entries, i, e)
	r.held += int64(len(buf))
	if most := max(leastKnown, int(r.most/perBatch)); len(r.entries) > most {
		r.drop(most / 8)
	}
}

// place returns where the batch is, or would be; mu is held.
func (r *recent) place(number uint64) (int, bool) {
	return slices.BinarySearchFunc(r.entries, number, func(e entry, n uint64) int {
		switch {
		case e.number < n:
			return -1
		case e.number > n:
			return 1
		}
		return 0
	})
}

// write puts the bytes of a batch into a file. Without space there they stay in the store
// alone.
func (r *recent) write(buf []byte) (*chunk, int64) {
	if r.temp == nil {
		return nil, 0
	}
	if n := len(r.chunks); n == 0 || r.chunks[n-1].size >= r.most/chunks {
		f, name, err := r.temp.Temp()
		if err != nil {
			return nil, 0
		}
		if err := r.temp.Remove(name); err != nil {
			f.Close()
			return nil, 0
		}
		r.chunks = append(r.chunks, &chunk{f: f})
		if n == chunks {
			r.dropChunk()
		}
	}
	c := r.chunks[len(r.chunks)-1]
	start := c.size
	if _, err := c.f.WriteAt(buf, start); err != nil {
		return nil, 0
	}
	c.size += int64(len(buf))
	return c, start
}

// dropChunk lets go of the oldest file.
func (r *recent) dropChunk() {
	old := r.chunks[0]
	r.chunks = slices.Delete(r.chunks, 0, 1)
	for i := range r.entries {
		if r.entries[i].chunk == old {
			r.entries[i].chunk = nil
		}
	}
	old.f.Close()
}

// drop lets go of the n oldest batches.
func (r *recent) drop(n int) {
	for i := range r.entries[:n] {
		r.held -= int64(r.entries[i].size)
	}
	r.entries = slices.Delete(r.entries, 0, n)
	for len(r.chunks) > 1 && !slices.ContainsFunc(r.entries, func(e entry) bool { return e.chunk == r.chunks[0] }) {
		r.dropChunk()
	}
}

// release lets go of batches before a number.
func (r *recent) release(number uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, _ := r.place(number)
	r.drop(i)
}

// find returns the batch with a record. Without it low and high bound the numbers of
// batches to look at in the store, from those given.
func (r *recent) find(at journal.LSN, low, high uint64) (e entry, ok bool, _, _ uint64) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	i, _ := slices.BinarySearchFunc(r.entries, at, func(e entry, at journal.LSN) int {
		if e.after() > at {
			return 1
		}
		return -1
	})
	if i < len(r.entries) {
		if e := r.entries[i]; e.first <= at {
			return e, true, low, high
		}
		high = min(high, r.entries[i].number)
	}
	if i > 0 {
		low = max(low, r.entries[i-1].number+1)
	}
	return e, false, low, high
}

// errNotHere: the bytes are in the store alone.
var errNotHere = errors.New("batch is not here")

// entry returns a batch, if all of it is here.
func (r *recent) entry(number uint64) (e entry, here bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	i, there := r.place(number)
	if !there {
		return e, false
	}
	e = r.entries[i]
	return e, e.chunk != nil || len(e.at) == 0
}

// pieceSize is how many bytes of records are read at a time, if they are not larger.
const pieceSize = 256 << 10

// records yields the records of the batch from a number on. It returns the number after
// the last one that could be read, and whether more are wanted.
func (e *entry) records(from journal.LSN, yield func(journal.Record, error) bool) (read journal.LSN, more bool) {
	i := 0
	if from > e.first {
		i = int(min(from, e.after()) - e.first)
	}
	var piece []byte
	for i < len(e.at) {
		start, last := int(e.at[i])-recHeader, i+1
		for last < len(e.at) && e.end(last)-start <= pieceSize {
			last++
		}
		if n := e.end(last-1) - start; n > cap(piece) {
			piece = make([]byte, n)
		} else {
			piece = piece[:n]
		}
		if _, err := e.chunk.f.ReadAt(piece, e.start+int64(start)); err != nil {
			return e.first + journal.LSN(i), true
		}
		for ; i < last; i++ {
			if !yield(journal.Record{LSN: e.first + journal.LSN(i), Data: recordAt(piece, e.at[i]-uint32(start))}, nil) {
				return 0, false
			}
		}
	}
	return max(from, e.after()), true
}

// end returns where record i ends.
func (e *entry) end(i int) int {
	if i+1 < len(e.at) {
		return int(e.at[i+1]) - recHeader
	}
	return e.size
}

// readAt reads record i of the batch from the offset off into p.
func (e *entry) readAt(p []byte, i, off int) (int, error) {
	if e.chunk == nil {
		return 0, errNotHere
	}
	end := e.end(i)
	start := min(int(e.at[i])+off, end)
	n, err := e.chunk.f.ReadAt(p[:min(len(p), end-start)], e.start+int64(start))
	if err != nil {
		return 0, errNotHere
	}
	return n, nil
}

// heldBytes returns the bytes of the batches known.
func (r *recent) heldBytes() int64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.held
}

func (r *recent) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, c := range r.chunks {
		errs = append(errs, c.f.Close())
	}
	r.chunks, r.entries = nil, nil
	return errors.Join(errs...)
}

// add adds a record to the bytes of a batch.
func addRecord(buf []byte, c *journal.Contents) []byte {
	buf = binary.LittleEndian.AppendUint32(buf, uint32(c.Size()))
	return append(append(buf, c.Head...), c.Body...)
}
