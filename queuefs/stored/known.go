package stored

import (
	"slices"

	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/journal/bucket"
	"cutie/queuefs/record"
)

// Known is a home without its jobs, by its image and the journal since.
type Known struct {
	Imaged  bool                     // the directory has the files of an image
	Service string                   // cutie-info.txt, "" if the journal has none
	Queues  []*Queue                 // in the order in which they were made
	Gone    map[string]index.Numbers // queues of the image, gone or made again, and their last numbers
}

// A Queue is a queue, without its jobs.
type Queue struct {
	ID       string
	Kept     bool          // it is in the image; the other fields have changes only
	Since    journal.LSN   // records before are of former queues of the name
	Former   index.Numbers // their last numbers
	Info     string        // queue-info.txt
	Modified int64         // µs; its date
	Callback string        // URL for callbacks
}

// scan reads a journal from a record on, 0 means all of it. imaged are the queues there are
// in an image at this record.
func scan(log *bucket.Log, from journal.LSN, imaged []string) (*Known, error) {
	k := &Known{Imaged: from > 0, Gone: map[string]index.Numbers{}}
	last := map[string]index.Numbers{}
	open := map[string]*Queue{}
	for _, id := range imaged {
		open[id] = &Queue{ID: id, Kept: true}
		k.Queues = append(k.Queues, open[id])
	}
	var r record.Record
	for rec, err := range log.Read(from) {
		if err != nil {
			return nil, err
		}
		c, is, err := record.ParseHomeChange(rec.Data)
		if err == nil && !is {
			err = r.Parse(rec.Data)
		}
		if err != nil {
			return nil, err
		}
		if is {
			k.change(&c, rec.LSN, open, last)
			continue
		}
		last[r.Queue] = last[r.Queue].Max(index.Numbers{Job: r.Job, Seq: r.Seq, Time: r.Time})
		if q := open[r.Queue]; q != nil && r.Job == 0 && r.Kind != job.Phase {
			q.Modified = r.Payload.Submitted
			if len(r.File.Text) > 0 {
				q.Info = string(r.File.Text)
			}
		}
	}
	for id := range k.Gone {
		k.Gone[id] = last[id]
	}
	return k, nil
}

// change takes in a change of the home. open are the queues there are, and last their
// last numbers.
func (k *Known) change(c *record.HomeChange, at journal.LSN, open map[string]*Queue, last map[string]index.Numbers) {
	q := open[c.Queue]
	switch {
	case c.Kind == record.ServiceInfo:
		k.Service = c.Text
	case c.Kind == record.QueueMade:
		k.drop(q)
		q = &Queue{ID: c.Queue, Since: at, Former: last[c.Queue], Info: c.Text, Modified: c.Time}
		if former := open[c.Queue]; former != nil {
			q.Callback = former.Callback
		}
		open[c.Queue] = q
		k.Queues = append(k.Queues, q)
	case c.Kind == record.CallbackURL && q == nil:
		// Before its queue: the URL is noted first.
		open[c.Queue] = &Queue{ID: c.Queue, Callback: c.Text}
	case q == nil:
	case c.Kind == record.CallbackURL:
		q.Callback = c.Text
	case c.Kind == record.QueueInfo:
		q.Info = c.Text
	case c.Kind == record.QueueGone:
		k.drop(q)
		delete(open, c.Queue)
	}
}

// drop takes a queue out.
func (k *Known) drop(q *Queue) {
	if q != nil && q.Kept {
		k.Gone[q.ID] = index.Numbers{}
	}
	k.Queues = slices.DeleteFunc(k.Queues, func(o *Queue) bool { return o == q })
}
