package main

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/reach"
	"cutie/queuefs"
	"cutie/wellknown"
)

// A uwsClient uses a Universal Worker Service of ours or of others (IVOA UWS 1.1, REC
// 2016-10-24; services of 1.0 answer too, without waiting). It makes no use of the list
// filters PHASE and AFTER, of quotes, and of changes of duration and destruction. Job
// lists and jobs are named by their URLs, which have no slash at their ends.
type uwsClient struct{ http *http.Client }

// A uwsRef is a job in a job list.
type uwsRef struct {
	ID      string `xml:"id,attr"`
	Phase   string `xml:"phase"`
	RunID   string `xml:"runId"`
	Created string `xml:"creationTime"` // as the service writes it
}

// A uwsJob is what a job says of itself. The Href of a result may be relative to the job.
type uwsJob struct {
	XMLName xml.Name `xml:"job"`
	Version string   `xml:"version,attr"` // "" is 1.0
	ID      string   `xml:"jobId"`
	RunID   string   `xml:"runId"`
	Phase   string   `xml:"phase"`
	Created string   `xml:"creationTime"` // only since version 1.1
	Results []struct {
		ID   string `xml:"id,attr"`
		Href string `xml:"http://www.w3.org/1999/xlink href,attr"`
	} `xml:"results>result"`
}

func (j *uwsJob) resultNames() (names []string) {
	for _, r := range j.Results {
		names = append(names, r.ID)
	}
	return names
}

// list returns the newest jobs of a job list, up to last of them. It follows links to
// further parts of the list.
func (c uwsClient) list(ctx context.Context, list string, last int) (refs []uwsRef, err error) {
	for where := fmt.Sprintf("%s?LAST=%d", list, last); ; {
		var jobs struct {
			XMLName xml.Name `xml:"jobs"`
			Refs    []uwsRef `xml:"jobref"`
		}
		text, header, err := c.document(ctx, where)
		if err == nil {
			err = unmarshalUWS(text, &jobs)
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

func (c uwsClient) job(ctx context.Context, job string) (j uwsJob, err error) {
	text, _, err := c.document(ctx, job)
	if err == nil {
		err = unmarshalUWS(text, &j)
	}
	if err == nil && j.Phase == "" {
		err = errors.New("the job has no phase")
	}
	return j, err
}

// uwsWait is the wait of one request in seconds.
const uwsWait = 30

// wait waits for the end of a job and returns its phase then. It asks once a second if
// the service answers at once with the same phase.
func (c uwsClient) wait(ctx context.Context, job string) (phase string, err error) {
	for query := ""; ; {
		asked := time.Now()
		j, err := c.job(ctx, job+query)
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
		if query = fmt.Sprintf("?WAIT=%d&PHASE=%s", uwsWait, url.QueryEscape(j.Phase)); j.Version == "" {
			query = "?" // version 1.0 does not wait
		}
	}
}

// result opens a result of a job. The error is [queuefs.ErrNoResult] if the job has
// none of this name.
func (c uwsClient) result(ctx context.Context, job, name string) (io.ReadCloser, error) {
	j, err := c.job(ctx, job)
	if err != nil {
		return nil, err
	}
	for _, r := range j.Results {
		if r.ID != name {
			continue
		}
		where, err := resolve(job, r.Href)
		if err != nil {
			return nil, fmt.Errorf("result %s: %w", name, err)
		}
		resp, err := c.send(ctx, c.http, http.MethodGet, where, nil, "")
		if err != nil {
			return nil, err
		}
		return resp.Body, nil
	}
	return nil, fmt.Errorf("%s: %w", name, queuefs.ErrNoResult)
}

// create makes a job with parameters and files, and returns its URL. A file is read from
// its position on.
func (c uwsClient) create(ctx context.Context, list string, parameters url.Values, files []uwsFile) (job string, err error) {
	body, mediaType := io.Reader(strings.NewReader(parameters.Encode())), mediaForm
	if len(files) > 0 {
		r, w := io.Pipe()
		m := multipart.NewWriter(w)
		written := make(chan struct{})
		go func() {
			w.CloseWithError(writeParts(m, parameters, files))
			close(written)
		}()
		defer func() { // the files are no longer read then
			r.Close()
			<-written
		}()
		body, mediaType = r, m.FormDataContentType()
	}
	web := *c.http
	web.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := c.send(ctx, &web, http.MethodPost, list, body, mediaType)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	at, err := resp.Location()
	if err != nil || resp.StatusCode != http.StatusSeeOther {
		return "", fmt.Errorf("%s: answered with %s and no job", list, resp.Status)
	}
	return at.String(), nil
}

// A uwsFile is the value of a parameter.
type uwsFile struct {
	name string
	*os.File
}

func writeParts(m *multipart.Writer, parameters url.Values, files []uwsFile) error {
	for name, values := range parameters {
		for _, v := range values {
			if err := m.WriteField(name, v); err != nil {
				return err
			}
		}
	}
	for _, f := range files {
		p, err := m.CreateFormFile(f.name, filepath.Base(f.Name()))
		if err != nil {
			return err
		}
		if _, err := io.Copy(p, f.File); err != nil {
			return err
		}
	}
	return m.Close()
}

const mediaForm = "application/x-www-form-urlencoded"

// post sends a form with one field, and follows redirects.
func (c uwsClient) post(ctx context.Context, where, name, value string) error {
	resp, err := c.send(ctx, c.http, http.MethodPost, where, strings.NewReader(url.Values{name: {value}}.Encode()), mediaForm)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// maxDocument is the most bytes of a document.
const maxDocument = 64 << 20

// document returns the XML of a job or of another resource.
func (c uwsClient) document(ctx context.Context, where string) ([]byte, http.Header, error) {
	resp, err := c.send(ctx, c.http, http.MethodGet, where, nil, "")
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	if err == nil && len(text) > maxDocument {
		err = fmt.Errorf("%s: more than %d bytes", where, maxDocument)
	}
	return text, resp.Header, err
}

func unmarshalUWS(text []byte, v any) error {
	if err := xml.Unmarshal(text, v); err != nil {
		return fmt.Errorf("not a document of UWS: %w", err)
	}
	return nil
}

// send sends a request. An answer from status 400 on is an error with the first line
// of a plain text in it, and with the exit code that it has from a daemon.
func (c uwsClient) send(ctx context.Context, web *http.Client, method, where string, body io.Reader, mediaType string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, where, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", reach.Agent())
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
	why = cmp.Or(why, strings.ToLower(http.StatusText(resp.StatusCode)))
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, fmt.Errorf("%s: %w: %s", where, fault.ErrRefused, why)
	case http.StatusNotFound:
		return nil, fmt.Errorf("%s: %w", where, queuefs.ErrNoJob)
	}
	return nil, fmt.Errorf("%s: %s", where, why)
}
