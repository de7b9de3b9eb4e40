package index

import (
	"encoding/binary"

	"cutie/queuefs/job"
)

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
