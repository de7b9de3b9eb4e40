package main

import (
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/fault"
	"cutie/queuefs"
)

func uwsVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "uws METHOD URL [NAME|NAME=VALUE…]",
		Short: "use a Universal Worker Service, this one or another",
		Long: `
URL is a job list for list and create, and a job for the other methods:

    list     print the newest jobs: identifier, phase, creation, run identifier
    create   make a job with these parameters and print its URL; --upload sends
             files too
    show     print the job in XML
    run      start the job and print its phase
    abort    end the job and print its phase
    delete   destroy the job
    wait     wait for the end of the job and print its phase; unless that is
             COMPLETED the exit code is 1
    result   print the names of the results, or the result NAME

The job list of a queue is at /uws/QUEUE/async of its daemon.`,
		Example: `cutie uws create http://127.0.0.1:8080/uws/jobs/async QUERY='a b' PHASE=RUN
cutie uws list http://127.0.0.1:8080/uws/jobs/async`,
	}
	fs := cmd.Flags()
	last := fs.Int("last", 100, "`number` of jobs that list shows")
	uploads := fs.StringArray("upload", nil, "`NAME=FILE` that create sends as a parameter; may be repeated")
	return c.verb(cmd, verbose|toDebug|toOutput, func(ctx context.Context) error {
		base, err := url.Parse(c.args[1])
		if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || base.RawQuery != "" || base.Fragment != "" {
			return fault.Usagef("%.80q is not the URL of a job or a job list", c.args[1])
		}
		if *last < 1 {
			return fault.Usagef("--last %d is not a number above 0", *last)
		}
		u := strings.TrimSuffix(base.String(), "/")
		s := &uwsClient{c, c.Client(u), u, *uploads}
		method := strings.ToLower(c.args[0])
		if len(*uploads) > 0 && method != "create" {
			return fault.Usagef("--upload is of create only")
		}
		return s.do(ctx, method, c.args[2:], *last)
	})
}

// A uwsClient speaks UWS 1.1, and 1.0 with older services.
type uwsClient struct {
	*call
	web     *http.Client
	url     string
	uploads []string // NAME=FILE
}

// The parts of UWS documents used here.
type (
	uwsJobs struct {
		XMLName xml.Name `xml:"jobs"`
		Refs    []struct {
			ID      string `xml:"id,attr"`
			Phase   string `xml:"phase"`
			RunID   string `xml:"runId"`
			Created string `xml:"creationTime"`
		} `xml:"jobref"`
	}
	uwsJob struct {
		XMLName xml.Name    `xml:"job"`
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
		return fault.Usagef("too many arguments for %s: %.60q", method, args[most])
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
		return s.Out.Emit(text)
	case "run", "abort":
		if err := s.post(ctx, s.url+"/phase", url.Values{"PHASE": {strings.ToUpper(method)}}); err != nil {
			return err
		}
		j, err := s.job(ctx, "")
		if err != nil {
			return err
		}
		return s.Out.Emit([]byte(j.Phase + "\n"))
	case "delete":
		return s.post(ctx, s.url, url.Values{"ACTION": {"DELETE"}})
	case "wait":
		return s.wait(ctx)
	case "result":
		return s.result(ctx, args)
	}
	return fault.Usagef("%.40q is none of list, create, show, run, abort, delete, wait, result", method)
}

func (s *uwsClient) list(ctx context.Context, last int) error {
	text, err := s.read(ctx, fmt.Sprintf("%s?LAST=%d", s.url, last))
	if err != nil {
		return err
	}
	var jobs uwsJobs
	if err := unmarshalUWS(text, &jobs); err != nil {
		return err
	}
	var all []string
	for _, j := range jobs.Refs[:min(len(jobs.Refs), last)] {
		all = append(all, strings.Join([]string{j.ID, j.Phase, j.Created, j.RunID}, "\t"))
	}
	return s.Out.Lines(all)
}

func (s *uwsClient) create(ctx context.Context, args []string) error {
	form := url.Values{}
	for _, a := range args {
		name, value, ok := strings.Cut(a, "=")
		if !ok || name == "" {
			return fault.Usagef("%.60q is not NAME=VALUE", a)
		}
		form.Add(name, value)
	}
	web := *s.web
	web.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	body, mediaType := io.Reader(strings.NewReader(form.Encode())), mediaForm
	if len(s.uploads) > 0 {
		r, media, end, err := s.parts(form)
		if err != nil {
			return err
		}
		defer end()
		body, mediaType = r, media
	}
	resp, err := s.send(ctx, &web, http.MethodPost, s.url, body, mediaType)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	at, err := resp.Location()
	if err != nil || resp.StatusCode != http.StatusSeeOther {
		return fmt.Errorf("%s: answered with %s and no job", s.url, resp.Status)
	}
	return s.Out.Emit([]byte(at.String() + "\n"))
}

// waitAtOnce is the wait of one request in seconds.
const waitAtOnce = 30

// wait asks until the job has ended, once a second if the service answers at once
// with the same phase.
func (s *uwsClient) wait(ctx context.Context) error {
	for query := ""; ; {
		asked := time.Now()
		j, err := s.job(ctx, query)
		if err != nil {
			return err
		}
		switch j.Phase {
		case "COMPLETED", "ERROR", "ABORTED", "ARCHIVED":
			if err := s.Out.Emit([]byte(j.Phase + "\n")); err != nil {
				return err
			}
			if j.Phase != "COMPLETED" {
				return fmt.Errorf("%s: the job is %s", s.url, j.Phase)
			}
			return nil
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
		return s.Out.Lines(names)
	}
	at := slices.IndexFunc(j.Results, func(r uwsResult) bool { return r.ID == args[0] })
	if at < 0 {
		return fault.About(args[0], queuefs.ErrNoResult)
	}
	base, _ := url.Parse(s.url)
	ref, err := base.Parse(j.Results[at].Href)
	if err != nil {
		return fmt.Errorf("result %s: %w", args[0], err)
	}
	resp, err := s.send(ctx, s.web, http.MethodGet, ref.String(), nil, "")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return s.Out.Exact(func(w io.Writer) error {
		_, err := io.Copy(w, resp.Body)
		return err
	})
}
