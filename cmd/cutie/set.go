package main

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/mirror"
	"cutie/cmd/cutie/reach"
	"cutie/queuefs"
	"cutie/queuefs/rest/client"
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
	fs.String("name", "", "`name` for people")
	fs.String("description", "", "`text` about the queue")
	fs.Int64("size", -1, "`number` of processed jobs to keep; -1 for all")
	fs.Int64("age", -1, "`hours` to keep processed jobs at least; -1 for unset")
	fs.Bool("verify-on-read", false, "verify the digests of large jobs, too, when they are handed out; =false ends that")
	fs.Bool("verify-on-write", false, "read each payload again before its submission is answered; =false ends that")
	fs.String("acknowledge", "", "what a lease that ends without a report means: `none|required|timeout`")
	fs.Duration("lease", 0, "default `time` of a lease, such as 10m; 0 for unset")
	fs.Int64("max-attempts", 0, "`number` of times to hand a job out; 0 for no limit")
	fs.String("limits", "", "`list` of limits of each user, such as pending=100,active=1000; see cutie help limits")
	fs.Duration("retry-delay", 0, "`time` before the second attempt, such as 30s; 0 for 10s, and none after a lease")
	fs.Int64("retry-factor", 0, "`number` by which the delay grows with each attempt; 0 for 2")
	fs.Duration("retry-max", 0, "longest `time` before an attempt; 0 for 1h")
	fs.String("callback", "", "`URI` to post changes of jobs to; empty for none")
	fs.String("digests", "", "`types` of digests to compute of every payload beside SHA-256, such as \"SHA-256 MD5\"; empty for none")
	fs.String("dumps", "", "`sets` published with dumps: pending, replica, pending,replica or none; empty for those of cutie serve --dumps")
	for _, p := range queuefs.UWSProperties {
		value := "`number` of "
		if p.Most == 0 {
			value = "`" + p.Words[0] + "|" + p.Words[1] + "`: "
		}
		fs.String(uwsOption(p.Name), "", value+p.Help)
	}
	return c.Verb(cmd, optTarget|optForm|optOutput, func(ctx context.Context) error {
		var settings client.Settings
		switch strings.ToLower(*behavior) {
		case "":
		case "pause", "restart":
			settings.Add("S", strings.ToLower(*behavior))
		default:
			return fault.Usagef("-S %.40q is neither pause nor restart", *behavior)
		}
		if *closes && *opens {
			return fault.Usagef("--close and --open exclude each other")
		}
		if *closes || *opens {
			settings.Add("closed", strconv.FormatBool(*closes))
		}
		for _, p := range allProperties() {
			if !fs.Changed(p.option) {
				continue
			}
			value := fs.Lookup(p.option).Value.String()
			if d, err := fs.GetDuration(p.option); err == nil {
				if d < 0 || d%time.Second != 0 {
					return fault.Usagef("--%s %v is not whole seconds", p.option, d)
				}
				value = strconv.FormatInt(int64(d/time.Second), 10)
			}
			if value == p.unset {
				value = ""
			}
			settings.Add(p.name, value)
		}
		if len(settings) == 0 {
			return fault.Usagef("nothing to set")
		}
		return answerQueue(ctx, c, func(t *reach.Target, queue string) (state.Queue, error) {
			q, err := t.SetQueue(ctx, queue, settings)
			if errors.Is(err, queuefs.ErrNoSpace) {
				err = fault.Hint(err, "cutie cull "+queue+" --size N works on a full disk and frees space")
			}
			return q, inOptions(err)
		})
	})
}

// inOptions says an error of a property in the name of its option.
func inOptions(err error) error {
	if err == nil {
		return nil
	}
	for _, p := range allProperties() {
		if text, ok := strings.CutPrefix(err.Error(), p.name+" is "); ok {
			return renamed{err, "--" + p.option + " is " + text}
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

// uwsOption is the option for a property of UWS: uws-max-destruction sets
// uwsMaxDestruction.
func uwsOption(name string) string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// A property has an option, and a value for unset.
type property struct{ option, name, unset string }

// allProperties are the options for all properties.
func allProperties() []property {
	all := slices.Clone(properties)
	for _, p := range queuefs.UWSProperties {
		all = append(all, property{uwsOption(p.Name), p.Name, ""})
	}
	return all
}

// properties are the options for properties but those for UWS.
var properties = []property{
	{"name", "name", ""},
	{"description", "description", ""},
	{"size", "cullingSizeThreshold", "-1"},
	{"age", "cullingAgeThreshold", "-1"},
	{"verify-on-read", "verifyOnRead", ""},
	{"verify-on-write", "verifyOnWrite", ""},
	{"acknowledge", "acknowledge", ""},
	{"lease", "leaseDuration", "0"},
	{"max-attempts", "maxAttempts", "0"},
	{"limits", "limits", ""},
	{"retry-delay", "retryDelay", "0"},
	{"retry-factor", "retryFactor", "0"},
	{"retry-max", "retryMax", "0"},
	{"callback", "callback", ""},
	{"digests", "digests", ""},
	{"dumps", "dumps", ""},
}

// answerQueue changes a queue, and prints its state in the response form if
// one was given.
func answerQueue(ctx context.Context, c *call, change func(t *reach.Target, queue string) (state.Queue, error)) error {
	form, err := c.ResponseForm()
	if err != nil {
		return err
	}
	if c.Form == "" && c.Out.Name != "" {
		return fault.Usagef("--output wants --response-form")
	}
	return c.AtQueue(ctx, func(t *reach.Target, queue string) error {
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
		return c.AtQueue(ctx, func(t *reach.Target, queue string) error {
			if *mirrored {
				return dropMirror(ctx, t, queue)
			}
			if *lost {
				return t.RemoveLost(ctx, queue)
			}
			err := t.RemoveQueue(ctx, queue)
			if errors.Is(err, queuefs.ErrNotEmpty) {
				err = fault.Hint(err, "cutie cull "+queue+" --size 0 removes processed jobs; cutie ls "+queue+" shows the others")
			}
			return err
		})
	})
}

// dropMirror removes a mirror with its jobs.
func dropMirror(ctx context.Context, t *reach.Target, queue string) error {
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
