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
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"cutie/queuefs/content"
	"cutie/queuefs/digest"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/record"
	"cutie/queuefs/tree"
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
	return c.Tree.JobFiles(wanted, func(text []byte) job.Seq {
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
			if _, e := c.Tree.StatPayload(id, ""); e == nil {
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
	n, sum, err := c.Tree.SumPayload(r.Job)
	if err != nil {
		c.Report(c.Tree.Path(tree.Payloads, r.Job.String()), err.Error())
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
		if err := c.Tree.SetAside(to, id.String(), err.Error()); err != nil {
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
	c.Report(c.Tree.Path(to.String(), id.String()), "moved here from "+from.String()+" by other hands; taken as "+kind.String())
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
	path := c.Tree.Path(st.String(), id.String())
	v, _ := c.Ledger.View(id)
	j, err := c.Restored(id, &v)
	if err != nil {
		return err
	}
	kind, to := job.Update, st
	if _, err := c.Tree.StatPayload(id, ""); errors.Is(err, fs.ErrNotExist) {
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
		if _, err = c.Tree.StatPayload(id, ""); content.Transient(err) {
			return err
		}
	}
	if err != nil {
		return c.Tree.SetAside(st, id.String(), err.Error())
	}
	c.Report(c.Tree.Path(st.String(), id.String()), "brought by other hands; taken as "+job.Submit.String())
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
