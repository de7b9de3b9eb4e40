package uws

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/anvl"
)

// A record is what is kept of a job outside the queue; see the package comment.
type record struct {
	id          string
	created     time.Time
	owner       string // "" for one without a name
	submitter   string // user agent
	runID       string
	duration    int64         // seconds; -1: as the queue has it
	destruction time.Time     // zero: never
	params      []pair        // of a staged job
	uploads     []upload      // of a staged job, in the order they came
	from        queuefs.JobID // RUN is on its way: the job has this number or a greater one; 0: it is not
	job         queuefs.JobID // number in the queue; 0 before RUN
	aborted     time.Time     // of a staged job
	destroyed   time.Time
	archived    time.Time
}

// An upload is a file that came with a job.
type upload struct {
	name      string // of the parameter
	filename  string
	mediaType string
	size      int64
}

// Limits, in octets.
const (
	maxParams = 256 << 10 // names and values of the parameters of a job
	maxLabel  = 1024      // a run identifier, a file name, a media type
	maxRecord = 4*maxParams + 256<<10
)

func (r *record) text() []byte {
	var a anvl.Record
	date := func(name string, t time.Time) {
		if !t.IsZero() {
			a.Add(name, formatTime(t))
		}
	}
	word := func(name, value string) {
		if value != "" {
			a.Add(name, value)
		}
	}
	date("created", r.created)
	word("owner", r.owner)
	word("submitter", r.submitter)
	word("runId", r.runID)
	if r.duration >= 0 {
		a.Add("executionDuration", strconv.FormatInt(r.duration, 10))
	}
	date("destruction", r.destruction)
	for _, p := range r.params {
		a.Add("parameter", url.QueryEscape(p.name)+"="+url.QueryEscape(p.value))
	}
	for _, u := range r.uploads {
		a.Add("upload", u.name)
		word("uploadFilename", u.filename)
		word("uploadMediaType", u.mediaType)
		a.Add("uploadSize", strconv.FormatInt(u.size, 10))
	}
	if r.from != 0 {
		a.Add("running", r.from.String())
	}
	if r.job != 0 {
		a.Add("job", r.job.String())
	}
	date("aborted", r.aborted)
	date("destroyed", r.destroyed)
	date("archived", r.archived)
	return anvl.AppendRecord(nil, a)
}

func parseRecord(id string, text []byte) (*record, error) {
	a, err := anvl.ParseRecord(text)
	if err != nil {
		return nil, err
	}
	r := &record{id: id, duration: -1}
	up := &upload{} // the last one
	for _, el := range a {
		v := el.Value
		switch el.Name {
		case "created":
			r.created, err = parseTime(v)
		case "owner":
			r.owner = v
		case "submitter":
			r.submitter = v
		case "runId":
			r.runID = v
		case "executionDuration":
			r.duration, err = strconv.ParseInt(v, 10, 32)
		case "destruction":
			r.destruction, err = parseTime(v)
		case "parameter":
			var p pair
			name, value, _ := strings.Cut(v, "=")
			if p.name, err = url.QueryUnescape(name); err == nil {
				p.value, err = url.QueryUnescape(value)
			}
			r.params = append(r.params, p)
		case "upload":
			r.uploads = append(r.uploads, upload{name: v})
			up = &r.uploads[len(r.uploads)-1]
		case "uploadFilename":
			up.filename = v
		case "uploadMediaType":
			up.mediaType = v
		case "uploadSize":
			up.size, err = strconv.ParseInt(v, 10, 64)
		case "running":
			r.from, err = queuefs.ParseJobID(v)
		case "job":
			r.job, err = queuefs.ParseJobID(v)
		case "aborted":
			r.aborted, err = parseTime(v)
		case "destroyed":
			r.destroyed, err = parseTime(v)
		case "archived":
			r.archived, err = parseTime(v)
		default:
			err = fmt.Errorf("not known here")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", el.Name, err)
		}
	}
	if r.created.IsZero() {
		return nil, fmt.Errorf("it does not say when the job was created")
	}
	return r, nil
}
