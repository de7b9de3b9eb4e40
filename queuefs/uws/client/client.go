// Package client is the client half of UWS: it uses a Universal Worker Service of ours
// or of others (IVOA UWS 1.1, REC 2016-10-24; services of 1.0 answer too, without
// waiting). It makes no use of the list filters PHASE and AFTER, of quotes, and of
// changes of duration and destruction.
package client

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/wellknown"
)

// A Client uses services. Job lists and jobs are named by their URLs, which have no
// slash at their ends.
type Client struct {
	HTTP      *http.Client
	UserAgent string
}

// An Error is the answer of a service that refuses.
type Error struct {
	URL     string
	Status  int
	Message string // one line
}

func (e *Error) Error() string { return e.URL + ": " + e.Message }

// A Ref is a job in a job list.
type Ref struct {
	ID      string `xml:"id,attr"`
	Phase   string `xml:"phase"`
	RunID   string `xml:"runId"`
	Created string `xml:"creationTime"` // as the service writes it
}

// A Job is what a job says of itself.
type Job struct {
	XMLName xml.Name `xml:"job"`
	Version string   `xml:"version,attr"` // "" is 1.0
	ID      string   `xml:"jobId"`
	RunID   string   `xml:"runId"`
	Phase   string   `xml:"phase"`
	Created string   `xml:"creationTime"` // only since version 1.1
	Results []Result `xml:"results>result"`
}

// A Result is a result of a job. Its Href may be relative to the job.
type Result struct {
	ID   string `xml:"id,attr"`
	Href string `xml:"http://www.w3.org/1999/xlink href,attr"`
}

// List returns the newest jobs of a job list, up to last of them. It follows links to
// further parts of the list.
func (c *Client) List(ctx context.Context, list string, last int) (refs []Ref, err error) {
	for where := fmt.Sprintf("%s?LAST=%d", list, last); ; {
		var jobs struct {
			XMLName xml.Name `xml:"jobs"`
			Refs    []Ref    `xml:"jobref"`
		}
		text, header, err := c.document(ctx, where)
		if err == nil {
			err = unmarshal(text, &jobs)
		}
		if err != nil {
			return nil, err
		}
		refs = append(refs, jobs.Refs...)
		next := wellknown.Links(header, "next")
		if len(refs) >= last || len(next) == 0 {
			return refs[:min(len(refs), last)], nil // 1.0 knows no LAST
		}
		if where, err = resolve(where, next[0]); err != nil {
			return nil, err
		}
	}
}

// resolve returns a reference in an answer as a URL.
func resolve(where, ref string) (string, error) {
	base, err := url.Parse(where)
	if err != nil {
		return "", err
	}
	u, err := base.Parse(ref)
	if err != nil {
		return "", err
	}
	return u.String(), nil
}

// Job returns a job.
func (c *Client) Job(ctx context.Context, job string) (j Job, err error) {
	if err = c.decode(ctx, job, &j); err == nil && j.Phase == "" {
		err = errors.New("the job has no phase")
	}
	return j, err
}

// SetPhase runs a job (RUN) or ends it (ABORT).
func (c *Client) SetPhase(ctx context.Context, job, phase string) error {
	return c.post(ctx, job+"/phase", url.Values{"PHASE": {phase}})
}

// Delete destroys a job.
func (c *Client) Delete(ctx context.Context, job string) error {
	return c.post(ctx, job, url.Values{"ACTION": {"DELETE"}})
}

// waitAtOnce is the wait of one request in seconds.
const waitAtOnce = 30

// Wait waits for the end of a job and returns its phase then. It asks once a second if
// the service answers at once with the same phase.
func (c *Client) Wait(ctx context.Context, job string) (phase string, err error) {
	for query := ""; ; {
		asked := time.Now()
		j, err := c.Job(ctx, job+query)
		if err != nil {
			return "", err
		}
		switch j.Phase {
		case "COMPLETED", "ERROR", "ABORTED", "ARCHIVED":
			return j.Phase, nil
		}
		if query != "" && time.Since(asked) < time.Second {
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
		if query = fmt.Sprintf("?WAIT=%d&PHASE=%s", waitAtOnce, url.QueryEscape(j.Phase)); j.Version == "" {
			query = "?" // version 1.0 does not wait
		}
	}
}

// Result opens a result of a job. The error is [queuefs.ErrNoResult] if the job has
// none of this name.
func (c *Client) Result(ctx context.Context, job, name string) (io.ReadCloser, error) {
	j, err := c.Job(ctx, job)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(j.Results, func(r Result) bool { return r.ID == name })
	if at < 0 {
		return nil, fmt.Errorf("%s: %w", name, queuefs.ErrNoResult)
	}
	base, err := url.Parse(job)
	if err != nil {
		return nil, err
	}
	ref, err := base.Parse(j.Results[at].Href)
	if err != nil {
		return nil, fmt.Errorf("result %s: %w", name, err)
	}
	resp, err := c.send(ctx, c.HTTP, http.MethodGet, ref.String(), nil, "")
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// maxDocument is the most octets of a document.
const maxDocument = 64 << 20

// Document returns the XML of a job or of another resource, up to 64 MiB.
func (c *Client) Document(ctx context.Context, where string) ([]byte, error) {
	text, _, err := c.document(ctx, where)
	return text, err
}

func (c *Client) document(ctx context.Context, where string) ([]byte, http.Header, error) {
	resp, err := c.send(ctx, c.HTTP, http.MethodGet, where, nil, "")
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	if err == nil && len(text) > maxDocument {
		err = fmt.Errorf("%s: more than %d octets", where, maxDocument)
	}
	return text, resp.Header, err
}

func (c *Client) decode(ctx context.Context, where string, v any) error {
	text, err := c.Document(ctx, where)
	if err != nil {
		return err
	}
	return unmarshal(text, v)
}

func unmarshal(text []byte, v any) error {
	if err := xml.Unmarshal(text, v); err != nil {
		return fmt.Errorf("not a document of UWS: %w", err)
	}
	return nil
}

// post sends a form and follows redirects.
func (c *Client) post(ctx context.Context, where string, form url.Values) error {
	resp, err := c.send(ctx, c.HTTP, http.MethodPost, where, strings.NewReader(form.Encode()), mediaForm)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// send sends a request. Answers from status 400 on are an [*Error].
func (c *Client) send(ctx context.Context, web *http.Client, method, where string, body io.Reader, mediaType string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, where, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", c.UserAgent)
	r.Header.Set("Accept", "application/xml, text/xml, */*;q=0.5")
	if mediaType != "" {
		r.Header.Set("Content-Type", mediaType)
	}
	resp, err := web.Do(r)
	if err != nil || resp.StatusCode < 400 {
		return resp, err
	}
	defer resp.Body.Close()
	why := ""
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		why, _, _ = strings.Cut(strings.TrimSpace(string(text)), "\n")
	}
	return nil, &Error{where, resp.StatusCode, cmp.Or(why, strings.ToLower(http.StatusText(resp.StatusCode)))}
}
