package queuefs

import (
	"slices"
	"sync"
	"time"

	"cutie/queuefs/index"
	"cutie/queuefs/job"
)

// keyRemembered is how long a job consumed without a lease is given again for its key.
const keyRemembered = 5 * time.Minute

// mostKeys is how many keys of consumers a queue remembers. Beyond it the key with the
// earliest end is forgotten; about 150 bytes each.
const mostKeys = 1 << 20

// keyTakes are the jobs consumed by requests with keys. They are safe for concurrent use.
// The zero value is ready for use.
type keyTakes struct {
	mu   sync.Mutex
	jobs map[job.KeySum][]take
	ends index.Deadlines // of the keys, by their sums
}

// A take is a consumed job, and its last change that has come in.
type take struct {
	id  job.ID
	seq job.Seq
}

// keyEnds returns until when a consumed job is given again for its key: the end of its
// lease, or [keyRemembered] after its consumption.
func keyEnds(j *job.Job) time.Time {
	if !j.Lease.Ends.IsZero() {
		return j.Lease.Ends
	}
	return j.Consumed.Add(keyRemembered)
}

// follow takes a change of a job in. Two changes of a job may come in any order.
func (t *keyTakes) follow(before, after *job.Job) {
	if before.ConsumerKey == "" && after.ConsumerKey == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if before.ConsumerKey != after.ConsumerKey && before.ConsumerKey != "" {
		t.drop(job.SumOfKey("", before.ConsumerKey), before)
	}
	if after.ConsumerKey == "" {
		return
	}
	k := job.SumOfKey("", after.ConsumerKey)
	if i := slices.IndexFunc(t.jobs[k], func(o take) bool { return o.id == after.ID }); i >= 0 {
		t.jobs[k][i].seq = max(t.jobs[k][i].seq, after.Seq)
	} else {
		t.forget(after.Consumed.UnixMicro())
		if t.jobs == nil {
			t.jobs = map[job.KeySum][]take{}
		}
		t.jobs[k] = append(t.jobs[k], take{after.ID, after.Seq})
	}
	ends := keyEnds(after).UnixMicro()
	if was, ok := t.ends.At(job.ID(k)); !ok || was < ends {
		t.ends.Set(job.ID(k), ends)
	}
}

// with returns the jobs consumed with a key, as [job.Job] has it, in their order. Some may
// have changed since.
func (t *keyTakes) with(key string) []job.ID {
	t.mu.Lock()
	defer t.mu.Unlock()
	var ids []job.ID
	for _, o := range t.jobs[job.SumOfKey("", key)] {
		ids = append(ids, o.id)
	}
	slices.Sort(ids)
	return ids
}

// drop takes a job out, unless it was consumed again since.
func (t *keyTakes) drop(k job.KeySum, before *job.Job) {
	jobs := slices.DeleteFunc(t.jobs[k], func(o take) bool { return o.id == before.ID && o.seq <= before.Seq })
	if len(jobs) > 0 {
		t.jobs[k] = jobs
		return
	}
	delete(t.jobs, k)
	t.ends.Set(job.ID(k), 0)
}

// forget forgets keys with an end up to now, and one more if there are too many.
func (t *keyTakes) forget(now int64) {
	var over []job.ID
	t.ends.Due(now, func(k job.ID) bool {
		over = append(over, k)
		return true
	})
	if len(over) == 0 && len(t.jobs) >= mostKeys {
		t.ends.Due(1<<62, func(k job.ID) bool { // the first visited ends first
			over = append(over, k)
			return false
		})
	}
	for _, k := range over {
		delete(t.jobs, job.KeySum(k))
		t.ends.Set(k, 0)
	}
}
