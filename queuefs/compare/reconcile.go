package compare

import (
	"errors"
	"io/fs"

	"cutie/queuefs/content"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/record"
)

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
