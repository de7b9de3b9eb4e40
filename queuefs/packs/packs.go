// Package packs keeps copies of waiting jobs for reading ahead, and for packages of them.
//
// A pack is one file with the small pending jobs of one index page, written from
// the journal before the files of the jobs are. In a long queue these files have
// left the page cache when their turn comes, and reading two files for each job
// takes three times as long as one sequential read. Nothing depends on packs: a
// copy counts only if it has the digests in the index. So packs are not synced,
// and an error means that there is none.
package packs

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"cutie/queuefs/durable"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
)

const (
	fewest = index.PageJobs / 8 // pending jobs of a page worth a pack
	ahead  = 3                  // pages in memory: that of the last job taken, and the next
)

// Packs are those of a queue. Its methods are safe for concurrent use.
type Packs struct {
	open func() (*durable.Dir, error) // the directory of the index, closed after each use

	mu     sync.Mutex
	made   map[int]bool // pages with a pack
	next   int          // full pages from here on have none yet
	loaded map[int]map[job.ID]*Copy
	busy   bool // somebody loads
}

// New returns no packs, to be kept in the directory that open opens.
func New(open func() (*durable.Dir, error)) *Packs {
	return &Packs{open: open}
}

// A Copy has the job file and the payload of a job.
type Copy struct {
	Text, Payload       []byte
	textSum, payloadSum [sha256.Size]byte
}

// File returns the job file, if it has this digest; else nil. A nil copy has none.
func (c *Copy) File(sum [sha256.Size]byte) []byte {
	if c == nil || c.textSum != sum {
		return nil
	}
	return c.Text
}

// Data returns the payload, if it has this digest; else nil. A nil copy has none.
func (c *Copy) Data(sum [sha256.Size]byte) []byte {
	if c == nil || c.payloadSum != sum {
		return nil
	}
	return c.Payload
}

// Matches reports whether there is a copy, of a job as it is now.
func (c *Copy) Matches(j *index.Job) bool {
	return c != nil && j.Journaled.File == 0 && c.textSum == j.FileSHA256 && c.payloadSum == j.SHA256
}

// make notes the pack of a page; p.mu is held.
func (p *Packs) make(n int) {
	if p.made == nil {
		p.made = map[int]bool{}
	}
	p.made[n] = true
}

// Find returns the copy of a job in memory, nil without one.
func (p *Packs) Find(id job.ID) *Copy {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.loaded[int(id/index.PageJobs)][id]
}

// A Page has the copies of the jobs of a page, read by [Packs.Page]. Jobs is not nil.
type Page struct {
	Number int
	Jobs   map[job.ID]*Copy
}

// Page reads the pack of page n, with so many pending jobs. For few of them, without a
// pack, or with an unreadable one, the page has no copies.
func (p *Packs) Page(n, pending int) Page {
	p.mu.Lock()
	made := p.made[n]
	p.mu.Unlock()
	if made && pending >= fewest {
		if jobs, err := p.read(n); err == nil {
			return Page{n, jobs}
		}
	}
	return Page{n, map[job.ID]*Copy{}}
}

// Wants reports whether packs should be loaded for the jobs from page n on. Then the
// caller calls Load, and until it returns Wants is false.
func (p *Packs) Wants(n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy || len(p.made) == 0 {
		return false
	}
	p.busy = p.missing(n) >= 0
	return p.busy
}

// missing returns the first page from n on with a pack to load, -1 without one;
// p.mu is held.
func (p *Packs) missing(n int) int {
	for to := n + ahead; n < to; n++ {
		if p.made[n] && p.loaded[n] == nil {
			return n
		}
	}
	return -1
}

// Load loads the packs of page n and the next ones, and gives back the memory of
// others. It ends early when usable returns an error.
func (p *Packs) Load(n int, usable func() error) {
	for m := p.toLoad(n); m >= 0; m = p.toLoad(n) {
		jobs, err := p.read(m)
		p.mu.Lock()
		if err != nil || usable() != nil {
			delete(p.made, m)
		} else {
			if p.loaded == nil {
				p.loaded = map[int]map[job.ID]*Copy{}
			}
			p.loaded[m] = jobs
		}
		p.mu.Unlock()
	}
	p.unload(n, n+ahead)
}

// toLoad is missing; after the last one nobody loads any more.
func (p *Packs) toLoad(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.missing(n)
	if m < 0 {
		p.busy = false
	}
	return m
}

// Unload gives back the memory of all packs.
func (p *Packs) Unload() { p.unload(0, 0) }

// unload gives back the memory of packs, except those of pages from to to-1.
func (p *Packs) unload(from, to int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.loaded, func(n int, _ map[job.ID]*Copy) bool { return n < from || n >= to })
}

// Next returns the first full page without a pack that is worth one, its small pending
// jobs, and about how many bytes they are; -1 if there is none.
func (p *Packs) Next(x *index.Index) (page int, ids []job.ID, bytes int) {
	p.mu.Lock()
	next := p.next
	p.mu.Unlock()
	for n := next; n < min(int((x.Last().Job+1)/index.PageJobs), x.Pages()); n++ {
		if x.Page(n).Pending < fewest {
			continue
		}
		x.EachOf(n, func(id job.ID, j index.Job) {
			if j.Status == job.Pending && j.Size+int64(j.FileLength) <= limit {
				ids = append(ids, id)
				bytes += entry + int(j.Size) + j.FileLength
			}
		})
		if len(ids) > 0 {
			return n, ids, bytes
		}
	}
	return -1, nil, 0
}

// Write writes the pack of page n with jobs of about so many bytes, as far as they fit.
// Next goes on after the page, also after an error. copyOf returns nil for a job without
// a copy.
func (p *Packs) Write(n int, jobs []job.ID, bytes int, copyOf func(job.ID) (*Copy, error)) error {
	err := p.write(n, jobs, bytes, copyOf)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = n + 1
	if err == nil {
		p.make(n)
	}
	return err
}

func (p *Packs) write(n int, jobs []job.ID, bytes int, copyOf func(job.ID) (*Copy, error)) error {
	dir, err := p.open()
	if err != nil {
		return err
	}
	defer dir.Close()
	buf := append(make([]byte, 0, min(bytes, size)+limit), magic...)
	for _, id := range jobs {
		if len(buf) >= size {
			break
		}
		c, err := copyOf(id)
		if err != nil {
			return err
		}
		if c != nil {
			buf = appendCopy(buf, id, c)
		}
	}
	if len(buf) == len(magic) {
		return errNone
	}
	return dir.Renew(fileName(n), buf)
}

// Made returns the pages with a pack.
func (p *Packs) Made() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.made))
}

// Drop removes the packs of pages.
func (p *Packs) Drop(pages []int) {
	p.mu.Lock()
	for _, n := range pages {
		delete(p.made, n)
		delete(p.loaded, n)
	}
	p.mu.Unlock()
	if len(pages) == 0 {
		return
	}
	dir, err := p.open()
	if err != nil {
		return
	}
	defer dir.Close()
	for _, n := range pages {
		_ = dir.Remove(fileName(n)) // without its digests a copy counts for nothing
	}
}

// Scan finds the packs in the directory when a queue is opened, and removes those
// of pages without pending jobs. Pages that were full
// before and have none go without: to make one would read all their files. look shows
// the index.
func (p *Packs) Scan(dir *durable.Dir, look func(func(x *index.Index))) error {
	made := map[int]string{}
	var strange []string
	err := dir.Names(func(name string) {
		if n, ok := parseFileName(name); ok {
			made[n] = name
		}
	})
	p.mu.Lock()
	look(func(x *index.Index) {
		p.next = max(0, x.Pages()-1)
		for n, name := range made {
			if x.Page(n).Pending > 0 {
				p.make(n)
			} else {
				strange = append(strange, name)
			}
		}
	})
	p.mu.Unlock()
	for _, name := range strange {
		if e := dir.Remove(name); !errors.Is(e, fs.ErrNotExist) && !errors.Is(e, unix.EROFS) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// A pack is log/packs/QID/cN, for page N of the index:
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
