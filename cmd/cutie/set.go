package main

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cutie/cmd/cutie/mirror"
	"cutie/queuefs/anvl"
	"cutie/queuefs/home"
	"cutie/queuefs/ledger"
	"cutie/queuefs/state"
)

// setQueueVerb changes the properties of a queue.
func setQueueVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "set QUEUE",
		Aliases: []string{"setQueue", "setQueueBehavior"},
		Short:   "change the properties of a queue",
		Long: `
Properties without an option stay as they are. Those of UWS are explained in cutie
help services. A paused queue accepts jobs and
hands out none; a closed queue hands out its jobs and accepts none.

With --acknowledge required, each job is handed out with a lease, and goes back
if its consumer reports nothing before the lease ends; with timeout, the job is
completed at that time. Changes of jobs are posted to --callback; readers of the
queue see its scheme and host. -1 and the
empty text unset a property.

After a transient failure, or a lease that ended without a report, a job is put
back for another attempt: on hold for --retry-delay, times --retry-factor for
each further attempt, at most --retry-max. When --max-attempts are used up, or
after a failure for good, it has failed and stays with its message. cutie ls
--outcome error lists such jobs, and cutie requeue --outcome error puts all of
them back, with all attempts. Without --max-attempts a job that always fails for
now is tried for ever, in the end once in --retry-max.

With --size the queue removes processed jobs and their payloads: the daemon does
so by itself, about a second later, without one cutie cull does. See cutie help cull.

Prints nothing; with -t it prints the state of the queue.`,
		Example: `cutie set jobs -S pause
cutie set jobs -S restart --size 1000 --age 720
cutie set jobs --acknowledge required --lease 10m -t anvl
cutie set jobs --max-attempts 5 --retry-delay 30s --retry-max 2h`,
	}
	fs := cmd.Flags()
	behavior := fs.StringP("behavior", "S", "", "`pause|restart` the handing out of jobs")
	closes := fs.Bool("close", false, "accept no more jobs")
	opens := fs.Bool("open", false, "accept jobs again")
	settingOptions(fs)
	return c.Verb(cmd, optTarget|optForm|optOutput, func(ctx context.Context) error {
		var settings anvl.Record
		switch strings.ToLower(*behavior) {
		case "":
		case "pause", "restart":
			settings.Add("S", strings.ToLower(*behavior))
		default:
			return usagef("-S %.40q is neither pause nor restart", *behavior)
		}
		if *closes && *opens {
			return usagef("--close and --open exclude each other")
		}
		if *closes || *opens {
			settings.Add("closed", strconv.FormatBool(*closes))
		}
		given, err := settingsOf(fs)
		if err != nil {
			return err
		}
		settings = append(settings, given...)
		if len(settings) == 0 {
			return usagef("nothing to set")
		}
		return answerQueue(ctx, c, func(t *target, queue string) (state.Queue, error) {
			q, err := t.SetQueue(ctx, queue, settings)
			if errors.Is(err, ledger.ErrNoSpace) {
				err = withHint(err, "cutie cull "+queue+" --size N works on a full disk and frees space")
			}
			return q, inOptions(err)
		})
	})
}

// settingOptions adds the options for the properties of a queue.
func settingOptions(fs *pflag.FlagSet) {
	for i := range home.Properties {
		switch p := &home.Properties[i]; {
		case p.Option == "":
		case p.Kind() == home.Truth:
			fs.Bool(p.Option, false, p.Help+"; =false ends that")
		case p.Kind() == home.Seconds:
			fs.Duration(p.Option, 0, p.Help)
		default:
			fs.String(p.Option, "", p.Help)
		}
	}
}

// settingsOf returns the properties with an option that was given.
func settingsOf(fs *pflag.FlagSet) (settings anvl.Record, err error) {
	for i := range home.Properties {
		p := &home.Properties[i]
		if p.Option == "" || !fs.Changed(p.Option) {
			continue
		}
		value := fs.Lookup(p.Option).Value.String()
		if d, err := fs.GetDuration(p.Option); err == nil {
			if d < 0 || d%time.Second != 0 {
				return nil, usagef("--%s %v is not whole seconds", p.Option, d)
			}
			value = strconv.FormatInt(int64(d/time.Second), 10)
		}
		settings.Add(p.Name, value)
	}
	return settings, nil
}

// inOptions says an error of a property in the name of its option.
func inOptions(err error) error {
	if err == nil {
		return nil
	}
	for i := range home.Properties {
		p := &home.Properties[i]
		if text, ok := strings.CutPrefix(err.Error(), p.Name+" is "); ok && p.Option != "" {
			return renamed{err, "--" + p.Option + " is " + text}
		}
	}
	return err
}

// A renamed error has other words.
type renamed struct {
	error
	text string
}

func (e renamed) Error() string { return e.text }
func (e renamed) Unwrap() error { return e.error }

// answerQueue changes a queue, and prints its state in the response form if
// one was given.
func answerQueue(ctx context.Context, c *call, change func(t *target, queue string) (state.Queue, error)) error {
	form, err := c.ResponseForm()
	if err != nil {
		return err
	}
	if c.Form == "" && c.Out.Name != "" {
		return usagef("--output wants --response-form")
	}
	return c.AtQueue(ctx, func(t *target, queue string) error {
		q, err := change(t, queue)
		if err != nil || c.Form == "" {
			return err
		}
		text, err := t.State(ctx, form, q.Info.ID, "")
		if err != nil {
			return err
		}
		return c.Out.Emit(text)
	})
}

// removeQueueVerb removes a queue without jobs.
func removeQueueVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "rmqueue QUEUE",
		Aliases: []string{"removeQueue"},
		Short:   "remove a queue without jobs",
		Long: `
A queue with jobs of any status stays (exit code 5): take or delete them, then
cull them. The published documents of the queue go with it.

A mirror is removed with all its jobs, if --mirror says that this is meant; the daemon
mirrors it anew while it follows the original.

A queue whose directory is lost is not served, and never made again in its place. With
the directory back it is served after the next start. --lost removes it for good, with
all that is known of its jobs and its published documents.`,
		Example: `cutie rmqueue empty
cutie rmqueue --lost gone`,
	}
	mirrored := cmd.Flags().Bool("mirror", false, "remove a mirror, with its jobs")
	lost := cmd.Flags().Bool("lost", false, "remove a queue whose directory is lost")
	cmd.MarkFlagsMutuallyExclusive("mirror", "lost")
	return c.Verb(cmd, optTarget, func(ctx context.Context) error {
		return c.AtQueue(ctx, func(t *target, queue string) error {
			if *mirrored {
				return dropMirror(ctx, t, queue)
			}
			if *lost {
				return t.RemoveLost(ctx, queue)
			}
			err := t.RemoveQueue(ctx, queue)
			if errors.Is(err, ledger.ErrNotEmpty) {
				err = withHint(err, "cutie cull "+queue+" --size 0 removes processed jobs; cutie ls "+queue+" shows the others")
			}
			return err
		})
	})
}

// dropMirror removes a mirror with its jobs.
func dropMirror(ctx context.Context, t *target, queue string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, t.Base+mirror.DropPath[1:]+"/"+url.PathEscape(queue), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := t.Do(req)
	if err == nil {
		err = resp.Body.Close()
	}
	return err
}
