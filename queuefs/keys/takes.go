package keys

import (
	"slices"
	"sync"
	"time"

	"cutie/queuefs/index"
	"cutie/queuefs/job"
)

// Remembered is how long a job consumed without a lease is given again for its key.
const Remembered = 5 * time.Minute

// MostTakes is how many keys of consumers a queue remembers. Beyond it the key with the
// earliest end is forgotten; about 150 bytes each.
const MostTakes = 1 << 20

// Takes are the jobs consumed by requests with keys. They are safe for concurrent use.
// The zero value is ready for use.
type Takes struct {
	mu   sync.Mutex
	jobs map[job.KeySum][]job.ID
	ends index.Deadlines // of the keys, by their sums
}

// Ends returns until when a consumed job is given again for its key: the end of its
// lease, or [Remembered] after its consumption.
func Ends(j *job.Job) time.Time {
	if !j.Lease.Ends.IsZero() {
		return j.Lease.Ends
	}
	return j.Consumed.Add(Remembered)
}

// Follow takes a change of a job in.
func (t *Takes) Follow(before, after *job.Job) {
	if before.ConsumerKey == "" && after.ConsumerKey == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if before.ConsumerKey != after.ConsumerKey && before.ConsumerKey != "" {
		t.drop(job.SumOfKey(before.ConsumerKey), before.ID)
	}
	if after.ConsumerKey == "" {
		return
	}
	k := job.SumOfKey(after.ConsumerKey)
	if !slices.Contains(t.jobs[k], after.ID) {
		t.forget(after.Consumed.UnixMicro())
		if t.jobs == nil {
			t.jobs = map[job.KeySum][]job.ID{}
		}
		t.jobs[k] = append(t.jobs[k], after.ID)
	}
	ends := Ends(after).UnixMicro()
	if was, ok := t.ends.At(job.ID(k)); !ok || was < ends {
		t.ends.Set(job.ID(k), ends)
	}
}

// Jobs returns the jobs consumed with a key, as [job.Job] has it, in their order. Some may
// have changed since.
func (t *Takes) Jobs(key string) []job.ID {
	t.mu.Lock()
	defer t.mu.Unlock()
	ids := slices.Clone(t.jobs[job.SumOfKey(key)])
	slices.Sort(ids)
	return ids
}

// drop takes a job out.
func (t *Takes) drop(k job.KeySum, id job.ID) {
	ids := slices.DeleteFunc(t.jobs[k], func(o job.ID) bool { return o == id })
	if len(ids) > 0 {
		t.jobs[k] = ids
		return
	}
	delete(t.jobs, k)
	t.ends.Set(job.ID(k), 0)
}

// forget forgets keys with an end up to now, and one more if there are too many.
func (t *Takes) forget(now int64) {
	var over []job.ID
	t.ends.Due(now, func(k job.ID) bool {
		over = append(over, k)
		return true
	})
	if len(over) == 0 && len(t.jobs) >= MostTakes {
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
