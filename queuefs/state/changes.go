package state

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs"
)

// Changes are the changes of a method to several jobs of a queue, in FIFO
// order.
type Changes struct {
	Changed []queuefs.JobID
	Chosen  []queuefs.JobID // to be changed by the same request without dry
	Refused []string        // named jobs that were not changed, and why: "j000000000042: job not found"
	Culled  []queuefs.Culled
	Kept    []queuefs.Kept // due jobs left by culling
	More    bool           // the same request may change more
	After   queuefs.JobID  // only jobs after this one; 0 if unknown
}

func outcomeName(o queuefs.Outcome) string {
	if o == 0 {
		return ""
	}
	return o.String()
}

func (b *builder) changes(base Base, queue string, c *Changes) {
	b.list("changedJobStates", references(base, queue, c.Changed))
	b.list("chosenJobStates", references(base, queue, c.Chosen))
	refused := make([]string, len(c.Refused))
	for i, s := range c.Refused {
		refused[i] = validText(s)
	}
	b.list("refusedJobs", refused)
	b.culled(c)
	if c.After != 0 {
		b.text("moreAfter", c.After.String())
	}
}

// culled adds the common properties of the states of service and queue.
func (b *builder) culled(c *Changes) {
	culled := make([]string, len(c.Culled))
	for i := range c.Culled {
		culled[i] = culledText(&c.Culled[i])
	}
	b.list("culledJobs", culled)
	var kept []string
	for i := range c.Kept {
		kept = appendKept(kept, &c.Kept[i])
	}
	b.list("keptJobs", kept)
	if c.More {
		b.boolean("moreJobs", true)
	}
}

// Changes returns the changes in the state d, of class [QueueClass] or
// [ServiceClass].
func (d *Document) Changes() (c Changes, err error) {
	if c.Changed, err = ids(d.Items("changedJobStates")); err != nil {
		return c, err
	}
	if c.Chosen, err = ids(d.Items("chosenJobStates")); err != nil {
		return c, err
	}
	c.Refused, c.More = d.Items("refusedJobs"), d.Text("moreJobs") == "true"
	if s := d.Text("moreAfter"); s != "" {
		if c.After, err = queuefs.ParseJobID(s); err != nil {
			return c, err
		}
	}
	for _, s := range d.Items("culledJobs") {
		j, err := parseCulled(s)
		if err != nil {
			return c, err
		}
		c.Culled = append(c.Culled, j)
	}
	for _, s := range d.Items("keptJobs") {
		if c.Kept, err = addKept(c.Kept, s); err != nil {
			return c, err
		}
	}
	return c, nil
}

// culledText describes a culled job, without a state any more: queue, job, its
// last status, since when, and the octets of its payload.
func culledText(c *queuefs.Culled) string {
	return c.Queue + " " + c.Job.String() + " " + c.Status.String() + " " + c.At.UTC().Format(dateLayout) + " " + strconv.FormatInt(c.Size, 10)
}

func parseCulled(s string) (c queuefs.Culled, err error) {
	f := strings.Split(s, " ")
	if len(f) != 5 {
		return c, fmt.Errorf("%w: %.80q is no culled job", queuefs.ErrBadName, s)
	}
	if c.Queue, err = queuefs.CleanQueueID(f[0]); err != nil {
		return c, err
	}
	if c.Job, err = queuefs.ParseJobID(f[1]); err != nil {
		return c, err
	}
	if c.Status, err = queuefs.ParseStatus(f[2]); err != nil {
		return c, err
	}
	if c.At, err = time.Parse(dateLayout, f[3]); err != nil {
		return c, err
	}
	if c.Size, err = strconv.ParseInt(f[4], 10, 64); err == nil && c.Size < 0 {
		err = fmt.Errorf("%w: %s is no size", queuefs.ErrBadName, f[4])
	}
	return c, err
}

// keptSpared is why jobs are kept: they are promised for longer.
const keptSpared = "spared"

// appendKept appends the due jobs left by culling: queue, how many, and why.
func appendKept(items []string, k *queuefs.Kept) []string {
	if k.Spared > 0 {
		items = append(items, k.Queue+" "+strconv.Itoa(k.Spared)+" "+keptSpared)
	}
	return items
}

// addKept reads an item of appendKept. Items of one queue stand together.
func addKept(all []queuefs.Kept, s string) ([]queuefs.Kept, error) {
	f := strings.Split(s, " ")
	if len(f) != 3 {
		return all, fmt.Errorf("%w: %.80q are no kept jobs", queuefs.ErrBadName, s)
	}
	queue, err := queuefs.CleanQueueID(f[0])
	if err != nil {
		return all, err
	}
	n, err := strconv.Atoi(f[1])
	if err != nil || n <= 0 {
		return all, fmt.Errorf("%w: %.40q is no number of kept jobs", queuefs.ErrBadName, f[1])
	}
	if len(all) == 0 || all[len(all)-1].Queue != queue {
		all = append(all, queuefs.Kept{Queue: queue})
	}
	k := &all[len(all)-1]
	switch {
	case f[2] == keptSpared && k.Spared == 0:
		k.Spared = n
	default:
		return all, fmt.Errorf("%w: %.40q is no reason to keep jobs, or there are two", queuefs.ErrBadName, f[2])
	}
	return all, nil
}
