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
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"cutie/queuefs/content"
	"cutie/queuefs/ledger"
	"cutie/queuefs/state"
	"cutie/wellknown"
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

With -t json they print objects; the result NAME is printed as it is.

The job list of a queue is at /uws/QUEUE/async of its daemon.`,
		Example: `cutie uws create http://127.0.0.1:8080/uws/jobs/async QUERY='a b' PHASE=RUN
cutie uws list http://127.0.0.1:8080/uws/jobs/async`,
	}
	fs := cmd.Flags()
	last := fs.Int("last", 100, "`number` of jobs that list shows")
	uploads := fs.StringArray("upload", nil, "`NAME=FILE` that create sends as a parameter; may be repeated")
	return c.Verb(cmd, optVerbose|optDebug|optOutput|optForm, func(ctx context.Context) error {
		base, err := url.Parse(c.Args[1])
		if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || base.RawQuery != "" ||
			base.Fragment != "" {
			return usagef("%.80q is not the URL of a job or a job list", c.Args[1])
		}
		if *last < 1 {
			return usagef("--last %d is not a number above 0", *last)
		}
		method := strings.ToLower(c.Args[0])
		if len(*uploads) > 0 && method != "create" {
			return usagef("--upload is of create only")
		}
		where := strings.TrimSuffix(base.String(), "/")
		u := uwsCall{c, c.Client(where), where}
		return u.do(ctx, method, c.Args[2:], *last, *uploads)
	})
}

// A uwsCall is one use of the verb, of a Universal Worker Service of ours or of others
// (IVOA UWS 1.1, REC 2016-10-24; services of 1.0 answer too, without waiting).
type uwsCall struct {
	*call
	http *http.Client
	url  string // of a job list or a job, without a slash at its end
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

// print prints lines, or with -t the facts of [state.UWSClass].
func (u *uwsCall) print(lines []string, facts ...any) error {
	if u.Form != "" {
		return u.Facts(false, state.OfFacts(state.UWSClass, facts...))
	}
	return u.Out.Lines(lines)
}

func (u *uwsCall) do(ctx context.Context, method string, args []string, last int, uploads []string) error {
	if most := map[string]int{"create": len(args), "result": 1}[method]; len(args) > most {
		return usagef("too many arguments for %s: %.60q", method, args[most])
	}
	switch method {
	case "list":
		return u.list(ctx, last)
	case "create":
		return u.create(ctx, args, uploads)
	case "show":
		if u.Form != "" {
			return u.result(ctx, nil)
		}
		text, _, err := u.document(ctx, u.url)
		if err != nil {
			return err
		}
		return u.Out.Emit(text)
	case "run", "abort":
		if err := u.post(ctx, u.url+"/phase", "PHASE", strings.ToUpper(method)); err != nil {
			return err
		}
		j, err := u.job(ctx, "")
		if err != nil {
			return err
		}
		return u.phase(j.Phase)
	case "delete":
		return u.post(ctx, u.url, "ACTION", "DELETE")
	case "wait":
		return u.wait(ctx)
	case "result":
		return u.result(ctx, args)
	}
	return usagef("%.40q is none of list, create, show, run, abort, delete, wait, result", method)
}

func (u *uwsCall) phase(phase string) error { return u.print([]string{phase}, u.url, nil, phase) }

// list prints the newest jobs, up to last of them. It follows links to further parts of
// the list. Services of 1.0 do not know LAST.
func (u *uwsCall) list(ctx context.Context, last int) error {
	var jobs struct {
		XMLName xml.Name `xml:"jobs"`
		Refs    []struct {
			ID      string `xml:"id,attr"`
			Phase   string `xml:"phase"`
			RunID   string `xml:"runId"`
			Created string `xml:"creationTime"` // as the service writes it
		} `xml:"jobref"` // of all parts
	}
	for where := fmt.Sprintf("%s?LAST=%d", u.url, last); where != "" && len(jobs.Refs) < last; {
		text, header, err := u.document(ctx, where)
		if err == nil {
			err = unmarshalUWS(text, &jobs)
		}
		if err != nil {
			return err
		}
		next := wellknown.Links(header, "next")
		if len(next) == 0 {
			break
		}
		if where, err = resolve(where, next[0]); err != nil {
			return err
		}
	}
	var facts []state.Document
	var lines []string
	for _, j := range jobs.Refs[:min(len(jobs.Refs), last)] {
		facts = append(facts, state.OfFacts(state.UWSClass, nil, j.ID, j.Phase, timeOf(j.Created), j.RunID))
		lines = append(lines, strings.Join([]string{j.ID, j.Phase, j.Created, j.RunID}, "\t"))
	}
	if u.Form != "" {
		return u.Facts(true, facts...)
	}
	return u.Out.Lines(lines)
}

// timeOf reads the date of a service; zero if it is none.
func timeOf(text string) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, text)
	return t
}

// wait waits for the end of the job and prints its phase. It asks once a second if the
// service answers at once with the same phase.
func (u *uwsCall) wait(ctx context.Context) error {
	for query := ""; ; {
		asked := time.Now()
		j, err := u.job(ctx, query)
		if err != nil {
			return err
		}
		switch j.Phase {
		case "COMPLETED":
			return u.phase(j.Phase)
		case "ERROR", "ABORTED", "ARCHIVED":
			return cmp.Or(u.phase(j.Phase), fmt.Errorf("%s: the job is %s", u.url, j.Phase))
		}
		if query != "" && time.Since(asked) < time.Second {
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
		if query = "?WAIT=30&PHASE=" + url.QueryEscape(j.Phase); j.Version == "" {
			query = "?" // version 1.0 does not wait
		}
	}
}

// create makes a job with parameters and files, and prints its URL.
func (u *uwsCall) create(ctx context.Context, args, uploads []string) error {
	form := url.Values{}
	for _, a := range args {
		name, value, ok := strings.Cut(a, "=")
		if !ok || name == "" {
			return usagef("%.60q is not NAME=VALUE", a)
		}
		form.Add(name, value)
	}
	files := map[string]*os.File{}
	for _, a := range uploads {
		name, path, ok := strings.Cut(a, "=")
		if !ok || name == "" || path == "" || files[name] != nil {
			return usagef("--upload %.60q is not NAME=FILE, or its NAME is repeated", a)
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		files[name] = f
	}
	body, mediaType := io.Reader(strings.NewReader(form.Encode())), mediaForm
	if len(files) > 0 {
		r, w := io.Pipe()
		m := multipart.NewWriter(w)
		var writing sync.WaitGroup
		writing.Go(func() { w.CloseWithError(writeParts(m, form, files)) })
		defer writing.Wait() // the files are no longer read then
		defer r.Close()
		body, mediaType = r, m.FormDataContentType()
	}
	first := *u.http
	first.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := u.send(ctx, &first, http.MethodPost, u.url, body, mediaType)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	at, err := resp.Location()
	if err != nil || resp.StatusCode != http.StatusSeeOther {
		return fmt.Errorf("%s: answered with %s and no job", u.url, resp.Status)
	}
	return u.print([]string{at.String()}, at.String())
}

func writeParts(m *multipart.Writer, parameters url.Values, files map[string]*os.File) error {
	for name, values := range parameters {
		for _, v := range values {
			if err := m.WriteField(name, v); err != nil {
				return err
			}
		}
	}
	for name, f := range files {
		p, err := m.CreateFormFile(name, filepath.Base(f.Name()))
		if err != nil {
			return err
		}
		if _, err := io.Copy(p, f); err != nil {
			return err
		}
	}
	return m.Close()
}

// result prints the names of the results, or what is known of the job, or one result.
func (u *uwsCall) result(ctx context.Context, args []string) error {
	j, err := u.job(ctx, "")
	if err != nil {
		return err
	}
	if len(args) == 0 {
		return u.print(j.resultNames(), u.url, j.ID, j.Phase, timeOf(j.Created), j.RunID, j.resultNames())
	}
	i := slices.Index(j.resultNames(), args[0])
	if i < 0 {
		return fmt.Errorf("%s: %w", args[0], content.ErrNoResult)
	}
	where, err := resolve(u.url, j.Results[i].Href)
	if err != nil {
		return fmt.Errorf("result %s: %w", args[0], err)
	}
	resp, err := u.send(ctx, u.http, http.MethodGet, where, nil, "")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return u.Out.Exact(func(w io.Writer) error {
		_, err := io.Copy(w, resp.Body)
		return err
	})
}

// resolve returns a reference in an answer as a URL.
func resolve(where, ref string) (string, error) {
	u, err := url.Parse(where)
	if err == nil {
		u, err = u.Parse(ref)
	}
	if err != nil {
		return "", err
	}
	return u.String(), nil
}

// job asks for the job.
func (u *uwsCall) job(ctx context.Context, query string) (j uwsJob, err error) {
	text, _, err := u.document(ctx, u.url+query)
	if err == nil {
		err = unmarshalUWS(text, &j)
	}
	if err == nil && j.Phase == "" {
		err = errors.New("the job has no phase")
	}
	return j, err
}

const mediaForm = "application/x-www-form-urlencoded"

// post sends a form with one field, and follows redirects.
func (u *uwsCall) post(ctx context.Context, where, name, value string) error {
	form := url.Values{name: {value}}.Encode()
	resp, err := u.send(ctx, u.http, http.MethodPost, where, strings.NewReader(form), mediaForm)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// maxDocument is the most bytes of a document.
const maxDocument = 64 << 20

// document returns the XML of a job or of another resource.
func (u *uwsCall) document(ctx context.Context, where string) ([]byte, http.Header, error) {
	resp, err := u.send(ctx, u.http, http.MethodGet, where, nil, "")
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
func (u *uwsCall) send(ctx context.Context, web *http.Client, method, where string, body io.Reader, mediaType string) (
	*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, where, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", agentName())
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
		return nil, fmt.Errorf("%s: %w: %s", where, errRefused, why)
	case http.StatusNotFound:
		return nil, fmt.Errorf("%s: %w", where, ledger.ErrNoJob)
	}
	return nil, fmt.Errorf("%s: %s", where, why)
}
