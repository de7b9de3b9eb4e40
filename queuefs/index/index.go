// Package index is the memory of a queue: in 96 bytes a job, 112 with MD5, with counts,
// the head of the queue and the last numbers.
//
// A job is changed by [Index.Apply] alone. Normal running calls it for a record on
// stable storage, a start calls it for the same record again. A [Change] has the
// whole new state of its job, so that it can be applied twice, or over a later
// state.
//
// Beside its jobs an Index has notes for its owner, never on disk: claims of
// operations, and the progress of the files of a job.
//
// Jobs stand in pages of [PageJobs] numbers. A page is 96 kilobytes of memory outside
// the garbage collector, less on the heap as long as only its first 2, 8, 32 or 128
// numbers are used, and none without jobs. [Index.AppendPage] writes a page for
// the disk, and [Index.LoadPage] reads it:
//
//	magic "CUTIEPG2" | crc u32 | parts u32 | version u64 | time µs i64 | slots | MD5s | keys | ends of holds, µs i64
//
// The checksum covers the name of the page, so that swapped pages do not verify.
// Slots are left out without jobs, MD5s and keys unless one is known, ends of holds
// unless there is one. The bits of parts say whether there are keys (1) and ends of
// holds (2), and the upper half how many slots there are, 0 for all; the checksum covers
// them unless they are 0. A slot:
//
//	0 status, outcome and marks   8 size of payload   32 SHA-256 of payload
//	1 marks                      16 submitted, µs     64 SHA-256 of job file
//	2 media type, by number      24 last change, µs
//	4 length of job file
//
// An Index has no clock, no files and no lock: its owner has.
package index

import (
	"encoding/binary"
	"iter"
	"slices"
	"strings"

	"cutie/queuefs/anvl"
	"cutie/queuefs/digest"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
)

// PageJobs is how many job numbers a page covers: page p has the jobs p*PageJobs to
// (p+1)*PageJobs-1.
const PageJobs = 1024

// FiledUnknown is the place of a job file after a replay: look everywhere.
const FiledUnknown job.Status = 7

// A Standing is the state of a job, without its data.
type Standing struct {
	Status   job.Status // 0: it was culled
	Outcome  job.Outcome
	Held     bool // pending, and passed over
	Leased   bool // consumed, and its consumer has a lease
	Results  bool // there are some
	Retained bool // the job file has a retention
	Keyed    bool // consumed by a request with a key
}

// A Change is the whole new state of a job, from one record.
type Change struct {
	Standing
	Kind       job.Kind
	Job        job.ID
	Seq        job.Seq
	Time       int64 // µs
	LeaseEnds  int64 // µs; 0: unknown, or there is none
	Destroy    int64 // µs, of destruction; 0: unknown, or never
	HoldEnds   int64 // µs; 0: it does not end by itself, or there is none
	FileLength int   // octets of the job file
	Size       int64 // octets of the payload
	Submitted  int64 // µs
	SHA256     [32]byte
	MD5        [16]byte   // zero: unknown
	Key        job.KeySum // of its submission
	FileSHA256 [32]byte
	MediaType  string
	At         journal.LSN // of the record; 0: the files have the change
	Inline     bool        // the record has the payload
	Replayed   bool        // the files of the job may be in any state
}

// A Job is all knowledge of a job. It can be compared.
type Job struct {
	Standing
	Claimed      bool       // an operation on the job is on its way to the journal
	Behind       bool       // the files are behind the journal,
	Journaled    Place      // where the parts are then
	Filed        job.Status // where the job file stands; 0: nowhere
	PayloadFiled bool
	FileLength   int   // octets of the job file
	Size         int64 // octets of the payload
	Submitted    int64 // µs
	Changed      int64 // µs, of the last change
	HoldEnds     int64 // µs; 0: it does not end by itself, or there is none
	SHA256       [32]byte
	MD5          [16]byte // zero: unknown
	FileSHA256   [32]byte
	MediaType    string
}

// Counts are numbers of jobs.
type Counts struct {
	Status               [job.Deleted + 1]int64 // [0] is unused
	Available            int64                  // pending, not on hold and not claimed
	Held, Leased, Failed int64
	Retained             int64 // with a retention in the job file
}

// Total returns the number of jobs.
func (c *Counts) Total() int64 { return c.Status[1] + c.Status[2] + c.Status[3] }

// Processed returns the number of jobs consumed, without a lease, or deleted.
func (c *Counts) Processed() int64 {
	return c.Status[job.Consumed] + c.Status[job.Deleted] - c.Leased
}

// An Index is the memory of a queue. Make one with [New].
type Index struct {
	Counts       Counts    // to be read
	Flow         Flow      // likewise
	Leases       Deadlines // ends of leases, as far as known
	Destructions Deadlines // destructions of jobs, likewise
	Holds        Deadlines // ends of holds
	Tombstones   Tombstones
	LastSubmit   int64 // µs, of the last submission; 0: never
	LastConsume  int64 // µs, of the last consumption
	History      History
	Info         [32]byte // SHA-256 of queue-info.txt in its last event; zero: unknown
	Changed      bool     // since the owner last cleared it

	vacates bool // pages may have become vacant

	queue  string
	pages  []*page // nil: without jobs
	places places
	head   job.ID // all available jobs are from here on
	types  *types
	last   Numbers
	minted Numbers               // with those on their way to the journal
	stays  int64                 // µs: no processed job changed before
	keys   map[job.KeySum]job.ID // jobs by the keys of their submissions; nil without any
}

// New returns an index without jobs of a queue.
func New(queue string) *Index {
	return &Index{queue: queue, head: 1, types: noTypes}
}

// Apply takes a change in, and returns the former knowledge of its job.
func (x *Index) Apply(c *Change) (before Job) {
	p := x.grow(c.Job)
	i := int(c.Job % PageJobs)
	s := p.slot(i)
	before = s.job()
	if s.available() {
		x.count(p, -1)
	}
	x.tally(p, s, -1)
	s.stand(&c.Standing)
	x.tally(p, s, 1)
	x.Flow.add(&before, &c.Standing)
	x.regain(p, s, c.Job)
	s.fill(c, x.typeNumber(c.MediaType))
	p.setMD5(i, c.MD5)
	x.setKey(p, c.Job, c.Key)
	if c.Replayed {
		if c.Kind == job.Submit {
			s.clear(markPayload)
		}
		s.setFiled(FiledUnknown)
	}
	if c.At != 0 {
		s.set(markBehind)
		to := x.places.of(c.Job)
		if to.File = c.At; c.Inline {
			to.Payload = c.At
		}
		if x.places == nil {
			x.places = places{}
		}
		x.places.put(c.Job, to)
	}
	p.version, p.at, p.changed = max(p.version, c.Seq), max(p.at, c.Time), true
	x.Changed = true
	x.Leases.Set(c.Job, c.LeaseEnds)
	x.Destructions.Set(c.Job, c.Destroy)
	x.Holds.Set(c.Job, c.HoldEnds)
	switch c.Kind {
	case job.Submit:
		x.LastSubmit = max(x.LastSubmit, c.Time)
	case job.Consume:
		x.LastConsume = max(x.LastConsume, c.Time)
	case job.Cull:
		x.Tombstones.add(Tombstone{Job: c.Job, Culled: c.Time, Seq: c.Seq})
		x.vacates = true
	}
	x.Reach(Numbers{c.Job, c.Seq, c.Time})
	return before
}

// Version returns the last change of the page of a job.
func (x *Index) Version(id job.ID) job.Seq {
	if p := x.page(id); p != nil {
		return p.version
	}
	return 0
}

// Known is Job for culled jobs too; false if nothing was ever known of the number
// or its neighbours.
func (x *Index) Known(id job.ID) (j Job, ok bool) {
	p := x.page(id)
	if p == nil {
		return j, false
	}
	j = x.job(p, int(id%PageJobs))
	if j.Behind {
		j.Journaled = x.places.of(id)
	}
	if j.Held {
		j.HoldEnds, _ = x.Holds.At(id)
	}
	return j, true
}

// Job returns a job, false if there is none.
func (x *Index) Job(id job.ID) (Job, bool) {
	if s := x.slot(id); s == nil || s.status() == 0 {
		return Job{}, false
	}
	return x.Known(id)
}

func (x *Index) job(p *page, i int) Job {
	j := p.slot(i).job()
	j.MD5, j.MediaType = p.md5(i), x.types.names[p.slot(i).mediaType()]
	return j
}

// Status returns the status and the last change, in µs, of a job; zeros if there is
// none.
func (x *Index) Status(id job.ID) (job.Status, int64) {
	if s := x.slot(id); s != nil && s.status() != 0 {
		return s.status(), s.changed()
	}
	return 0, 0
}

// slot returns the slot of a job number, nil without memory for it.
func (x *Index) slot(id job.ID) slot {
	if p := x.page(id); p != nil && int(id%PageJobs) < p.size() {
		return p.slot(int(id % PageJobs))
	}
	return nil
}

func (x *Index) page(id job.ID) *page { return x.pageAt(int(id / PageJobs)) }

// pageAt returns page n, nil without one.
func (x *Index) pageAt(n int) *page {
	if n < 0 || n >= len(x.pages) {
		return nil
	}
	return x.pages[n]
}

// grow returns the page of a job with memory for it, making it if need be.
func (x *Index) grow(id job.ID) *page {
	n := int(id / PageJobs)
	for n >= len(x.pages) {
		x.pages = append(x.pages, nil)
	}
	if x.pages[n] == nil {
		x.pages[n] = &page{}
	}
	x.pages[n].extend(int(id % PageJobs))
	return x.pages[n]
}

// Timed reports whether some job has a deadline, or may have one in its job file.
func (x *Index) Timed() bool {
	return x.Counts.Leased+x.Counts.Held+x.Counts.Retained > 0 ||
		len(x.Leases.all())+len(x.Holds.all())+len(x.Destructions.all()) > 0
}

// count adds an available job of the page, or with n -1 takes it out.
func (x *Index) count(p *page, n int) {
	p.avail += int16(n)
	x.Counts.Available += int64(n)
}

// tally adds the job to the counts, or with n -1 takes it out.
func (x *Index) tally(p *page, s slot, n int) {
	st := s.status()
	if st == 0 {
		return
	}
	p.count[st] += int16(n)
	c := &x.Counts
	c.Status[st] += int64(n)
	if s.has(markHeld) {
		c.Held += int64(n)
	}
	if s.has(markLeased) {
		c.Leased += int64(n)
	}
	if s[0]&slotRetained != 0 {
		c.Retained += int64(n)
	}
	if s.outcome() == job.Failed {
		c.Failed += int64(n)
	}
}

// regain adds the job to the available ones if it is.
func (x *Index) regain(p *page, s slot, id job.ID) {
	if s.available() {
		x.count(p, 1)
		x.head = min(x.head, id)
	}
}

// all yields the jobs of a status, 0 for any, from a number on. Pages without jobs
// of the status cost nothing.
func (x *Index) all(from job.ID, st job.Status) iter.Seq2[job.ID, slot] {
	return func(yield func(job.ID, slot) bool) {
		for n := int(from / PageJobs); n < len(x.pages); n++ {
			p := x.pages[n]
			if p == nil || p.vacant() || st != 0 && p.count[st] == 0 {
				continue
			}
			for i := range p.size() {
				id, s := job.ID(n*PageJobs+i), p.slot(i)
				if id < from || s.status() == 0 || st != 0 && s.status() != st {
					continue
				}
				if !yield(id, s) {
					return
				}
			}
		}
	}
}

// Free gives back the memory of the index; it is empty then.
func (x *Index) Free() {
	for _, p := range x.pages {
		if p != nil {
			freeSlots(p.slots)
		}
	}
	x.pages, x.keys = nil, nil
}

// types numbers media types. It tells about 65,000 apart; further ones count as
// unknown. Most queues with few jobs have none.
type types struct {
	names   []string // [0] is ""
	numbers map[string]uint16
}

var noTypes = &types{names: []string{""}}

// typeNumber returns the number of a media type, a new one if need be.
func (x *Index) typeNumber(name string) uint16 {
	if name == "" {
		return 0
	}
	if n, ok := x.types.numbers[name]; ok {
		return n
	}
	if len(x.types.names) > 65000 {
		return 0
	}
	if x.types == noTypes {
		x.types = &types{names: []string{""}, numbers: map[string]uint16{}}
	}
	name = strings.Clone(name) // often a part of a job file
	n := uint16(len(x.types.names))
	x.types.names = append(x.types.names, name)
	x.types.numbers[name] = n
	return n
}

// MediaTypes returns the media types by their numbers in slots; the first is "".
func (x *Index) MediaTypes() []string { return x.types.names }

// SetMediaTypes takes the media types of an earlier index.
func (x *Index) SetMediaTypes(names []string) {
	if x.types = noTypes; len(names) == 1 {
		return
	}
	x.types = &types{names: slices.Clone(names), numbers: map[string]uint16{}}
	for i, t := range names[1:] {
		x.types.numbers[t] = uint16(i + 1)
	}
}

// Numbers are the last ones of a queue. They never go back.
type Numbers struct {
	Job  job.ID
	Seq  job.Seq
	Time int64 // µs
}

// Max returns the higher ones.
func (n Numbers) Max(m Numbers) Numbers {
	return Numbers{max(n.Job, m.Job), max(n.Seq, m.Seq), max(n.Time, m.Time)}
}

// Last returns the numbers of applied changes.
func (x *Index) Last() Numbers { return x.last }

// Minted returns the last numbers given out.
func (x *Index) Minted() Numbers { return x.minted }

// Reach raises the numbers to at least these.
func (x *Index) Reach(n Numbers) { x.last, x.minted = x.last.Max(n), x.minted.Max(n) }

// Mint returns the number and the time of the next change, at the time now of the
// clock. Times grow even when the clock steps back.
func (x *Index) Mint(now int64) (job.Seq, int64) {
	x.minted.Seq++
	x.minted.Time = max(now, x.minted.Time+1)
	return x.minted.Seq, x.minted.Time
}

// MintJob returns the number of the next job, false if all were given out.
func (x *Index) MintJob() (job.ID, bool) {
	if x.minted.Job >= job.MaxID {
		return 0, false
	}
	x.minted.Job++
	return x.minted.Job, true
}

// Unmint takes back the numbers minted after these, which were not used.
func (x *Index) Unmint(to Numbers) { x.minted = to }

// Skip skips the numbers up to these.
func (x *Index) Skip(n Numbers) { x.minted = x.minted.Max(n) }

// A Flow counts changes since the index was made or read, also those of a replay.
// Pending jobs are more by In less Out between two instants.
type Flow struct {
	In     uint64 // became pending: submitted, requeued, or given back
	Out    uint64 // were pending, and are not any more
	Failed uint64 // got this outcome
}

// add counts a change of a job.
func (f *Flow) add(before *Job, after *Standing) {
	was, is := before.Status == job.Pending, after.Status == job.Pending
	switch {
	case is && !was:
		f.In++
	case was && !is:
		f.Out++
	}
	if after.Outcome == job.Failed && before.Outcome != job.Failed {
		f.Failed++
	}
}

// Latest returns jobs of f before one, the last number first; with before 0 it begins
// with the last job of all. It looks at no more jobs than most, and returns the lowest
// one it has looked at, or 0 if no job is before that. The After of f is not used.
func (x *Index) Latest(f Filter, before job.ID, most int) (ids []job.ID, reached job.ID) {
	end := job.ID(len(x.pages)) * PageJobs
	if before == 0 || before > end {
		before = end
	}
	for id := before; id > 0; {
		id--
		n := int(id / PageJobs)
		p := x.pages[n]
		if p == nil || p.vacant() || f.Status != 0 && p.count[f.Status] == 0 {
			id = job.ID(n) * PageJobs
			continue
		}
		s := p.slot(int(id % PageJobs))
		if s.status() == 0 {
			continue
		}
		if most--; most < 0 {
			return ids, id + 1
		}
		if (f.Status == 0 || s.status() == f.Status) && (f.Outcome == 0 || s.outcome() == f.Outcome) && (!f.Held || s.has(markHeld)) {
			if ids = append(ids, id); len(ids) == f.Limit {
				return ids, id
			}
		}
	}
	return ids, 0
}

// The sums of keys stand beside the slots of a page, so that an index is loaded, and a
// culled job forgotten, without its job file. With the map a key takes 25 to 47 bytes; a
// queue without keys has neither.

// JobOf returns the job with the key of the sum; false if there is none. Another key may
// have the same sum.
func (x *Index) JobOf(k job.KeySum) (id job.ID, ok bool) {
	id, ok = x.keys[k]
	return id, ok
}

// Keys returns the number of jobs with keys.
func (x *Index) Keys() int { return len(x.keys) }

// key returns the sum of the key of a job.
func (p *page) key(i int) job.KeySum {
	if p.keys == nil || i >= p.size() {
		return 0
	}
	return job.KeySum(binary.LittleEndian.Uint64(p.keys[i*8:]))
}

// setKey gives a job its key, or with 0 takes it away.
func (x *Index) setKey(p *page, id job.ID, k job.KeySum) {
	i := int(id % PageJobs)
	was := p.key(i)
	if was == k {
		return
	}
	if was != 0 && x.keys[was] == id {
		if delete(x.keys, was); len(x.keys) == 0 {
			x.keys = nil
		}
	}
	if p.keys == nil {
		p.keys = make([]byte, p.size()*keySize)
	}
	binary.LittleEndian.PutUint64(p.keys[i*8:], uint64(k))
	x.addKey(k, id)
}

// addKey takes a key into the map. Of two jobs with one key, made by other hands, the
// first stays.
func (x *Index) addKey(k job.KeySum, id job.ID) {
	if _, taken := x.keys[k]; k == 0 || taken {
		return
	}
	if x.keys == nil {
		x.keys = map[job.KeySum]job.ID{}
	}
	x.keys[k] = id
}

// Restored returns the job as far as the index knows it, for a lost job file. Nobody can
// prove the possession of its lease, so the lease is over.
func (j *Job) Restored(id job.ID) job.Job {
	r := job.Job{ID: id, Status: j.Status, MediaType: j.MediaType, Size: j.Size, Submitted: job.Instant(j.Submitted),
		Digests: []digest.Value{digest.NewValue(digest.SHA256, j.SHA256[:])},
		Extra:   anvl.Record{{Name: "note", Value: job.LostNote}}}
	if j.MD5 != ([16]byte{}) {
		r.Digests = append(r.Digests, digest.NewValue(digest.MD5, j.MD5[:]))
	}
	at := job.Instant(j.Changed)
	switch j.Status {
	case job.Pending:
		if j.Held {
			r.Held = at
			if j.HoldEnds != 0 {
				r.HeldUntil = job.Instant(j.HoldEnds)
			}
		}
	case job.Consumed:
		r.Consumed = at
		if j.Leased {
			r.Lease.Ends = at
		}
	case job.Deleted:
		r.Deleted = at
	}
	if r.Outcome = j.Outcome; r.Outcome != 0 {
		r.Finished = at
	}
	return r
}

// StandingOf returns the standing of a job by its job file.
func StandingOf(j *job.Job) Standing {
	return Standing{Status: j.Status, Outcome: j.Outcome, Held: j.Status == job.Pending && !j.Held.IsZero(),
		Leased: j.Status == job.Consumed && !j.Lease.Ends.IsZero(), Results: len(j.Results) > 0,
		Retained: !j.Destruction.IsZero() || j.Extra.Value(job.RequeuedAs) != "", Keyed: j.ConsumerKey != ""}
}

// SetFiled notes the directory of the job file, also for a job not known yet.
func (x *Index) SetFiled(id job.ID, st job.Status) { x.grow(id).slot(int(id % PageJobs)).setFiled(st) }

// SetPayloadFiled notes a payload file under its name.
func (x *Index) SetPayloadFiled(id job.ID) { x.grow(id).slot(int(id % PageJobs)).set(markPayload) }
