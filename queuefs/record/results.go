package record

import (
	"strings"

	"cutie/queuefs/job"
)

// A record without a temporary file may name the changed results of its job in the same
// field: /+NAME for a new one, described in the job file, and /-NAME for a removed one.
const (
	cameMark = "/+"
	wentMark = "/-"
)

// MaxResultNames bounds the names of all results of a job before and after an event.
const MaxResultNames = 2 * job.MaxResults * (len(cameMark) + job.MaxResultName)

// SetResults names the changes from the results before to the results after.
func (r *Record) SetResults(before, after []job.Result) {
	r.NameResults(job.Results(before, after))
}

// NameResults names changes of results.
func (r *Record) NameResults(c *job.ResultChange) {
	if c == nil || r.Flags&(InTemp|Result) != 0 {
		return
	}
	var b strings.Builder
	for _, res := range c.Came {
		b.WriteString(cameMark + res.Name)
	}
	for _, name := range c.Went {
		b.WriteString(wentMark + name)
	}
	r.Temp = b.String()
}

// resultChange returns the named changes of results. New ones need the job file: see Lacks.
func (r *Record) resultChange() *job.ResultChange {
	if r.Flags&InTemp != 0 || r.Temp == "" {
		return nil
	}
	var c job.ResultChange
	came := map[string]bool{}
	if r.Flags&Result != 0 {
		_, name, _ := strings.Cut(r.Temp, "/")
		came[name] = true
	} else {
		for entry := range strings.SplitSeq(r.Temp[1:], "/") {
			if name, ok := strings.CutPrefix(entry, wentMark[1:]); ok {
				c.Went = append(c.Went, name)
			} else {
				came[strings.TrimPrefix(entry, cameMark[1:])] = true
			}
		}
	}
	if len(came) > 0 {
		j, err := job.Parse(r.File.Text)
		if err != nil {
			return nil // no file of ours
		}
		for _, res := range j.Results {
			if came[res.Name] {
				c.Came = append(c.Came, res)
			}
		}
	}
	return &c
}

// Lacks reports whether the record was read without its job file, and Event needs it.
func (r *Record) Lacks() bool {
	return r.File.Text == nil && r.File.TextSize() > 0 && (r.Flags&Result != 0 || strings.Contains(r.Temp, cameMark))
}
