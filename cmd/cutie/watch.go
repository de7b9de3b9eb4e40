package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/fault"
	"cutie/queuefs/rest/client"
)

func watchVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "watch [QUEUE…]",
		Aliases: []string{"follow", "events"},
		Short:   "follow the events of jobs",
		Args:    between(0, maxWatched),
		Long: `
Prints a line for each event of the queues, or of all queues, from now on and
until it is interrupted: in columns on a terminal, as tab-separated fields
elsewhere (time, queue, number, kind, job, from, to, octets, media type), and with
-t json as the object from the daemon. Each event comes at least once; the number
tells them apart.

A lost connection is made again, and the events since then follow. If the daemon
no longer has these events, a line on standard error says so, and with -t json an
object of the kind reset names the state to read instead.

Only a daemon has events to follow.`,
		Example: `cutie watch jobs --from 1 --count 2
cutie watch jobs --from 1 --count 1 --kind submit -t json`,
	}
	w := &watcher{call: c}
	fs := cmd.Flags()
	fs.Int64Var(&w.events.From, "from", 0, "begin with the event of this `number` of the named queues, 1 for the first")
	fs.StringVar(&w.events.Kind, "kind", "", "only events of these kinds, a `list` such as submit,requeue")
	fs.StringVar(&w.events.Status, "status", "", "only events that lead to these statuses, a `list` such as pending")
	fs.IntVarP(&w.count, "count", "n", 0, "end after this `number` of events")
	return c.Verb(cmd, optTarget|optForm, func(ctx context.Context) error {
		switch {
		case c.Form != "" && !strings.EqualFold(c.Form, "json"):
			return fault.Hint(fault.Usagef("events have no response form %.40q", c.Form), "-t json, or no -t")
		case w.events.From < 0 || w.count < 0:
			return fault.Usagef("--from and --count are not negative")
		case w.events.From > 0 && len(c.Args) == 0:
			return fault.Usagef("--from is for queues that are named")
		}
		w.json = c.Form != ""
		return w.run(ctx)
	})
}

// maxWatched is the most queues of one command.
const maxWatched = 100

// A watcher prints the events of one or more streams.
type watcher struct {
	*call
	events client.Events
	count  int // 0: no end
	json   bool

	mu   sync.Mutex // one line at a time
	seen int
	stop context.CancelFunc
}

// errSeen ends the streams after --count events.
var errSeen = errors.New("enough events")

func (w *watcher) run(ctx context.Context) error {
	daemon, err := w.NeedDaemon(ctx)
	if err != nil {
		return err
	}
	defer daemon.Close()
	ctx, w.stop = context.WithCancel(ctx)
	defer w.stop()
	names := w.Args
	if len(names) == 0 {
		names = []string{""}
	}
	errs := make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			defer w.stop() // the end of one is the end of all
			events := w.events
			events.Queue, events.Lost = name, w.lost
			errs[i] = daemon.Follow(ctx, events, w.print)
			if name != "" && ctx.Err() == nil {
				errs[i] = fault.About(name, errs[i])
			}
		})
	}
	all.Wait()
	if errors.Is(errors.Join(errs...), errSeen) {
		return nil
	}
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return context.Cause(ctx)
}

// lost reports a lost connection.
func (w *watcher) lost(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Warnf("connection lost, trying again: %v", err)
}

// print prints one event.
func (w *watcher) print(e client.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count > 0 && w.seen == w.count {
		return errSeen
	}
	_, err := onScreen(w.Out.Stdout).Write(w.line(&e))
	if err != nil || e.Kind == client.Reset {
		return err
	}
	if w.seen++; w.seen == w.count {
		return errSeen
	}
	return nil
}

func (w *watcher) line(e *client.Event) []byte {
	if e.Kind == client.Reset {
		w.Warnf("events are missing: %s; see %s", strings.TrimPrefix(e.Queue+": "+e.Reason, ": "), e.State)
		if !w.json {
			return nil
		}
	}
	if w.json {
		return append(bytes.Clone(e.Data), '\n')
	}
	f := w.Out.Format()
	r := f.Fields(f.Date(e.Time), e.Queue, e.Seq, e.Kind, cmp.Or(e.Job, "queue-info.txt"), cmp.Or(e.From, "-"), cmp.Or(e.To, "-"), f.Size(e.Size), cmp.Or(e.Type, "-"))
	if f.People {
		return fmt.Appendf(nil, "%s  %s  %-7s  %s  %s\n", r[0], r[1], r[3], r[4], moved(r[5], r[6]))
	}
	return []byte(strings.Join(r, "\t") + "\n")
}

// moved tells where a job went, or where it is.
func moved(from, to string) string {
	switch {
	case from == to:
		return to
	case from == "-":
		return to
	case to == "-":
		return from + " → gone"
	}
	return from + " → " + to
}
