// Package client calls the methods of a service from Go: submit, consume, peek, states,
// leases and results, changes of many jobs, queues, and streams of events. Package rest
// serves them.
//
// Every method takes a context, and ends with it. After a lost answer [Client.Submit] and
// [Client.NextFor] may be called again with the same key: nothing happens twice.
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
	"cutie/queuefs/web"
)

// A Client calls the methods of a service. It is safe for concurrent use.
//
// A refused request is a [*web.Error]; with [errors.Is] it matches the error of
// package queuefs for the same local call. Names of queues are cleaned
// identifiers, identifiers, or names.
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
	e := &web.Error{Status: resp.StatusCode}
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
