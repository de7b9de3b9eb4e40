// Package client calls the methods of a service from Go, see package rest.
//
//	c := client.New("http://127.0.0.1:8080/", nil)
//	report, err := client.File("report.pdf")
//	ids, err := c.Submit(ctx, "jobs", report)
//
// # Submitting
//
// [Client.Submit] returns when the jobs are on stable storage, all of them or none.
// Payloads are streamed. After an error nobody knows whether the jobs are stored, unless
// each [Upload] has a Key: then the call may be made again, and stores nothing twice.
//
// # Working
//
// [Client.Work] is the loop of a worker: it takes jobs with leases, keeps these, and
// reports outcomes. Other loops are made of its parts: [Client.NextFor] takes a job,
// [Client.KeepLease] keeps it, [Client.PutResult] stores a result, [Client.Conclude]
// reports the outcome, and [Client.Return] gives a job back. [Client.Next] takes a job
// without a lease: it is consumed then, whatever becomes of it.
//
// # Errors
//
// A refused request is an [*Error], with its HTTP status. With [errors.Is] it matches the
// error of package queuefs: [queuefs.ErrNoQueue], [queuefs.ErrLease] and so on.
// [Temporary] tells whether the same call may succeed later, and [Retry] makes it again,
// when the service says so.
//
// Contexts end calls. A call that takes a job without a lease may lose it then.
//
// # Getting it
//
// The path of this module is that of no server. The owner of a forge gives it one by
//
//	make module MODULE=forge.example/storage/cutie
//
// and commits the change; then go get finds the package there. Until then a program takes
// the module from a directory, by a line "replace cutie => DIR" in its go.mod.
package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/state"
)

// A Client calls the methods of a service. It is safe for concurrent use.
//
// Names of queues are cleaned identifiers, identifiers, or names.
type Client struct {
	// UserAgent is the submitter and consumer for the service; "" leaves it to
	// package net/http.
	UserAgent string
	// Header is added to every request, for instance Authorization.
	Header http.Header

	base state.Base
	http *http.Client
}

// maxState is the most octets of a state for a Client: more than the state of a
// queue with 10,000 submitted jobs.
const maxState = 8 << 20

// longestWait is how long one request waits for a job; see [Client.Next].
const longestWait = 60 * time.Second

// New returns a Client of the service at the given baseURI, such as
// "http://127.0.0.1:8080/". If hc is nil it is [http.DefaultClient]. A timeout
// of hc counts for a whole request, with its payload and with the wait for a
// job.
func New(base string, hc *http.Client) *Client {
	if hc == nil {
		hc = http.DefaultClient
	}
	return &Client{base: state.NewBase(base), http: hc}
}

func decodeJob(data []byte, err error) (queuefs.Job, error) {
	if err != nil {
		return queuefs.Job{}, err
	}
	d, err := state.ANVL.Decode(state.JobClass, data)
	if err != nil {
		return queuefs.Job{}, err
	}
	return d.Job()
}

func decodeQueue(data []byte, err error) (state.Queue, error) {
	if err != nil {
		return state.Queue{}, err
	}
	d, err := state.ANVL.Decode(state.QueueClass, data)
	if err != nil {
		return state.Queue{}, err
	}
	return d.Queue()
}

// ref returns the URL of a resource.
func (c *Client) ref(query url.Values, segments ...string) string {
	ref := c.base.Ref(segments...)
	if len(query) > 0 {
		ref += "?" + query.Encode()
	}
	return ref
}

// state sends a request with a body in memory and returns the state in the
// answer.
func (c *Client) state(ctx context.Context, method string, form state.Form, ref string, header http.Header, text []byte) ([]byte, error) {
	if form.MediaType() == "" {
		return nil, fmt.Errorf("%w: %s", state.ErrForm, form)
	}
	req, err := http.NewRequestWithContext(ctx, method, ref, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("Accept", form.MediaType())
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	return readState(resp)
}

func readState(resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxState+1))
	if err == nil && len(data) > maxState {
		err = fmt.Errorf("state from %s has more than %d octets", resp.Request.URL.Redacted(), maxState)
	}
	return data, err
}

// doAs sends a request of a user agent, "" for that of the Client.
func (c *Client) doAs(req *http.Request, by, accept string) (*http.Response, error) {
	req.Header.Set("Accept", accept)
	if by != "" {
		req.Header.Set("User-Agent", by)
	}
	return c.Do(req)
}

// Do sends a request. An answer of 400 or above, or outside of the protocol, is
// an error.
func (c *Client) Do(req *http.Request) (*http.Response, error) {
	for name, values := range c.Header {
		req.Header[name] = values
	}
	if c.UserAgent != "" && req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", c.UserAgent)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	if resp.StatusCode < 400 {
		return nil, fmt.Errorf("%s answers %s instead of a method", req.URL.Redacted(), resp.Status)
	}
	e := &Error{Status: resp.StatusCode, After: retryAfter(resp.Header)}
	data, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return nil, errors.Join(e, err)
	}
	// An answer of a proxy has nothing but its status.
	form, err := state.FormOf(resp.Header.Get("Content-Type"))
	if err != nil {
		return nil, e
	}
	e.Message = state.DetailOf(form, data)
	return nil, e
}
