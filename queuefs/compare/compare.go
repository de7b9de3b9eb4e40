// Package compare compares the directory of a queue with its index. It serves three:
// when a home is opened after a clean stop, differences are the work of other hands
// and become events ([Comparer.Reconcile]); where the index is lost it is made
// again from the directory ([Comparer.Scan]); a check prints differences, and may
// mend them ([Comparer.Check]).
//
// For jobs whose files are behind the journal, the journal rules. A file without
// a meaning is moved to corrupt/ and reported, never deleted.
package compare

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"cutie/queuefs/anvl"
	"cutie/queuefs/content"
	"cutie/queuefs/digest"
	"cutie/queuefs/dir"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/record"
)

// Options are for [Comparer.Check].
type Options struct {
	Repair  bool                 // mend differences
	Restore bool                 // write job files again, lost or illegible, and nothing else
	Sense   func(*job.Job) error // as in [Comparer]
}

// A Comparer compares one queue. Nobody else changes the queue meanwhile.
type Comparer struct {
	*content.Reader
	Now    func() time.Time
	Commit func(build func(*ledger.Batch) error) error // as [ledger.Ledger.Commit]
	Sense  func(*job.Job) error                        // why the further elements of a job file make no sense; nil: nobody looks

	restore bool // see Options
}

// list returns the status of the wanted jobs by the directories of their job files.
func (c *Comparer) list(wanted func(job.ID) bool) (map[job.ID]job.Status, error) {
	return c.Dir.JobFiles(wanted, func(text []byte) job.Seq {
		j, err := job.Parse(text)
		if err != nil {
			return 0
		}
		return j.Seq
	})
}

func sorted[V any](m map[job.ID]V) []job.ID {
	ids := make([]job.ID, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Scan makes pages of the index from job files, all pages if pages is nil. The status
// is the one in the last line of the file; if the directory says otherwise Reconcile
// follows. The same holds for illegible files: a half rewritten file after a crash
// belongs to a job in the journal. Of jobs without a legible file, what former pages
// say is kept; former is nil if there are none.
func (c *Comparer) Scan(pages map[int]bool, former *index.Index) error {
	where, err := c.list(func(id job.ID) bool { return pages == nil || pages[int(id/index.PageJobs)] })
	if err != nil {
		return err
	}
	for _, id := range sorted(where) {
		j, text, err := c.Filed(id, where[id])
		if content.Transient(err) {
			return err
		}
		if err == nil {
			err = c.inReach(&j)
		}
		if err != nil {
			if err := c.recall(former, id, where[id]); err != nil {
				return err
			}
			continue
		}
		r := &record.Record{Kind: job.Update, To: j.Status, Seq: j.Seq, Time: j.Modified().UnixMicro(), Job: id, Payload: record.Payload{Size: j.Size, Submitted: j.Submitted.UnixMicro()}}
		r.Mark(&j)
		r.SetType(j.MediaType)
		r.SetText(text)
		c.sums(r, &j)
		change := r.Change(0, false)
		c.Ledger.Note(func(x *index.Index) {
			x.Apply(&change)
			x.SetPayloadFiled(id)
			x.SetFiled(id, where[id])
			x.LastSubmit = max(x.LastSubmit, r.Payload.Submitted)
			if !j.Consumed.IsZero() {
				x.LastConsume = max(x.LastConsume, j.Consumed.UnixMicro())
			}
		})
	}
	if former == nil {
		return nil
	}
	for n := range former.Pages() {
		former.EachOf(n, func(id job.ID, j index.Job) {
			if _, there := where[id]; there || err != nil {
				return
			}
			if _, e := c.Dir.StatPayload(id, ""); e == nil {
				err = c.recall(former, id, 0)
			} else if content.Transient(e) {
				err = e
			}
		})
	}
	return err
}

// recall keeps what former pages say of a job. Its job file stands in st, 0 for nowhere.
func (c *Comparer) recall(former *index.Index, id job.ID, st job.Status) error {
	if former == nil {
		return nil
	}
	known, ok := former.Job(id)
	if !ok {
		return nil
	}
	j, err := c.Restored(id, &ledger.View{Job: known})
	if err != nil {
		return err
	}
	j.Seq = former.Version(id)
	r := &record.Record{Kind: job.Update, To: j.Status, Seq: j.Seq, Time: known.Changed, Job: id,
		Payload: record.Payload{Size: known.Size, Submitted: known.Submitted, SHA256: known.SHA256, MD5: known.MD5}}
	r.Mark(&j)
	r.SetType(known.MediaType)
	r.SetText(j.AppendText(nil))
	change := r.Change(0, false)
	c.Ledger.Note(func(x *index.Index) {
		x.Apply(&change)
		x.SetPayloadFiled(id)
		x.SetFiled(id, st)
	})
	return nil
}

// sums gives the record the digests of the payload in the job file. A job file of other
// hands may have no SHA-256: then it is computed.
func (c *Comparer) sums(r *record.Record, j *job.Job) {
	r.Payload.MD5 = j.MD5()
	if sha, err := hex.DecodeString(j.Digest(digest.SHA256).Hex); err == nil && len(sha) == len(r.Payload.SHA256) {
		copy(r.Payload.SHA256[:], sha)
		return
	}
	n, sum, err := c.Dir.SumPayload(r.Job)
	if err != nil {
		c.Report(c.Dir.Path(dir.Payloads, r.Job.String()), err.Error())
		return
	}
	r.Payload.Size, r.Payload.SHA256 = n, sum
}

// maxGap is how many job numbers may be missing before a job brought by hand: the index
// has eight bytes for each page of them.
const maxGap = 1 << 32

// maxYears is how far ahead the dates of a job file may be: later dates count from
// them.
const maxYears = 10

// inReach refuses a job with a number so high that the index would fill the memory, or
// with an event after which none could follow.
func (c *Comparer) inReach(j *job.Job) error {
	last := c.Ledger.Numbers().Job
	switch {
	case j.ID > last+maxGap:
		return fmt.Errorf("its number is more than %d beyond the highest one, %v", uint64(maxGap), last)
	case j.Seq > job.MaxSeq:
		return fmt.Errorf("its sequence number %d is out of reach", j.Seq)
	case j.Modified().After(c.Now().AddDate(maxYears, 0, 0)):
		return fmt.Errorf("its dates are more than %d years ahead", maxYears)
	}
	return nil
}

// A known job is one of the index.
type known struct {
	id job.ID
	index.Job
}

// page returns the jobs of a page of the index.
func (c *Comparer) page(n int) (jobs []known) {
	c.Ledger.Look(func(x *index.Index) {
		x.EachOf(n, func(id job.ID, j index.Job) { jobs = append(jobs, known{id, j}) })
	})
	return jobs
}

func (c *Comparer) pages() (n int) {
	c.Ledger.Look(func(x *index.Index) { n = x.Pages() })
	return n
}

// Reconcile makes events of an operator's work while nobody had the home open: a job
// file moved, brought, or taken away. For a fresh queue the journal has all jobs; its
// losses come in the same way, and the new events go on after the ones in the files.
func (c *Comparer) Reconcile(fresh bool) error {
	where, err := c.list(func(id job.ID) bool { return !c.behind(id) })
	if err != nil {
		return err
	}
	for n := range c.pages() {
		for _, j := range c.page(n) {
			st, there := where[j.id]
			delete(where, j.id)
			switch {
			case there && st == j.Status || j.Behind:
			case there:
				err = c.takeMove(j.id, j.Status, st)
			default:
				err = c.takeLoss(j.id, j.Status)
			}
			if err != nil {
				return err
			}
		}
	}
	ids := sorted(where)
	var last job.Seq
	if fresh {
		if last, err = c.lastOf(ids, where); err != nil {
			return err
		}
	}
	for _, id := range ids {
		if err := c.takeNew(id, where[id], last); err != nil {
			return err
		}
	}
	return nil
}

// behind reports whether the files of a job are behind the journal.
func (c *Comparer) behind(id job.ID) (behind bool) {
	c.Ledger.Look(func(x *index.Index) {
		j, _ := x.Known(id)
		behind = j.Behind
	})
	return behind
}

// lastOf returns the highest event in job files.
func (c *Comparer) lastOf(ids []job.ID, where map[job.ID]job.Status) (last job.Seq, err error) {
	for _, id := range ids {
		j, _, err := c.Filed(id, where[id])
		if content.Transient(err) {
			return 0, err
		}
		if err == nil && c.inReach(&j) == nil {
			last = max(last, j.Seq)
		}
	}
	return last, nil
}

// takeMove makes an event of a moved job file.
func (c *Comparer) takeMove(id job.ID, from, to job.Status) error {
	j, _, err := c.Filed(id, to)
	if content.Transient(err) {
		return err
	}
	if err != nil {
		if err := c.Dir.SetAside(to, id.String(), err.Error()); err != nil {
			return err
		}
		v, _ := c.Ledger.View(id)
		if j, err = c.Restored(id, &v); err != nil {
			return err
		}
	}
	kind := job.Update
	switch {
	case to == job.Pending:
		kind = job.Requeue
	case from == job.Pending && to == job.Consumed:
		kind = job.Consume
	case from == job.Pending && to == job.Deleted:
		kind = job.Delete
	}
	c.Report(c.Dir.Path(to.String(), id.String()), "moved here from "+from.String()+" by other hands; taken as "+kind.String())
	return c.Commit(func(b *ledger.Batch) error {
		k := j
		seq, us := b.Next()
		t := job.Instant(us)
		k.Seq = seq
		switch to {
		case job.Pending:
			k.StartOver(t)
			if j.Lost() {
				c.hold(&k, t)
			}
		case job.Consumed:
			k.Enter(job.Consumed)
			k.Consumed = t
		case job.Deleted:
			k.Delete(t)
		}
		b.Index().SetFiled(id, to)
		b.Job(&k, kind, from, us).SetResults(j.Results, k.Results)
		return nil
	})
}

// takeLoss makes an event of a job without its file. If the payload is still there, the
// job stays and its file is written again.
func (c *Comparer) takeLoss(id job.ID, st job.Status) error {
	path := c.Dir.Path(st.String(), id.String())
	v, _ := c.Ledger.View(id)
	j, err := c.Restored(id, &v)
	if err != nil {
		return err
	}
	kind, to := job.Update, st
	if _, err := c.Dir.StatPayload(id, ""); errors.Is(err, fs.ErrNotExist) {
		kind, to = job.Cull, job.Status(0)
		c.Report(path, "job file and payload taken away by other hands; taken as "+kind.String())
	} else {
		c.Report(path, "job file lost; written again as far as the index knows the job")
	}
	return c.Commit(func(b *ledger.Batch) error {
		k := j
		seq, us := b.Next()
		if to != 0 {
			kind = c.hold(&k, job.Instant(us))
			to = k.Status
		} else {
			k.Results = nil
		}
		k.Seq, k.Status = seq, to
		b.Index().SetFiled(id, 0)
		b.Job(&k, kind, st, us).SetResults(j.Results, k.Results)
		return nil
	})
}

// takeNew takes in a job brought by hand, by an event after number last.
func (c *Comparer) takeNew(id job.ID, st job.Status, last job.Seq) error {
	j, _, err := c.Filed(id, st)
	if content.Transient(err) {
		return err
	}
	if err == nil {
		err = c.inReach(&j)
	}
	if err == nil {
		if _, err = c.Dir.StatPayload(id, ""); content.Transient(err) {
			return err
		}
	}
	if err != nil {
		return c.Dir.SetAside(st, id.String(), err.Error())
	}
	c.Report(c.Dir.Path(st.String(), id.String()), "brought by other hands; taken as "+job.Submit.String())
	r := &record.Record{Kind: job.Submit, To: st, Job: id, Payload: record.Payload{Size: j.Size, Submitted: j.Submitted.UnixMicro()}}
	r.SetType(j.MediaType)
	c.sums(r, &j)
	return c.Commit(func(b *ledger.Batch) error {
		x := b.Index()
		x.Skip(index.Numbers{Job: id, Seq: last})
		x.SetPayloadFiled(id)
		x.SetFiled(id, st)
		k := j
		k.Enter(st)
		r.Mark(&k)
		k.Seq, r.Time = b.Next()
		r.Seq = k.Seq
		r.SetText(k.AppendText(nil))
		r.SetResults(nil, k.Results)
		b.Add(r)
		return nil
	})
}

// A Report is the result of a check.
type Report struct {
	Queues, Jobs int
	Octets       int64          // of payloads and results read
	Mended       []home.Problem // found and dealt with
	Problems     []home.Problem // not mended
	Repaired     bool           // mending was allowed
}

// Tell adds a problem, or one that was mended, in the place of what was told of its file
// before, when the home was opened.
func (r *Report) Tell(mended bool, p home.Problem) {
	same := func(o home.Problem) bool { return o.Path == p.Path }
	r.Mended, r.Problems = slices.DeleteFunc(r.Mended, same), slices.DeleteFunc(r.Problems, same)
	if mended {
		p.Level = durable.Mended
		r.Mended = append(r.Mended, p)
	} else {
		r.Problems = append(r.Problems, p)
	}
}

func (r *Report) problem(path, text string) {
	r.Problems = append(r.Problems, home.Problem{Path: path, Text: text})
}

// unread reports a file that cannot be read now, and may be whole.
func (r *Report) unread(path string, err error) {
	r.Problems = append(r.Problems, durable.Damage(path, err.Error(), true))
}

func (r *Report) mended(path, text string) {
	r.Mended = append(r.Mended, home.Problem{Level: durable.Mended, Path: path, Text: text})
}

// Check compares the queue with its files, and adds to r. With Repair it mends
// differences where possible, and leaves out jobs behind the journal.
func (c *Comparer) Check(r *Report, o Options) error {
	repair := o.Repair
	c.restore = o.Repair || o.Restore
	c.Sense = o.Sense
	behind := c.Ledger.BehindJobs()
	if n := len(behind); n > 0 && repair {
		r.problem(home.QueuesDir+"/"+c.Ledger.ID(), fmt.Sprintf("%v: the files of %d jobs are behind the journal, which has them, and were not compared", ledger.ErrNoSpace, n))
	}
	where, err := c.list(func(job.ID) bool { return true })
	if err != nil {
		return err
	}
	var strange []string
	payloads, err := c.Dir.PayloadFiles(func(name string) { strange = append(strange, name) })
	for _, name := range strange {
		err = errors.Join(err, c.checkStray(name, "not the name of a job", repair, r))
	}
	if err != nil {
		return err
	}
	for n := range c.pages() {
		for _, j := range c.page(n) {
			r.Jobs++
			st, there := where[j.id], payloads[j.id]
			delete(where, j.id)
			delete(payloads, j.id)
			if behind[j.id] {
				if !repair {
					c.checkBehind(j, r)
				}
				continue
			}
			if err := c.checkJobFile(j, st, repair, r); err != nil {
				return err
			}
			if v, ok := c.Ledger.View(j.id); ok { // as it is now
				if err := c.checkPayload(known{j.id, v.Job}, there, repair, r); err != nil {
					return err
				}
			}
		}
	}
	for id := range behind {
		delete(where, id)
		delete(payloads, id)
	}
	if err := c.checkResults(behind, repair, r); err != nil {
		return err
	}
	for _, id := range sorted(where) {
		r.problem(c.Dir.Path(where[id].String(), id.String()), "job file of a job the index does not know")
	}
	for _, id := range sorted(payloads) {
		if err := c.checkStray(id.String(), "payload without a job", repair, r); err != nil {
			return err
		}
	}
	return nil
}

// checkStray tells of a file among the payloads without a job. Repairing moves it to
// corrupt/.
func (c *Comparer) checkStray(name, why string, repair bool, r *Report) error {
	path := c.Dir.Path(dir.Payloads, name)
	if !repair {
		r.problem(path, why)
		return nil
	}
	to, err := c.Dir.SetPayloadAside(name)
	if err == nil {
		r.mended(path, why+"; moved to "+to)
	}
	return err
}

// checkBehind verifies the payload of a job whose files are behind the journal, where
// it is now. The journal has the job file.
func (c *Comparer) checkBehind(j known, r *Report) {
	if err := c.Verify(j.id); err != nil {
		r.problem(c.Dir.Path(dir.Payloads, j.id.String()), err.Error())
		return
	}
	r.Octets += j.Size
}

// checkJobFile compares the job file with the index. When repairing, a file that was
// edited and still parses is taken as it is; any other is set aside and written again.
func (c *Comparer) checkJobFile(e known, st job.Status, repair bool, r *Report) error {
	path := c.Dir.Path(e.Status.String(), e.id.String())
	var why string
	var j job.Job
	var text []byte
	var err error
	if st != e.Status {
		why = "job file missing"
		if st != 0 {
			why = "job file is in " + st.String()
		}
	} else if j, text, err = c.Filed(e.id, st); content.Transient(err) && !content.Exhausted(err) {
		r.unread(path, err)
		return nil
	} else if content.Transient(err) {
		return err
	} else if err = cmp.Or(err, content.Same(&j, &e.Job)); err != nil {
		why = err.Error()
	} else if sha256.Sum256(text) != e.FileSHA256 {
		why = "job file was edited"
	} else if j.Status != st {
		why = "job file says " + j.Status.String()
	} else {
		c.sense(path, &j, r)
		return nil
	}
	if err != nil && st == e.Status && c.agrees(e.id, &j) {
		return c.checkIndex(e, &j, repair, r)
	}
	if !repair && !(c.restore && (st == 0 || err != nil)) {
		r.problem(path, why)
		return nil
	}
	r.mended(path, why+"; mended")
	if st != 0 && st != e.Status {
		return c.takeMove(e.id, e.Status, st)
	}
	if err != nil && st != 0 {
		if err := c.Dir.SetAside(st, e.id.String(), why); err != nil {
			return err
		}
	}
	if st == 0 || err != nil {
		v, _ := c.Ledger.View(e.id)
		if j, err = c.Restored(e.id, &v); err != nil {
			return err
		}
	} else {
		c.sense(path, &j, r)
	}
	return c.Commit(func(b *ledger.Batch) error {
		k, kind := j, job.Update
		seq, us := b.Next()
		k.Enter(e.Status)
		if k.Seq == 0 { // restored
			kind = c.hold(&k, job.Instant(us))
		}
		k.Seq, k.Size = seq, e.Size
		b.Index().SetFiled(e.id, index.FiledUnknown)
		r := b.Job(&k, kind, e.Status, us)
		r.Payload.Submitted = e.Submitted
		r.SetResults(j.Results, k.Results)
		return nil
	})
}

// agrees reports whether a job file names the payload that is there.
func (c *Comparer) agrees(id job.ID, j *job.Job) bool {
	named := j.Digest(digest.SHA256).Hex
	if named == "" {
		return false
	}
	_, sum, err := c.Dir.SumPayload(id)
	return err == nil && hex.EncodeToString(sum[:]) == named
}

// checkIndex tells of a job of which the index says another payload than the job file
// does, which names the one that is there. Repairing believes the files.
func (c *Comparer) checkIndex(e known, j *job.Job, repair bool, r *Report) error {
	path, why := c.Dir.Path(e.Status.String(), e.id.String()), "index differs from job file and payload, which agree"
	if !repair {
		r.problem(path, why)
		return nil
	}
	r.mended(path, why+"; mended")
	rec := &record.Record{Kind: job.Update, From: e.Status, Job: e.id, Payload: record.Payload{Submitted: j.Submitted.UnixMicro()}}
	rec.SetType(j.MediaType)
	c.sums(rec, j)
	n, _, err := c.Dir.SumPayload(e.id)
	if err != nil {
		return err
	}
	rec.Payload.Size = n
	return c.Commit(func(b *ledger.Batch) error {
		k := *j
		k.Enter(e.Status)
		rec.Mark(&k)
		k.Seq, rec.Time = b.Next()
		k.Size, rec.Seq = n, k.Seq
		rec.SetText(k.AppendText(nil))
		b.Index().SetFiled(e.id, index.FiledUnknown)
		b.Add(rec)
		return nil
	})
}

// hold puts a job without its job file on hold, and returns the kind of the event. A job in
// work is pending then: its lease is lost, too, and nobody knows how many attempts it had.
func (c *Comparer) hold(j *job.Job, t time.Time) job.Kind {
	kind := job.Update
	if j.Status == job.Consumed && !j.Lease.Ends.IsZero() {
		kind = job.Requeue
		j.GoBack(t)
	}
	if j.Status == job.Pending && j.Held.IsZero() {
		j.Hold(t, "job file lost or damaged; the index knows less of the job", time.Time{})
	}
	return kind
}

// sense reports a job file with further elements that make no sense. Nobody here can
// mend them.
func (c *Comparer) sense(path string, j *job.Job, r *Report) {
	if c.Sense == nil {
		return
	}
	if err := c.Sense(j); err != nil {
		r.problem(path, err.Error())
	}
}

// checkPayload compares the payload of a job with the index. A lost payload cannot come
// back, so it stays a problem. Repairing moves the file in its place to corrupt/ and
// puts a pending job on hold, so that consumers pass over it until somebody brings the
// payload, or deletes the job.
func (c *Comparer) checkPayload(e known, there, repair bool, r *Report) error {
	path := c.Dir.Path(dir.Payloads, e.id.String())
	err := errors.New("payload missing")
	if there {
		err = c.verify(e)
	}
	if err == nil {
		r.Octets += e.Size
		return nil
	}
	why := err.Error()
	if j, _, e := c.Filed(e.id, e.Status); there && e == nil && c.agrees(j.ID, &j) {
		return nil // told of the job file, or mended there: the payload is good
	}
	if repair && !content.Transient(err) && !content.Exhausted(err) {
		done, err := c.mendPayload(e, there, why)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		why += done
	}
	r.Problems = append(r.Problems, durable.Damage(path, why, content.Transient(err)))
	return nil
}

// verify reads the payload where it stands.
func (c *Comparer) verify(e known) error {
	n, sum, err := c.Dir.SumPayload(e.id)
	switch {
	case err != nil:
		return err
	case n != e.Size:
		return fmt.Errorf("payload has %d octets instead of %d", n, e.Size)
	case sum != e.SHA256:
		return errors.New("payload has not its SHA-256 digest")
	}
	return nil
}

// mendPayload mends a job with a lost payload and returns how.
func (c *Comparer) mendPayload(e known, there bool, why string) (done string, err error) {
	if there {
		to, err := c.Dir.SetPayloadAside(e.id.String())
		if err != nil {
			return "", err
		}
		done = "; moved to " + to
	}
	if e.Status != job.Pending {
		return done, nil
	}
	err = c.alter(e.id, job.Hold, func(j *job.Job, t time.Time) bool {
		return (j.Held.IsZero() || !j.HeldUntil.IsZero()) && j.Hold(t, why, time.Time{})
	})
	return done + "; the job is on hold", err
}

// alter makes an event of a job, unless edit returns false.
func (c *Comparer) alter(id job.ID, kind job.Kind, edit func(j *job.Job, t time.Time) bool) error {
	j, err := c.Job(id)
	if err != nil {
		return err
	}
	return c.Commit(func(b *ledger.Batch) error {
		k, before := j, b.Index().Minted()
		seq, us := b.Next()
		if !edit(&k, job.Instant(us)) {
			b.Index().Unmint(before)
			return nil
		}
		k.Seq = seq
		b.Job(&k, kind, j.Status, us).SetResults(j.Results, k.Results)
		return nil
	})
}

// checkResults compares the results of the queue with the job files. Repairing moves
// unknown and damaged results to corrupt/.
func (c *Comparer) checkResults(behind map[job.ID]bool, repair bool, r *Report) error {
	seen, err := c.Dir.ResultDirs(func(name string) { r.problem(c.Dir.Path(dir.Results, name), "not the name of a job") })
	if err != nil {
		return err
	}
	c.Ledger.Look(func(x *index.Index) {
		for _, id := range x.WithResults() {
			seen[id] = true
		}
	})
	for _, id := range sorted(seen) {
		if behind[id] {
			continue
		}
		if err := c.checkJobResults(id, repair, r); err != nil {
			return err
		}
	}
	return nil
}

// A badResult differs from its job file, or is in none.
type badResult struct {
	name  string
	err   error
	named bool
}

func (c *Comparer) checkJobResults(id job.ID, repair bool, r *Report) error {
	j, err := c.Job(id)
	if err != nil && !errors.Is(err, ledger.ErrNoJob) {
		return err
	}
	var bad []badResult
	for _, want := range j.Results {
		n, err := c.CheckResult(id, want)
		if err != nil {
			bad = append(bad, badResult{want.Name, err, true})
		}
		r.Octets += n
	}
	err = c.Dir.ResultNames(id, func(name string) {
		if _, ok := j.Result(name); !ok {
			bad = append(bad, badResult{name, errors.New("result that no job file names"), false})
		}
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return c.mendResults(id, bad, repair, r)
}

// mendResults tells of bad results of a job. Repairing moves their files to corrupt/ and
// takes their names out of the job file, where a note stays.
func (c *Comparer) mendResults(id job.ID, bad []badResult, repair bool, r *Report) error {
	var lost []string
	for _, b := range bad {
		path, text := c.Dir.ResultPath(id, b.name), b.err.Error()
		if content.Transient(b.err) {
			r.unread(path, b.err)
			continue
		}
		if !repair {
			r.problem(path, text)
			continue
		}
		to, err := c.Dir.SetResultAside(id, b.name)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if to != "" {
			text += "; moved to " + to
		}
		if b.named {
			lost = append(lost, b.name)
			text += "; the job has it no longer"
		}
		r.mended(path, text)
	}
	if len(lost) == 0 {
		return nil
	}
	return c.alter(id, job.Update, func(j *job.Job, _ time.Time) bool {
		j.Results = slices.DeleteFunc(slices.Clone(j.Results), func(r job.Result) bool { return slices.Contains(lost, r.Name) })
		j.Extra = append(slices.Clip(j.Extra), anvl.Element{Name: "note", Value: "lost results: " + strings.Join(lost, " ")})
		return true
	})
}
