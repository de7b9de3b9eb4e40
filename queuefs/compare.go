package queuefs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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
	"cutie/queuefs/snapshot"
)

// A CheckReport is the result of a check.
type CheckReport struct {
	Queues, Jobs int
	Octets       int64          // of payloads and results read
	Mended       []home.Problem // found and dealt with
	Problems     []home.Problem // not mended
	Repaired     bool           // mending was allowed
}

// tell adds a problem, or one that was mended, in the place of what was told of its file
// before, when the home was opened.
func (r *CheckReport) tell(mended bool, p home.Problem) {
	same := func(o home.Problem) bool { return o.Path == p.Path }
	r.Mended, r.Problems = slices.DeleteFunc(r.Mended, same), slices.DeleteFunc(r.Problems, same)
	if mended {
		p.Level = durable.Mended
		r.Mended = append(r.Mended, p)
	} else {
		r.Problems = append(r.Problems, p)
	}
}

func (r *CheckReport) problem(path, text string) {
	r.Problems = append(r.Problems, home.Problem{Path: path, Text: text})
}

// unread reports a file that cannot be read now, and may be whole.
func (r *CheckReport) unread(path string, err error) {
	r.Problems = append(r.Problems, durable.Damage(path, err.Error(), true))
}

func (r *CheckReport) mended(path, text string) {
	r.Mended = append(r.Mended, home.Problem{Level: durable.Mended, Path: path, Text: text})
}

// CompareOptions are for [Service.Compare].
type CompareOptions struct {
	Repair  bool                 // mend differences
	Restore bool                 // write job files again, lost or illegible, and nothing else
	Sense   func(*job.Job) error // why the further elements of a job file make no sense; nil: nobody looks
}

// Compare compares all queues with their files and adds to r. With Repair it mends
// differences where possible. Nobody may use the service meanwhile.
func (s *Service) Compare(r *CheckReport, o CompareOptions) error {
	if !s.opts.Look {
		if err := s.fileNow(); err != nil {
			return err
		}
	}
	if o.Repair {
		mended, err := s.mendInfo()
		if err != nil {
			return err
		}
		if mended != nil {
			r.tell(true, *mended)
		}
	}
	lost := 0
	if err := s.Subscriptions().Each(func(_ string, _ []byte, bad error) bool {
		if bad != nil {
			lost++
		}
		return true
	}); err != nil {
		return err
	}
	if lost > 0 { // the hub takes them out, and goes on as their kind wants it
		r.tell(false, durable.Finding{Path: snapshot.SubscriptionsPath,
			Text: fmt.Sprintf("%d rows do not verify: subscriptions or cursors of callbacks are lost", lost)})
	}
	for _, q := range s.Queues() {
		r.Queues++
		if err := q.checkSettings(r, o.Repair); err != nil {
			return fmt.Errorf("queue %s: %w", q.ID(), err)
		}
		o := o
		if q.Mirror().Live() {
			o.Repair, o.Restore = false, false // only its original changes it
		}
		if m := q.Mirror(); m != nil && m.Bad != "" {
			r.tell(false, durable.Finding{Path: snapshot.TablePath, Cure: "cutie failover mirror " + q.ID(),
				Text: fmt.Sprintf("original of queue %s: %s; the queue stays a mirror until a takeover", q.ID(), m.Bad)})
		}
		if _, err := q.Callback(); err != nil {
			f := durable.Damage(snapshot.TablePath, err.Error(), !errors.Is(err, durable.ErrDamaged))
			if f.Level == durable.Faulty {
				f.Cure = "cutie set " + q.ID() + " --home " + s.Dir() + " --callback URL"
			}
			r.tell(false, f)
		}
		bad, err := s.index.BadStones(q.ID(), o.Repair)
		if err != nil {
			return fmt.Errorf("queue %s: tombstones: %w", q.ID(), err)
		}
		if bad > 0 {
			r.tell(o.Repair, durable.Finding{Path: snapshot.TablePath,
				Text: fmt.Sprintf("queue %s: %d tombstones of culled jobs do not verify; others are kept", q.ID(), bad)})
		}
		if err := (&comparison{q, r, o}).run(); err != nil {
			return fmt.Errorf("queue %s: %w", q.ID(), err)
		}
	}
	return nil
}

// fileNow brings all files up to the journal, as far as there is space.
func (s *Service) fileNow() error {
	at := s.shared.Journal.Stats().Next
	err := s.makeSpace()
	for _, q := range s.Queues() {
		if err == nil {
			_, err = q.dir.WriteUpTo(at, s.space.InTime)
		}
	}
	if errors.Is(ledger.StorageError(err), ledger.ErrNoSpace) {
		return nil
	}
	return err
}

// checkSettings reports a damaged queue-info.txt, and mends it to repair.
func (q *Queue) checkSettings(r *CheckReport, repair bool) error {
	q.svc.properties.Lock()
	defer q.svc.properties.Unlock()
	found, mended, err := q.checkFile(repair, q.svc.index.Closed())
	if found != nil {
		r.tell(mended, *found)
	}
	return err
}

// A comparison is that of a queue with its files. Nobody else changes the queue meanwhile.
type comparison struct {
	*Queue
	*CheckReport
	CompareOptions
}

// run compares all files. With Repair it mends differences where possible, and leaves out
// jobs behind the journal.
func (c *comparison) run() error {
	behind := c.ledger.BehindJobs()
	if n := len(behind); n > 0 && c.Repair {
		c.problem(home.QueuesDir+"/"+c.ID(), fmt.Sprintf("%v: the files of %d jobs are behind the journal, "+
			"which has them, and were not compared", ledger.ErrNoSpace, n))
	}
	var strange []string
	payloads, err := c.dir.PayloadFiles(func(name string) { strange = append(strange, name) })
	for _, name := range strange {
		err = errors.Join(err, c.checkStray(name, "not the name of a job"))
	}
	if err != nil {
		return err
	}
	err = c.dir.Walk(nil, func(s dir.Standing) error {
		there := payloads[s.ID]
		delete(payloads, s.ID)
		if s.Known.Status == 0 {
			c.problem(c.dir.Path(s.Filed.String(), s.ID.String()), "job file of a job the index does not know")
			return nil
		}
		c.Jobs++
		if s.Known.Behind {
			if !c.Repair {
				c.checkBehind(s)
			}
			return nil
		}
		if err := c.checkJobFile(s); err != nil {
			return err
		}
		if v, ok := c.ledger.View(s.ID); ok { // as it is now
			s.Known = v.Job
			return c.checkPayload(s, there)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := c.checkResults(behind); err != nil {
		return err
	}
	for id := range behind {
		delete(payloads, id)
	}
	for _, id := range slices.Sorted(maps.Keys(payloads)) {
		if err := c.checkStray(id.String(), "payload without a job"); err != nil {
			return err
		}
	}
	return nil
}

// checkStray tells of a file among the payloads without a job. Repairing moves it to
// corrupt/.
func (c *comparison) checkStray(name, why string) error {
	path := c.dir.Path(dir.Payloads, name)
	if !c.Repair {
		c.problem(path, why)
		return nil
	}
	to, err := c.dir.SetPayloadAside(name)
	if err == nil {
		c.mended(path, why+"; moved to "+to)
	}
	return err
}

// checkBehind verifies the payload of a job whose files are behind the journal, where
// it is now. The journal has the job file.
func (c *comparison) checkBehind(s dir.Standing) {
	if err := c.content.Verify(s.ID); err != nil {
		c.problem(c.dir.Path(dir.Payloads, s.ID.String()), err.Error())
		return
	}
	c.Octets += s.Known.Size
}

// checkJobFile compares the job file with the index. When repairing, a file that was
// edited and still parses is taken as it is; any other is set aside and written again.
func (c *comparison) checkJobFile(e dir.Standing) error {
	path := c.dir.Path(e.Known.Status.String(), e.ID.String())
	st, why := e.Filed, ""
	var j job.Job
	var text []byte
	var err error
	if st != e.Known.Status {
		why = "job file missing"
		if st != 0 {
			why = "job file is in " + st.String()
		}
	} else if j, text, err = c.dir.Filed(e.ID, st); content.Transient(err) && !content.Exhausted(err) {
		c.unread(path, err)
		return nil
	} else if content.Transient(err) {
		return err
	} else if err = cmp.Or(err, content.Same(&j, &e.Known)); err != nil {
		why = err.Error()
	} else if sha256.Sum256(text) != e.Known.FileSHA256 {
		why = "job file was edited"
	} else if j.Status != st {
		why = "job file says " + j.Status.String()
	} else {
		c.sense(path, &j)
		return nil
	}
	if err != nil && st == e.Known.Status && c.agrees(e.ID, &j) {
		return c.checkIndex(e, &j)
	}
	if !c.Repair && !(c.Restore && (st == 0 || err != nil)) {
		c.problem(path, why)
		return nil
	}
	c.mended(path, why+"; mended")
	if st != 0 && st != e.Known.Status {
		return c.takeMove(e.ID, e.Known.Status, st)
	}
	if err != nil && st != 0 {
		if err := c.dir.SetAside(st, e.ID.String(), why); err != nil {
			return err
		}
	}
	if st == 0 || err != nil {
		v, _ := c.ledger.View(e.ID)
		if j, err = c.content.Restored(e.ID, &v); err != nil {
			return err
		}
	} else {
		c.sense(path, &j)
	}
	return c.commit(func(b *ledger.Batch) error {
		k, kind := j, job.Update
		seq, us := b.Next()
		k.Enter(e.Known.Status)
		if k.Seq == 0 { // restored
			kind = holdLost(&k, job.Instant(us))
		}
		k.Seq, k.Size = seq, e.Known.Size
		b.Index().SetFiled(e.ID, index.FiledUnknown)
		r := b.Job(&k, kind, e.Known.Status, us)
		r.Payload.Submitted = e.Known.Submitted
		r.SetResults(j.Results, k.Results)
		return nil
	})
}

// agrees reports whether a job file names the payload that is there.
func (c *comparison) agrees(id job.ID, j *job.Job) bool {
	named := j.Digest(digest.SHA256).Hex
	if named == "" {
		return false
	}
	_, sum, err := c.dir.SumPayload(id)
	return err == nil && hex.EncodeToString(sum[:]) == named
}

// checkIndex tells of a job of which the index says another payload than the job file
// does, which names the one that is there. Repairing believes the files.
func (c *comparison) checkIndex(e dir.Standing, j *job.Job) error {
	path, why := c.dir.Path(e.Known.Status.String(), e.ID.String()), "index differs from job file and payload, which agree"
	if !c.Repair {
		c.problem(path, why)
		return nil
	}
	c.mended(path, why+"; mended")
	rec := &record.Record{Kind: job.Update, From: e.Known.Status, Job: e.ID,
		Payload: record.Payload{Submitted: j.Submitted.UnixMicro()}}
	rec.SetType(j.MediaType)
	c.sums(rec, j)
	n, _, err := c.dir.SumPayload(e.ID)
	if err != nil {
		return err
	}
	rec.Payload.Size = n
	return c.commit(func(b *ledger.Batch) error {
		k := *j
		k.Enter(e.Known.Status)
		rec.Mark(&k)
		k.Seq, rec.Time = b.Next()
		k.Size, rec.Seq = n, k.Seq
		rec.SetText(k.AppendText(nil))
		b.Index().SetFiled(e.ID, index.FiledUnknown)
		b.Add(rec)
		return nil
	})
}

// sense reports a job file with further elements that make no sense. Nobody here can
// mend them.
func (c *comparison) sense(path string, j *job.Job) {
	if c.Sense == nil {
		return
	}
	if err := c.Sense(j); err != nil {
		c.problem(path, err.Error())
	}
}

// checkPayload compares the payload of a job with the index. A lost payload cannot come
// back, so it stays a problem. Repairing moves the file in its place to corrupt/ and
// puts a pending job on hold, so that consumers pass over it until somebody brings the
// payload, or deletes the job.
func (c *comparison) checkPayload(e dir.Standing, there bool) error {
	path := c.dir.Path(dir.Payloads, e.ID.String())
	err := errors.New("payload missing")
	if there {
		err = c.verify(e)
	}
	if err == nil {
		c.Octets += e.Known.Size
		return nil
	}
	why := err.Error()
	if j, _, e := c.dir.Filed(e.ID, e.Known.Status); there && e == nil && c.agrees(j.ID, &j) {
		return nil // told of the job file, or mended there: the payload is good
	}
	if c.Repair && !content.Transient(err) && !content.Exhausted(err) {
		done, err := c.mendPayload(e, there, why)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		why += done
	}
	c.Problems = append(c.Problems, durable.Damage(path, why, content.Transient(err)))
	return nil
}

// verify reads the payload where it stands.
func (c *comparison) verify(e dir.Standing) error {
	n, sum, err := c.dir.SumPayload(e.ID)
	switch {
	case err != nil:
		return err
	case n != e.Known.Size:
		return fmt.Errorf("payload has %d octets instead of %d", n, e.Known.Size)
	case sum != e.Known.SHA256:
		return errors.New("payload has not its SHA-256 digest")
	}
	return nil
}

// mendPayload mends a job with a lost payload and returns how.
func (c *comparison) mendPayload(e dir.Standing, there bool, why string) (done string, err error) {
	if there {
		to, err := c.dir.SetPayloadAside(e.ID.String())
		if err != nil {
			return "", err
		}
		done = "; moved to " + to
	}
	if e.Known.Status != job.Pending {
		return done, nil
	}
	_, err = c.alter(context.Background(), e.ID, 0, nil, func(j *job.Job, t time.Time) (job.Kind, error) {
		if !j.Held.IsZero() && j.HeldUntil.IsZero() {
			return 0, nil
		}
		j.Hold(t, why, time.Time{})
		return job.Hold, nil
	})
	return done + "; the job is on hold", err
}

// checkResults compares the results of the queue with the job files. Repairing moves
// unknown and damaged results to corrupt/.
func (c *comparison) checkResults(behind map[job.ID]bool) error {
	seen, err := c.dir.ResultDirs(func(name string) { c.problem(c.dir.Path(dir.Results, name), "not the name of a job") })
	if err != nil {
		return err
	}
	c.ledger.Look(func(x *index.Index) {
		for _, id := range x.WithResults() {
			seen[id] = true
		}
	})
	for _, id := range slices.Sorted(maps.Keys(seen)) {
		if behind[id] {
			continue
		}
		if err := c.checkJobResults(id); err != nil {
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

func (c *comparison) checkJobResults(id job.ID) error {
	j, err := c.content.Job(id)
	if err != nil && !errors.Is(err, ledger.ErrNoJob) {
		return err
	}
	var bad []badResult
	for _, want := range j.Results {
		n, err := c.content.CheckResult(id, want)
		if err != nil {
			bad = append(bad, badResult{want.Name, err, true})
		}
		c.Octets += n
	}
	err = c.dir.ResultNames(id, func(name string) {
		if _, ok := j.Result(name); !ok {
			bad = append(bad, badResult{name, errors.New("result that no job file names"), false})
		}
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return c.mendResults(id, bad)
}

// mendResults tells of bad results of a job. Repairing moves their files to corrupt/ and
// takes their names out of the job file, where a note stays.
func (c *comparison) mendResults(id job.ID, bad []badResult) error {
	var lost []string
	for _, b := range bad {
		path, text := c.dir.ResultPath(id, b.name), b.err.Error()
		if content.Transient(b.err) {
			c.unread(path, b.err)
			continue
		}
		if !c.Repair {
			c.problem(path, text)
			continue
		}
		to, err := c.dir.SetResultAside(id, b.name)
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
		c.mended(path, text)
	}
	if len(lost) == 0 {
		return nil
	}
	_, err := c.alter(context.Background(), id, 0, nil, func(j *job.Job, _ time.Time) (job.Kind, error) {
		j.Results = slices.DeleteFunc(slices.Clone(j.Results), func(r job.Result) bool { return slices.Contains(lost, r.Name) })
		j.Extra = append(slices.Clip(j.Extra), anvl.Element{Name: "note", Value: "lost results: " + strings.Join(lost, " ")})
		return job.Update, nil
	})
	return err
}
