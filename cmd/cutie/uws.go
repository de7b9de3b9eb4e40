package main

import (
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

	"github.com/spf13/pflag"

	"cutie/queuefs"
)

var uwsVerb = verb{
	name:  "uws",
	args:  "METHOD URL [NAME|NAME=VALUE…]",
	min:   2,
	max:   -1,
	about: "use a Universal Worker Service, this one or another",
	takes: verbose | toDebug | toOutput,
	manual: `
URL is that of a job list for list and create, and that of a job for the others:

  list     the newest jobs: identifier, phase, creation, run identifier
  create   makes a job with these parameters, and prints its URL
  show     the job, in XML
  run      starts it, and prints its phase
  abort    ends it, and prints its phase
  delete   destroys it
  wait     waits for its end, and prints its phase; unless that is COMPLETED
           the exit code is 1
  result   the names of its results, or the result of that NAME

The job list of a queue is at /uws/QUEUE/async of its daemon.

A job of a queue named jobs is made and started by
cutie uws create http://127.0.0.1:8080/uws/jobs/async QUERY='a b' PHASE=RUN`,
	setup: func(fs *pflag.FlagSet) action {
		last := fs.Int("last", 100, "`number` of jobs that list shows")
		return func(ctx context.Context, c *call) error {
			base, err := url.Parse(c.args[1])
			if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || base.RawQuery != "" || base.Fragment != "" {
				return usagef("%.80q is not the URL of a job or a job list", c.args[1])
			}
			if *last < 1 {
				return usagef("--last %d is not a number above 0", *last)
			}
			u := strings.TrimSuffix(base.String(), "/")
			s := &uwsClient{c, &http.Client{Transport: c.traced(withToken(u, http.DefaultTransport))}, u}
			return s.do(ctx, strings.ToLower(c.args[0]), c.args[2:], *last)
		}
	},
}

// A uwsClient speaks UWS 1.1, and 1.0 where a service has that.
type uwsClient struct {
	*call
	web *http.Client
	url string
}

// What is read of the documents of UWS.
type (
	uwsJobs struct {
		Refs []struct {
			ID      string `xml:"id,attr"`
			Phase   string `xml:"phase"`
			RunID   string `xml:"runId"`
			Created string `xml:"creationTime"`
		} `xml:"jobref"`
	}
	uwsJob struct {
		Version string      `xml:"version,attr"`
		Phase   string      `xml:"phase"`
		Results []uwsResult `xml:"results>result"`
	}
	uwsResult struct {
		ID   string `xml:"id,attr"`
		Href string `xml:"http://www.w3.org/1999/xlink href,attr"`
	}
)

// maxUWS is the most octets of a document.
const maxUWS = 64 << 20

func (s *uwsClient) do(ctx context.Context, method string, args []string, last int) error {
	if most := map[string]int{"create": len(args), "result": 1}[method]; len(args) > most {
		return usagef("too many arguments for %s: %.60q", method, args[most])
	}
	switch method {
	case "list":
		return s.list(ctx, last)
	case "create":
		return s.create(ctx, args)
	case "show":
		text, err := s.read(ctx, s.url)
		if err != nil {
			return err
		}
		return s.emit(text)
	case "run", "abort":
		if err := s.post(ctx, s.url+"/phase", url.Values{"PHASE": {strings.ToUpper(method)}}); err != nil {
			return err
		}
		j, err := s.job(ctx, "")
		if err != nil {
			return err
		}
		return s.emit([]byte(j.Phase + "\n"))
	case "delete":
		return s.post(ctx, s.url, url.Values{"ACTION": {"DELETE"}})
	case "wait":
		return s.wait(ctx)
	case "result":
		return s.result(ctx, args)
	}
	return usagef("%.40q is none of list, create, show, run, abort, delete, wait, result", method)
}

func (s *uwsClient) list(ctx context.Context, last int) error {
	text, err := s.read(ctx, fmt.Sprintf("%s?LAST=%d", s.url, last))
	if err != nil {
		return err
	}
	var jobs uwsJobs
	if err := unmarshalUWS(text, "jobs", &jobs); err != nil {
		return err
	}
	var all []string
	for _, j := range jobs.Refs[:min(len(jobs.Refs), last)] {
		all = append(all, strings.Join([]string{j.ID, j.Phase, j.Created, j.RunID}, "\t"))
	}
	return s.emit(lines(all))
}

func (s *uwsClient) create(ctx context.Context, args []string) error {
	form := url.Values{}
	for _, a := range args {
		name, value, ok := strings.Cut(a, "=")
		if !ok || name == "" {
			return usagef("%.60q is not NAME=VALUE", a)
		}
		form.Add(name, value)
	}
	web := *s.web
	web.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := s.send(ctx, &web, http.MethodPost, s.url, form)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	at, err := resp.Location()
	if err != nil || resp.StatusCode != http.StatusSeeOther {
		return fmt.Errorf("%s: answered with %s and no job", s.url, resp.Status)
	}
	return s.emit([]byte(at.String() + "\n"))
}

// waitAtOnce is the seconds of one request that waits.
const waitAtOnce = 30

// wait asks until the job has ended. A service that answers at once though the
// phase is what it was is not asked more than once a second.
func (s *uwsClient) wait(ctx context.Context) error {
	for query := ""; ; {
		asked := time.Now()
		j, err := s.job(ctx, query)
		if err != nil {
			return err
		}
		switch j.Phase {
		case "COMPLETED", "ERROR", "ABORTED", "ARCHIVED":
			if err := s.emit([]byte(j.Phase + "\n")); err != nil {
				return err
			}
			if j.Phase != "COMPLETED" {
				return fmt.Errorf("%s: the job is %s", s.url, j.Phase)
			}
			return nil
		}
		if query != "" && time.Since(asked) < time.Second {
			pause(ctx, time.Second)
		}
		if query = fmt.Sprintf("?WAIT=%d&PHASE=%s", waitAtOnce, url.QueryEscape(j.Phase)); j.Version == "" {
			query = "?" // version 1.0 does not wait
		}
	}
}

func (s *uwsClient) result(ctx context.Context, args []string) error {
	j, err := s.job(ctx, "")
	if err != nil {
		return err
	}
	if len(args) == 0 {
		var names []string
		for _, r := range j.Results {
			names = append(names, r.ID)
		}
		return s.emit(lines(names))
	}
	at := slices.IndexFunc(j.Results, func(r uwsResult) bool { return r.ID == args[0] })
	if at < 0 {
		return about(args[0], queuefs.ErrNoResult)
	}
	base, _ := url.Parse(s.url)
	ref, err := base.Parse(j.Results[at].Href)
	if err != nil {
		return fmt.Errorf("result %s: %w", args[0], err)
	}
	resp, err := s.send(ctx, s.web, http.MethodGet, ref.String(), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if s.output == "" {
		_, err = io.Copy(s.stdout, resp.Body)
		return err
	}
	r, err := createResult(s.output)
	if err != nil {
		return err
	}
	if _, err := io.Copy(r, resp.Body); err != nil {
		r.Discard()
		return err
	}
	return r.Commit()
}

func (s *uwsClient) job(ctx context.Context, query string) (j uwsJob, err error) {
	text, err := s.read(ctx, s.url+query)
	if err != nil {
		return j, err
	}
	if err = unmarshalUWS(text, "job", &j); err == nil && j.Phase == "" {
		err = errors.New("the job has no phase")
	}
	return j, err
}

func unmarshalUWS(text []byte, name string, v any) error {
	var root struct{ XMLName xml.Name }
	err := xml.Unmarshal(text, &root)
	if err == nil && root.XMLName.Local != name {
		err = fmt.Errorf("%s instead of %s", root.XMLName.Local, name)
	}
	if err == nil {
		err = xml.Unmarshal(text, v)
	}
	if err != nil {
		return fmt.Errorf("not a document of UWS: %w", err)
	}
	return nil
}

func (s *uwsClient) read(ctx context.Context, where string) ([]byte, error) {
	resp, err := s.send(ctx, s.web, http.MethodGet, where, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxUWS+1))
	if err == nil && len(text) > maxUWS {
		err = fmt.Errorf("%s: more than %d octets", where, maxUWS)
	}
	return text, err
}

// post sends a form, and follows where it leads.
func (s *uwsClient) post(ctx context.Context, where string, form url.Values) error {
	resp, err := s.send(ctx, s.web, http.MethodPost, where, form)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// send makes an error of what is not answered well.
func (s *uwsClient) send(ctx context.Context, web *http.Client, method, where string, form url.Values) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, where, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", agent())
	r.Header.Set("Accept", "application/xml, text/xml, */*;q=0.5")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := web.Do(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 400 {
		return resp, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	why, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if why == "" || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
		why = strings.ToLower(http.StatusText(resp.StatusCode))
	}
	err = errors.New(why)
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		err = fmt.Errorf("%w: %s", errRefused, why)
	case http.StatusNotFound:
		err = queuefs.ErrNoJob
	}
	return nil, fmt.Errorf("%s: %w", where, err)
}
