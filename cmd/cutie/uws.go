package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/fault"
	"cutie/queuefs/state"
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
		if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || base.RawQuery != "" || base.Fragment != "" {
			return fault.Usagef("%.80q is not the URL of a job or a job list", c.Args[1])
		}
		if *last < 1 {
			return fault.Usagef("--last %d is not a number above 0", *last)
		}
		method := strings.ToLower(c.Args[0])
		if len(*uploads) > 0 && method != "create" {
			return fault.Usagef("--upload is of create only")
		}
		where := strings.TrimSuffix(base.String(), "/")
		u := uwsCall{c, where, uwsClient{c.Client(where)}}
		return u.do(ctx, method, c.Args[2:], *last, *uploads)
	})
}

// A uwsCall is one use of the verb.
type uwsCall struct {
	*call
	url    string // of a job list or a job
	client uwsClient
}

func (u *uwsCall) do(ctx context.Context, method string, args []string, last int, uploads []string) error {
	if most := map[string]int{"create": len(args), "result": 1}[method]; len(args) > most {
		return fault.Usagef("too many arguments for %s: %.60q", method, args[most])
	}
	switch method {
	case "list":
		jobs, err := u.client.list(ctx, u.url, last)
		if err != nil {
			return err
		}
		if u.Form != "" {
			var facts []state.Document
			for _, j := range jobs {
				facts = append(facts, state.OfFacts(state.UWSClass, nil, j.ID, j.Phase, timeOf(j.Created), j.RunID))
			}
			return u.Facts(true, facts...)
		}
		var all []string
		for _, j := range jobs {
			all = append(all, strings.Join([]string{j.ID, j.Phase, j.Created, j.RunID}, "\t"))
		}
		return u.Out.Lines(all)
	case "create":
		return u.create(ctx, args, uploads)
	case "show":
		if u.Form != "" {
			return u.facts(ctx)
		}
		text, _, err := u.client.document(ctx, u.url)
		if err != nil {
			return err
		}
		return u.Out.Emit(text)
	case "run", "abort":
		if err := u.client.post(ctx, u.url+"/phase", "PHASE", strings.ToUpper(method)); err != nil {
			return err
		}
		j, err := u.client.job(ctx, u.url)
		if err != nil {
			return err
		}
		return u.phase(j.Phase)
	case "delete":
		return u.client.post(ctx, u.url, "ACTION", "DELETE")
	case "wait":
		phase, err := u.client.wait(ctx, u.url)
		if err == nil {
			err = u.phase(phase)
		}
		if err == nil && phase != "COMPLETED" {
			err = fmt.Errorf("%s: the job is %s", u.url, phase)
		}
		return err
	case "result":
		return u.result(ctx, args)
	}
	return fault.Usagef("%.40q is none of list, create, show, run, abort, delete, wait, result", method)
}

// facts prints what is known of the job.
func (u *uwsCall) facts(ctx context.Context) error {
	j, err := u.client.job(ctx, u.url)
	if err != nil {
		return err
	}
	return u.Facts(false, state.OfFacts(state.UWSClass, u.url, j.ID, j.Phase, timeOf(j.Created), j.RunID, j.resultNames()))
}

// phase prints the phase of the job.
func (u *uwsCall) phase(phase string) error {
	if u.Form != "" {
		return u.Facts(false, state.OfFacts(state.UWSClass, u.url, nil, phase))
	}
	return u.Out.Emit([]byte(phase + "\n"))
}

// timeOf reads the date of a service; zero if it is none.
func timeOf(text string) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, text)
	return t
}

func (u *uwsCall) create(ctx context.Context, args, uploads []string) error {
	form := url.Values{}
	for _, a := range args {
		name, value, ok := strings.Cut(a, "=")
		if !ok || name == "" {
			return fault.Usagef("%.60q is not NAME=VALUE", a)
		}
		form.Add(name, value)
	}
	var files []uwsFile
	for _, a := range uploads {
		name, path, ok := strings.Cut(a, "=")
		if !ok || name == "" || path == "" {
			return fault.Usagef("--upload %.60q is not NAME=FILE", a)
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		files = append(files, uwsFile{name, f})
	}
	job, err := u.client.create(ctx, u.url, form, files)
	if err != nil {
		return err
	}
	if u.Form != "" {
		return u.Facts(false, state.OfFacts(state.UWSClass, job))
	}
	return u.Out.Emit([]byte(job + "\n"))
}

func (u *uwsCall) result(ctx context.Context, args []string) error {
	if len(args) == 0 && u.Form != "" {
		return u.facts(ctx)
	}
	if len(args) == 0 {
		j, err := u.client.job(ctx, u.url)
		if err != nil {
			return err
		}
		return u.Out.Lines(j.resultNames())
	}
	body, err := u.client.result(ctx, u.url, args[0])
	if err != nil {
		return err
	}
	defer body.Close()
	return u.Out.Exact(func(w io.Writer) error {
		_, err := io.Copy(w, body)
		return err
	})
}
