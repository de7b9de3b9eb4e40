package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/digest"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/rest/field"
	"cutie/queuefs/state"
)

// A Delivery is a job as a service hands it out.
type Delivery struct {
	Queue      string // cleaned identifier
	Job        string
	Filename   string // "" if it has none
	MediaType  string
	Sidecar    string
	HasSidecar bool          // there is a sidecar; it may be empty
	Size       int64         // octets of the payload
	Lease      string        // token of its lease; "" if it has none
	Expires    time.Time     // when the lease is over; zero if it has none
	Attempt    int           // how often the job was handed out with it; 0 if it has no lease
	Trace      [2]string     // traceparent and tracestate (W3C Trace Context); "": none
	Base       state.Base    // of the references of the service
	Body       io.ReadCloser // the payload; to be closed. It ends in an error if less than Size comes, or other octets than its digest says

	digests []digest.Value // of the payload
}

// Next takes the job at the head of a queue (Cutie 5.6). If none is pending it
// waits for up to wait, with several requests if wait is more than a minute.
// Then the error is [ledger.ErrEmpty].
func (c *Client) Next(ctx context.Context, queue string, wait time.Duration) (*Delivery, error) {
	return c.NextFor(ctx, queue, queuefs.Take{}, wait)
}

// NextFor is [Client.Next] as t says: with a lease, or with the key of a request that may
// be sent again.
// Its Max does not count.
func (c *Client) NextFor(ctx context.Context, queue string, t queuefs.Take, wait time.Duration) (*Delivery, error) {
	t.Max = 0
	resp, err := c.consume(ctx, queue, t, wait, job.DefaultMediaType)
	if err != nil {
		return nil, err
	}
	return c.delivery(ctx, resp)
}

// NextN takes up to most jobs, at most 1000, with one request, and waits as
// [Client.Next] does. Each Delivery is good until the next one. If no job is
// pending it yields [ledger.ErrEmpty] alone. All the jobs are consumed when
// the first one comes, so stopping early loses jobs.
func (c *Client) NextN(ctx context.Context, queue string, most int, wait time.Duration) iter.Seq2[*Delivery, error] {
	return c.Take(ctx, queue, queuefs.Take{Max: most}, wait)
}

// Take takes jobs as t says, with a lease if it asks for one, and gives them as
// [Client.NextN] does. A lease lasts 24 hours at most.
func (c *Client) Take(ctx context.Context, queue string, t queuefs.Take, wait time.Duration) iter.Seq2[*Delivery, error] {
	t.Max = max(t.Max, 1)
	return func(yield func(*Delivery, error) bool) {
		resp, err := c.consume(ctx, queue, t, wait, job.DefaultMediaType)
		if err != nil {
			yield(nil, err)
			return
		}
		defer resp.Body.Close()
		media, params, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
		if err != nil || media != "multipart/mixed" || params["boundary"] == "" {
			yield(nil, fmt.Errorf("jobs come as %q instead of multipart/mixed", resp.Header.Get("Content-Type")))
			return
		}
		parts := multipart.NewReader(resp.Body, params["boundary"])
		for {
			p, err := parts.NextRawPart()
			if err == io.EOF {
				return
			}
			var d *Delivery
			if err == nil {
				d, err = newDelivery(p.Header)
			}
			if err != nil {
				yield(nil, fmt.Errorf("jobs of %s: %w", queue, err))
				return
			}
			d.receive(p)
			if !yield(d, nil) {
				return
			}
		}
	}
}

// Peek returns a job and leaves it where it is (Cutie 5.7): the one at the head
// if job is "", or [ledger.ErrEmpty]; else a job of any status.
func (c *Client) Peek(ctx context.Context, queue, jobID string) (*Delivery, error) {
	resp, err := c.take(ctx, http.MethodGet, c.contentRef(queue, jobID), "", job.DefaultMediaType, "")
	if err != nil {
		return nil, err
	}
	return c.delivery(ctx, resp)
}

func (c *Client) contentRef(queue, job string) string {
	if job == "" {
		return c.ref(nil, "content", queue)
	}
	return c.ref(nil, "content", queue, job)
}

func (c *Client) consume(ctx context.Context, queue string, t queuefs.Take, wait time.Duration, accept string) (*http.Response, error) {
	for {
		query := url.Values{}
		set(query, "max", strconv.Itoa(t.Max), t.Max != 0)
		set(query, "lease", inSeconds(t.Lease), t.Lease > 0)
		once := min(wait, longestWait)
		wait -= once
		set(query, "wait", inSeconds(once), once > 0)
		resp, err := c.take(ctx, http.MethodPost, c.ref(query, "consume", queue), t.By, accept, t.Key)
		if err != ledger.ErrEmpty || wait <= 0 {
			return resp, err
		}
	}
}

// orError completes the Accept of a request for a payload: an error comes in a form.
var orError = ", " + state.ANVL.MediaType() + ";q=0.1"

func (c *Client) take(ctx context.Context, method, ref, by, accept, key string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, ref, nil)
	if err != nil {
		return nil, err
	}
	field.SetKey(req.Header, key)
	resp, err := c.doAs(req, by, accept+orError)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusNoContent {
		resp.Body.Close()
		return nil, ledger.ErrEmpty
	}
	return resp, nil
}

// delivery makes a Delivery of an answer with a bare payload.
func (c *Client) delivery(ctx context.Context, resp *http.Response) (*Delivery, error) {
	d, err := newDelivery(textproto.MIMEHeader(resp.Header))
	if err != nil {
		resp.Body.Close()
		return nil, err
	}
	if resp.Header.Get(field.SidecarLength) != "" {
		j, err := c.Job(ctx, d.Queue, d.Job)
		if err != nil {
			resp.Body.Close()
			return nil, fmt.Errorf("sidecar of %s: %w", d.Job, err)
		}
		d.Sidecar, d.HasSidecar = j.Sidecar, true
	}
	d.receive(resp.Body)
	return d, nil
}

// newDelivery reads the header of an answer or a part.
func newDelivery(header textproto.MIMEHeader) (*Delivery, error) {
	queue, id, err := state.ParseJobRef(header.Get("Content-Location"))
	if err != nil {
		return nil, fmt.Errorf("header Content-Location: %w", err)
	}
	d := &Delivery{Queue: queue, Job: id.String(), MediaType: header.Get("Content-Type"), Base: baseOf(header.Get("Content-Location"))}
	if d.Size, err = strconv.ParseInt(header.Get("Content-Length"), 10, 64); err != nil || d.Size < 0 {
		return nil, fmt.Errorf("%s comes without its length", d.Job)
	}
	if d.Filename, err = field.Filename(header.Get("Content-Disposition")); err != nil {
		return nil, fmt.Errorf("%s: %w", d.Job, err)
	}
	if d.Sidecar, err = url.PathUnescape(header.Get(field.Sidecar)); err != nil {
		return nil, fmt.Errorf("sidecar of %s: %w", d.Job, err)
	}
	d.HasSidecar = header[field.Sidecar] != nil
	if d.digests, err = field.Digests(header); err != nil {
		return nil, fmt.Errorf("%s: %w", d.Job, err)
	}
	d.Trace = [2]string{header.Get(field.TraceParent), header.Get(field.TraceState)}
	if d.Lease = header.Get(field.Lease); d.Lease != "" {
		if d.Expires, err = time.Parse(time.RFC3339Nano, header.Get(field.LeaseExpires)); err != nil {
			return nil, fmt.Errorf("lease of %s: %w", d.Job, err)
		}
		if d.Attempt, err = strconv.Atoi(header.Get(field.Attempt)); err != nil {
			return nil, fmt.Errorf("lease of %s: %w", d.Job, err)
		}
	}
	return d, nil
}

// baseOf returns what stands before /content/QUEUE/JOB.
func baseOf(ref string) state.Base {
	for range 3 {
		ref, _, _ = state.CutLast(ref)
	}
	return state.Base(ref)
}

// Document returns the job as its consumer got it.
func (d *Delivery) Document() (state.Document, error) {
	id, err := job.ParseID(d.Job)
	j := job.Job{ID: id, Queue: d.Queue, Filename: d.Filename, MediaType: d.MediaType, Sidecar: d.Sidecar, EmptySidecar: d.HasSidecar && d.Sidecar == "", Size: d.Size,
		Attempts: d.Attempt, Lease: job.Lease{Ends: d.Expires}}
	return state.OfTaken(d.Base, &j, d.Lease), err
}

// receive makes Body of the octets of an answer.
func (d *Delivery) receive(body io.ReadCloser) {
	sums := digest.NewReader(body, d.digests)
	d.Body = &exactBody{Reader: sums, Closer: body, verify: sums.Verify, left: d.Size}
}

// An exactBody ends in an error if it is shorter than announced, or has other digests.
type exactBody struct {
	io.Reader
	io.Closer
	verify func() error
	left   int64 // below 0: the length is not known
}

func (b *exactBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	whole := n > 0 && b.left == int64(n)
	b.left -= int64(n)
	if err == io.EOF && b.left > 0 {
		return n, io.ErrUnexpectedEOF
	}
	// Who knows the length may not read on to the end.
	if whole && err == nil || err == io.EOF {
		if wrong := b.verify(); wrong != nil {
			return n, fmt.Errorf("payload is damaged: %w", wrong)
		}
	}
	return n, err
}

// NextMessage is [Client.Next] for the unchanged message of the service: a
// message of multipart/form-data (Cutie 5.6), with the header for its parts.
// MediaType, Size and Body are of the message; Filename and Sidecar are among
// its parts. t may ask for a lease; its Max does not count.
func (c *Client) NextMessage(ctx context.Context, queue string, t queuefs.Take, wait time.Duration) (*Delivery, error) {
	t.Max = 0
	resp, err := c.consume(ctx, queue, t, wait, "multipart/form-data")
	if err != nil {
		return nil, err
	}
	return c.message(ctx, resp)
}

// PeekMessage is [Client.Peek] for the unchanged message (Cutie 5.7), like
// [Client.NextMessage].
func (c *Client) PeekMessage(ctx context.Context, queue, job string) (*Delivery, error) {
	resp, err := c.take(ctx, http.MethodGet, c.contentRef(queue, job), "", "multipart/form-data", "")
	if err != nil {
		return nil, err
	}
	return c.message(ctx, resp)
}

// message puts the header of an answer before its body. Nothing secret is in
// it: the token of a lease is given beside it.
func (c *Client) message(ctx context.Context, resp *http.Response) (*Delivery, error) {
	d, err := c.delivery(ctx, resp)
	if err != nil {
		return nil, err
	}
	head := fmt.Appendf(nil, "MIME-Version: 1.0\r\nContent-Type: %s\r\nContent-Location: %s\r\n\r\n",
		d.MediaType, resp.Header.Get("Content-Location"))
	d.Size += int64(len(head))
	d.Body = headed{io.MultiReader(bytes.NewReader(head), d.Body), d.Body}
	return d, nil
}

// A headed body has something before it.
type headed struct {
	io.Reader
	io.Closer
}
