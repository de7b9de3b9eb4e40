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
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/record"
	"cutie/queuefs/tree"
)

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
	payloads, err := c.Tree.PayloadFiles(func(name string) { strange = append(strange, name) })
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
		r.problem(c.Tree.Path(where[id].String(), id.String()), "job file of a job the index does not know")
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
	path := c.Tree.Path(tree.Payloads, name)
	if !repair {
		r.problem(path, why)
		return nil
	}
	to, err := c.Tree.SetPayloadAside(name)
	if err == nil {
		r.mended(path, why+"; moved to "+to)
	}
	return err
}

// checkBehind verifies the payload of a job whose files are behind the journal, where
// it is now. The journal has the job file.
func (c *Comparer) checkBehind(j known, r *Report) {
	if err := c.Verify(j.id); err != nil {
		r.problem(c.Tree.Path(tree.Payloads, j.id.String()), err.Error())
		return
	}
	r.Octets += j.Size
}

// checkJobFile compares the job file with the index. When repairing, a file that was
// edited and still parses is taken as it is; any other is set aside and written again.
func (c *Comparer) checkJobFile(e known, st job.Status, repair bool, r *Report) error {
	path := c.Tree.Path(e.Status.String(), e.id.String())
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
		if err := c.Tree.SetAside(st, e.id.String(), why); err != nil {
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
	_, sum, err := c.Tree.SumPayload(id)
	return err == nil && hex.EncodeToString(sum[:]) == named
}

// checkIndex tells of a job of which the index says another payload than the job file
// does, which names the one that is there. Repairing believes the files.
func (c *Comparer) checkIndex(e known, j *job.Job, repair bool, r *Report) error {
	path, why := c.Tree.Path(e.Status.String(), e.id.String()), "index differs from job file and payload, which agree"
	if !repair {
		r.problem(path, why)
		return nil
	}
	r.mended(path, why+"; mended")
	rec := &record.Record{Kind: job.Update, From: e.Status, Job: e.id, Payload: record.Payload{Submitted: j.Submitted.UnixMicro()}}
	rec.SetType(j.MediaType)
	c.sums(rec, j)
	n, _, err := c.Tree.SumPayload(e.id)
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
	path := c.Tree.Path(tree.Payloads, e.id.String())
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
	n, sum, err := c.Tree.SumPayload(e.id)
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
		to, err := c.Tree.SetPayloadAside(e.id.String())
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
	seen, err := c.Tree.ResultDirs(func(name string) { r.problem(c.Tree.Path(tree.Results, name), "not the name of a job") })
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
	err = c.Tree.ResultNames(id, func(name string) {
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
		path, text := c.Tree.ResultPath(id, b.name), b.err.Error()
		if content.Transient(b.err) {
			r.unread(path, b.err)
			continue
		}
		if !repair {
			r.problem(path, text)
			continue
		}
		to, err := c.Tree.SetResultAside(id, b.name)
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
