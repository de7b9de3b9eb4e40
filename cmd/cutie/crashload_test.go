package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"path"
	"sync/atomic"
	"time"

	"cutie/queuefs"
)

// A verbKind is what a client asks for.
type verbKind uint8

const (
	opSubmit verbKind = iota
	opConsume
	opDelete
	opRequeue
)

// An operation is one request and what is known of its end.
type operation struct {
	kind       verbKind
	op         int
	start, end time.Time // of the request; the end if acknowledged
	acked      bool

	files int             // submit: how many
	ids   []queuefs.JobID // submit: the jobs; acked only

	most int        // consume: at most so many
	got  []delivery // consume: what came whole, also of an answer that broke off

	job    queuefs.JobID // delete, requeue
	done   bool          // delete: not refused because the job is consumed
	number queuefs.Seq   // submit of one, delete, requeue: last event of the job
}

// A delivery is a job as it was handed out.
type delivery struct {
	job queuefs.JobID
	ticket
}

// A loader submits, takes and moves jobs, one operation after the other.
type loader struct {
	number int
	base   string
	http   *http.Client
	random *rand.Rand
	ops    int // made so far, over all rounds
	count  *atomic.Int64
	stop   <-chan struct{} // closed when it is to stop; nil: with the daemon
	faults bool            // an error of the server is like no answer
	rest   time.Duration   // after each operation

	mine  []queuefs.JobID // submitted by this client
	taken []queuefs.JobID // handed out to it, or deleted by it
	log   []operation     // of this round
}

// run makes requests until the daemon is gone, or it is to stop. An error is an answer that
// should not have been.
func (c *loader) run() error {
	c.log = c.log[:0]
	for {
		select {
		case <-c.stop:
			return nil
		default:
		}
		c.log = append(c.log, operation{op: c.ops, start: time.Now()})
		c.ops++
		o := &c.log[len(c.log)-1]
		gone, err := c.next(o)
		if err != nil {
			return fmt.Errorf("client %d, operation %d: %w", c.number, o.op, err)
		}
		if gone {
			return nil
		}
		o.acked, o.end = true, time.Now()
		c.count.Add(1)
		time.Sleep(c.rest)
	}
}

// next makes one operation of a mixture in which the queue grows slowly.
func (c *loader) next(o *operation) (gone bool, err error) {
	n := c.random.IntN(100)
	switch {
	case n < 8 && len(c.mine) > 0:
		o.kind, o.job = opDelete, c.mine[len(c.mine)-1-c.random.IntN(min(len(c.mine), 50))]
		return c.move(o)
	case n < 20 && len(c.taken) > 0:
		o.kind, o.job = opRequeue, c.taken[len(c.taken)-1-c.random.IntN(min(len(c.taken), 50))]
		return c.move(o)
	case n < 50:
		o.kind, o.most = opConsume, 1
		return c.consumeOne(o)
	case n < 60:
		o.kind, o.most = opConsume, 2+c.random.IntN(40)
		return c.consumeSeveral(o)
	case n < 70:
		o.kind, o.files = opSubmit, 2+c.random.IntN(30)
		return c.submitForm(o)
	case n < 73:
		return c.submit(o, 130<<10+c.random.IntN(200<<10))
	default:
		return c.submit(o, c.random.IntN(2<<10))
	}
}

// do sends a request. The daemon is gone if the answer does not come whole.
func (c *loader) do(method, path, contentType, accept string, header http.Header, body []byte) (resp *http.Response, text []byte, err error) {
	r, err := http.NewRequest(method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	for name, values := range header {
		r.Header[name] = values
	}
	r.Header.Set("Accept", accept)
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	if resp, err = c.http.Do(r); err != nil {
		return nil, nil, nil
	}
	defer resp.Body.Close()
	if text, err = io.ReadAll(resp.Body); err != nil || c.failed(resp) {
		return nil, text, nil
	}
	return resp, text, nil
}

// failed reports whether nobody knows after the answer what was done.
func (c *loader) failed(resp *http.Response) bool {
	return c.faults && resp.StatusCode >= http.StatusInternalServerError
}

func (c *loader) submit(o *operation, size int) (gone bool, err error) {
	o.kind, o.files = opSubmit, 1
	k := ticket{client: c.number, op: o.op, files: 1, size: size}
	header := http.Header{}
	if s := k.sidecar(); s != "" {
		header.Set("Cutie-Sidecar", url.PathEscape(s))
	}
	resp, text, err := c.do("POST", "content/jobs", "text/plain", "application/json", header, k.payload())
	if resp == nil || err != nil {
		return true, err
	}
	return false, c.submitted(o, resp, text)
}

// submitForm submits several files, which are stored all or none.
func (c *loader) submitForm(o *operation) (gone bool, err error) {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for i := range o.files {
		k := ticket{c.number, o.op, i, o.files, c.random.IntN(1 << 10)}
		header := textproto.MIMEHeader{"Content-Type": {"text/plain"},
			"Content-Disposition": {fmt.Sprintf(`form-data; name="file"; filename="file %d"`, i)}}
		if s := k.sidecar(); s != "" {
			header.Set("Cutie-Sidecar", url.PathEscape(s))
		}
		w, err := form.CreatePart(header)
		if err != nil {
			return false, err
		}
		w.Write(k.payload())
	}
	form.Close()
	resp, text, err := c.do("POST", "content/jobs", form.FormDataContentType(), "application/json", nil, body.Bytes())
	if resp == nil || err != nil {
		return true, err
	}
	return false, c.submitted(o, resp, text)
}

func (c *loader) submitted(o *operation, resp *http.Response, text []byte) error {
	if resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("submit: %s: %.200s", resp.Status, text)
	}
	var answer struct { // of a queue, or of a job
		Submitted []string `json:"submittedJobStates"`
		jobAnswer
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return err
	}
	refs := answer.Submitted
	if o.files == 1 {
		refs = []string{answer.ID}
		o.number = answer.Sequence
	}
	for _, ref := range refs {
		id, err := queuefs.ParseJobID(path.Base(ref))
		if err != nil {
			return err
		}
		o.ids = append(o.ids, id)
	}
	if len(o.ids) != o.files {
		return fmt.Errorf("submit: %d jobs for %d files", len(o.ids), o.files)
	}
	c.mine = append(c.mine, o.ids...)
	return nil
}

// jobAnswer is what is read of a job state.
type jobAnswer struct {
	ID       string      `json:"identifier"`
	Status   string      `json:"status"`
	Sequence queuefs.Seq `json:"sequence"`
}

func (c *loader) consumeOne(o *operation) (gone bool, err error) {
	resp, text, err := c.do("POST", "consume/jobs", "", "application/octet-stream", nil, nil)
	switch {
	case resp == nil || err != nil:
		return true, err
	case resp.StatusCode == http.StatusNoContent:
		return false, nil
	case resp.StatusCode != http.StatusOK:
		return false, fmt.Errorf("consume: %s: %.200s", resp.Status, text)
	}
	return false, c.received(o, textproto.MIMEHeader(resp.Header), text)
}

// consumeSeveral takes many. Of an answer that breaks off the whole parts
// count: those jobs have been handed out.
func (c *loader) consumeSeveral(o *operation) (gone bool, err error) {
	r, err := http.NewRequest("POST", fmt.Sprintf("%sconsume/jobs?max=%d", c.base, o.most), nil)
	if err != nil {
		return false, err
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return true, nil
	}
	defer resp.Body.Close()
	switch {
	case c.failed(resp):
		return true, nil
	case resp.StatusCode == http.StatusNoContent:
		return false, nil
	case resp.StatusCode != http.StatusOK:
		return false, fmt.Errorf("consume: %s", resp.Status)
	}
	_, params, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return false, err
	}
	for parts := multipart.NewReader(resp.Body, params["boundary"]); ; {
		p, err := parts.NextPart()
		if err == io.EOF {
			return false, nil
		}
		if err != nil {
			return true, nil
		}
		text, err := io.ReadAll(p)
		if err != nil {
			return true, nil
		}
		if err := c.received(o, p.Header, text); err != nil {
			return false, err
		}
	}
}

func (c *loader) received(o *operation, header textproto.MIMEHeader, payload []byte) error {
	id, err := queuefs.ParseJobID(path.Base(header.Get("Content-Location")))
	if err != nil {
		return fmt.Errorf("consume: Content-Location: %w", err)
	}
	sidecar, err := url.PathUnescape(header.Get("Cutie-Sidecar"))
	if err != nil {
		return fmt.Errorf("consume: %s: %w", id, err)
	}
	k, err := parseTicket(payload, sidecar)
	if err != nil {
		return fmt.Errorf("consume: %s: %w", id, err)
	}
	o.got = append(o.got, delivery{id, k})
	c.taken = append(c.taken, id)
	return nil
}

// move deletes or requeues a job.
func (c *loader) move(o *operation) (gone bool, err error) {
	method, path, want := "POST", "requeue/jobs/", http.StatusOK
	if o.kind == opDelete {
		method, path, want = "DELETE", "content/jobs/", http.StatusAccepted
	}
	resp, text, err := c.do(method, path+o.job.String(), "", "application/json", nil, nil)
	if resp == nil || err != nil {
		return true, err
	}
	if o.kind == opDelete && resp.StatusCode == http.StatusConflict {
		return false, nil
	}
	if resp.StatusCode != want {
		return false, fmt.Errorf("%s %s%s: %s: %.200s", method, path, o.job, resp.Status, text)
	}
	var answer jobAnswer
	if err := json.Unmarshal(text, &answer); err != nil {
		return false, err
	}
	if to := answer.Status; to != map[verbKind]string{opDelete: "deleted", opRequeue: "pending"}[o.kind] {
		return false, fmt.Errorf("%s %s%s: the job is %s", method, path, o.job, to)
	}
	o.done, o.number = true, answer.Sequence
	if o.kind == opDelete {
		c.taken = append(c.taken, o.job)
	}
	return false, nil
}
