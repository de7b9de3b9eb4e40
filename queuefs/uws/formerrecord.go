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

// A record held the data of a job beside the queue.
type record struct {
	id          string
	created     time.Time
	owner       string // "" for one without a name
	submitter   string // user agent
	runID       string
	duration    int64         // seconds; -1: as the queue has it
	destruction time.Time     // zero: never
	params      []pair        // of a PENDING job
	uploads     []upload      // likewise, in the order they came
	from        queuefs.JobID // RUN is on its way: the job has this number or a greater one; 0: it is not
	job         queuefs.JobID // number in the queue; 0 before RUN
	aborted     time.Time     // before RUN
	destroyed   time.Time
	archived    time.Time
}

// uploadName returns the name of the n-th file of a PENDING job.
func uploadName(id string, n int) string { return id + ".upload" + strconv.Itoa(n) }

// seconds returns the duration as it stands in a job file.
func (r *record) seconds() string {
	if r.duration < 0 {
		return ""
	}
	return strconv.FormatInt(r.duration, 10)
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
			// the file has it
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
