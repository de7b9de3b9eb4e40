package client

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/anvl"
	"cutie/queuefs/bulk"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/rest/field"
	"cutie/queuefs/state"
)

// Delete takes a pending job out of its queue (Cutie 5.8).
func (c *Client) Delete(ctx context.Context, queue, job string) (job.Job, error) {
	return decodeJob(c.state(ctx, http.MethodDelete, state.ANVL, c.ref(nil, "content", queue, job), nil, nil))
}

// Requeue puts a consumed or deleted job back in its place. The error is
// [job.ErrConflict] while a consumer works on it.
func (c *Client) Requeue(ctx context.Context, queue, job string) (job.Job, error) {
	return c.post(ctx, "", nil, "requeue", queue, job)
}

// RequeueForced is [Client.Requeue] of a job in work too: its consumer loses it.
func (c *Client) RequeueForced(ctx context.Context, queue, job string) (job.Job, error) {
	return c.post(ctx, "", url.Values{"force": {"true"}}, "requeue", queue, job)
}

// Hold makes consumers pass over a pending job. why may be "".
func (c *Client) Hold(ctx context.Context, queue, job, why string) (job.Job, error) {
	return c.HoldUntil(ctx, queue, job, why, time.Time{})
}

// HoldUntil is Hold up to a time; the zero time is none.
func (c *Client) HoldUntil(ctx context.Context, queue, job, why string, until time.Time) (job.Job, error) {
	return c.post(ctx, "", url.Values{"reason": {why}, "until": {timeOrNone(until)}}, "hold", queue, job)
}

// timeOrNone is a time in a request, "" for the zero time.
func timeOrNone(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return job.FormatTime(t)
}

// Release ends the hold of a pending job.
func (c *Client) Release(ctx context.Context, queue, job string) (job.Job, error) {
	return c.post(ctx, "", nil, "release", queue, job)
}

// Abort takes a job out of work: a pending one is deleted, the lease of a
// consumed one revoked. why may be "".
func (c *Client) Abort(ctx context.Context, queue, job, why string) (job.Job, error) {
	return c.post(ctx, "", url.Values{"message": {why}}, "abort", queue, job)
}

// RequeueEnd puts a consumed or deleted job into the queue once more, as a new
// job at its end, and returns the new job.
func (c *Client) RequeueEnd(ctx context.Context, queue, job string) (job.Job, error) {
	return c.post(ctx, "", url.Values{"end": {"true"}}, "requeue", queue, job)
}

// Extend makes the lease of token end after d from now; 0 is the default of the
// queue. The error is [queuefs.ErrLease] if the lease is gone.
func (c *Client) Extend(ctx context.Context, queue, job, token string, d time.Duration) (job.Job, error) {
	fields := url.Values{}
	if d > 0 {
		fields.Set("seconds", inSeconds(d))
	}
	return c.post(ctx, token, fields, "lease", queue, job)
}

// Conclude reports the outcome of a job and ends the lease of token. The error
// is [queuefs.ErrLease] if the lease is gone.
func (c *Client) Conclude(ctx context.Context, queue, job, token string, r job.Conclusion) (job.Job, error) {
	fields := url.Values{"outcome": {r.Outcome.String()}, "message": {r.Message}}
	if r.Transient {
		fields.Set("type", "transient")
	}
	if r.RetryIn != nil {
		fields.Set("retryIn", inSeconds(*r.RetryIn))
	}
	return c.post(ctx, token, fields, "outcome", queue, job)
}

// Return gives a job back without an outcome. The error is [queuefs.ErrLease]
// if the lease of token is gone.
func (c *Client) Return(ctx context.Context, queue, job, token, message string) (job.Job, error) {
	return c.post(ctx, token, url.Values{"outcome": {"released"}, "message": {message}}, "outcome", queue, job)
}

// PutResult stores u as a result of a job, under its Filename and with its
// MediaType. The error is [queuefs.ErrLease] if the lease of token is gone, and
// [queuefs.ErrResultExists] if the job has a result with the name.
func (c *Client) PutResult(ctx context.Context, queue, jobID, token string, u Upload) error {
	header := http.Header{}
	rest, err := field.SetDigests(map[string][]string(header), u.Expect)
	if err != nil {
		return err
	}
	ref := c.ref(field.PairQuery(rest), "result", queue, jobID, u.Filename)
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, ref, nil)
	if err != nil {
		return err
	}
	req.Header = header
	req.Header.Set("Accept", state.ANVL.MediaType())
	req.Header.Set("Content-Type", cmp.Or(u.MediaType, job.DefaultMediaType))
	req.Header.Set(field.Lease, token)
	setBody(req, []segment{{upload: &u}})
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	_, err = decodeJob(readState(resp))
	return err
}

// Result returns a result of a job, to be closed after use: its Filename is
// the name. The error is [content.ErrNoResult] if the job has none of it.
func (c *Client) Result(ctx context.Context, queue, job, name string) (*Delivery, error) {
	accept := "*/*;q=0.1, " + state.ANVL.MediaType() // of an error
	resp, err := c.send(ctx, http.MethodGet, c.ref(nil, "result", queue, job, name), accept, nil, nil)
	if err != nil {
		return nil, err
	}
	d := &Delivery{Queue: queue, Job: job, Filename: name, MediaType: resp.Header.Get("Content-Type"), Size: resp.ContentLength}
	if d.digests, err = field.Digests(textproto.MIMEHeader(resp.Header)); err != nil {
		resp.Body.Close()
		return nil, fmt.Errorf("result %s of %s: %w", name, job, err)
	}
	d.receive(resp.Body)
	return d, nil
}

// Bulk does o with the selected jobs, and returns the changes. The service
// stops after some time, with More if there may be others: the same call with
// After goes on.
func (c *Client) Bulk(ctx context.Context, queue string, o bulk.Operation, s bulk.Selection) (state.Changes, error) {
	if err := s.Check(); err != nil {
		return state.Changes{}, err
	}
	query := url.Values{}
	setFilter(query, &s.Filter)
	set(query, "older", s.Older.String(), s.Older != 0)
	set(query, "dry", "true", s.Dry)
	set(query, "end", "true", o.End)
	set(query, "force", "true", o.Force)
	set(query, "reason", o.Reason, o.Reason != "")
	set(query, "until", timeOrNone(o.Until), !o.Until.IsZero())
	var (
		header http.Header
		text   []byte
	)
	if len(s.Jobs) > 0 {
		header = http.Header{"Content-Type": {"text/plain"}}
		for _, id := range s.Jobs {
			text = append(id.Append(text), '\n')
		}
	}
	data, err := c.state(ctx, http.MethodPost, state.ANVL, c.ref(query, o.Method, queue), header, text)
	q, err := decodeQueue(data, err)
	return q.Changes, err
}

// Cull culls by o, and returns in Culled the culled jobs, or the due ones if it
// is dry. More says that there are more to cull.
func (c *Client) Cull(ctx context.Context, o queuefs.CullOptions) (state.Changes, error) {
	query := url.Values{}
	set(query, "dry", "true", o.Dry)
	if o.Keep != nil {
		query.Set("cullingSizeThreshold", strconv.FormatInt(o.Keep.Size, 10))
		query.Set("cullingAgeThreshold", strconv.FormatInt(o.Keep.Age, 10))
	}
	path, class := []string{"cull"}, state.ServiceClass
	if o.Queue != "" {
		path, class = append(path, o.Queue), state.QueueClass
	}
	data, err := c.state(ctx, http.MethodPost, state.ANVL, c.ref(query, path...), nil, nil)
	return decoded(data, err, class, (*state.Document).Changes)
}

// post calls a method of one job with the fields of a form. The token of a
// lease goes into the header, since forms end up in logs.
func (c *Client) post(ctx context.Context, token string, fields url.Values, segments ...string) (job.Job, error) {
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	if token != "" {
		header.Set(field.Lease, token)
	}
	for name, values := range fields {
		if strings.Join(values, "") == "" {
			delete(fields, name)
		}
	}
	return decodeJob(c.state(ctx, http.MethodPost, state.ANVL, c.ref(nil, segments...), header, []byte(fields.Encode())))
}

func inSeconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
}

// CreateQueue makes an empty queue of info.Identifier, or info.ID if it is
// empty, and returns its state. The error is [queuefs.ErrQueueExists] if there
// is one.
func (c *Client) CreateQueue(ctx context.Context, info home.QueueInfo) (state.Queue, error) {
	if info.Identifier == "" {
		info.Identifier = info.ID
	}
	var settings anvl.Record
	for i := range home.Properties {
		p := &home.Properties[i]
		if value := p.Append(nil, &info); len(value) > 0 && !p.Fixed {
			settings.Add(p.Name, string(value))
		}
	}
	return c.sendSettings(ctx, http.MethodPut, info.Identifier, settings, "*")
}

// SetQueue sets properties of a queue, in order, by the names of [home.Properties], and
// returns its state. S is pause or restart; an empty value unsets a property. Renaming a queue
// is an error that wraps [job.ErrBadName].
func (c *Client) SetQueue(ctx context.Context, queue string, settings anvl.Record) (state.Queue, error) {
	return c.sendSettings(ctx, http.MethodPost, queue, settings, "")
}

func (c *Client) sendSettings(ctx context.Context, method, queue string, settings anvl.Record, unless string) (state.Queue, error) {
	var text []byte
	for _, p := range settings {
		text = anvl.AppendElement(text, p.Name, p.Value)
	}
	header := http.Header{"Content-Type": {state.ANVL.MediaType()}}
	if unless != "" {
		header.Set("If-None-Match", unless)
	}
	return decodeQueue(c.state(ctx, method, state.ANVL, c.ref(nil, "state", queue), header, text))
}

// RemoveQueue removes a queue without jobs; the error is [ledger.ErrNotEmpty]
// if it has some.
func (c *Client) RemoveQueue(ctx context.Context, queue string) error {
	_, err := c.state(ctx, http.MethodDelete, state.ANVL, c.ref(nil, "state", queue), nil, nil)
	return err
}

// RemoveLost removes a queue whose directory is lost; the error is [queuefs.ErrNotLost] if
// it is there.
func (c *Client) RemoveLost(ctx context.Context, queue string) error {
	_, err := c.state(ctx, http.MethodDelete, state.ANVL, c.ref(url.Values{"lost": {"true"}}, "state", queue), nil, nil)
	return err
}
