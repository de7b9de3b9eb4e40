package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"cutie/queuefs"
)

var watchVerb = verb{
	name:    "watch",
	aliases: []string{"follow", "events"},
	args:    "[QUEUE…]",
	max:     maxWatched,
	about:   "follow what happens to jobs",
	manual: `
Prints a line for each event of the queues, of all queues if none is named, from
now on and until it is interrupted: in columns on a terminal, as tab-separated
fields elsewhere (time, queue, number, kind, job, from, to, octets, media type),
and with -t json as the object that the daemon sends. Each event comes at least
once; the number tells them apart. The phase of a job of UWS that was not started,
or that is archived or destroyed there, is an event of the kind phase; it stands
where to does, and octets and media type are -.

A lost connection is made again, and what happened meanwhile follows. If the
daemon no longer has these events a line on standard error says so, and with
-t json an object of the kind reset, which names what to read instead.

Only a daemon has events to follow.`,
	examples: `cutie watch jobs --from 1 --count 2
cutie watch jobs --from 1 --count 1 --kind submit -t json`,
	takes: atTarget | withForm,
	setup: setupWatch,
}

// maxWatched is how many queues one command follows by their names.
const maxWatched = 100

func setupWatch(fs *pflag.FlagSet) action {
	var w watcher
	fs.Int64Var(&w.from, "from", 0, "begin with the event of this `number`, 1 for the first, of the queues that are named")
	fs.StringVar(&w.kind, "kind", "", "only events of these kinds, a `list` such as submit,requeue")
	fs.StringVar(&w.status, "status", "", "only events that lead to these statuses, a `list` such as pending")
	fs.IntVarP(&w.count, "count", "n", 0, "end after this `number` of events")
	return func(ctx context.Context, c *call) error {
		switch {
		case c.form != "" && !strings.EqualFold(c.form, "json"):
			return withHint(usagef("response form %.40q is none of events", c.form), "-t json, or no -t")
		case w.from < 0 || w.count < 0:
			return usagef("--from and --count are not negative")
		case w.from > 0 && len(c.args) == 0:
			return usagef("--from is for queues that are named")
		}
		w.call, w.json, w.people = c, c.form != "", terminal(c.stdout)
		return w.run(ctx)
	}
}

// A watcher prints the events of several streams.
type watcher struct {
	*call
	from         int64
	kind, status string
	count        int // 0: no end
	json, people bool

	mu   sync.Mutex // one line at a time
	seen int
	stop context.CancelFunc
}

// errSeen ends the streams when as many events came as were wanted.
var errSeen = errors.New("enough events")

func (w *watcher) run(ctx context.Context) error {
	daemon, err := w.daemon(ctx)
	if err != nil {
		return err
	}
	defer daemon.Close()
	ctx, w.stop = context.WithCancel(ctx)
	defer w.stop()
	names := w.args
	if len(names) == 0 {
		names = []string{""}
	}
	errs := make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			defer w.stop() // the end of one is the end of all
			s := stream{daemon: daemon, url: w.url(daemon.base, name), lost: w.lost}
			errs[i] = s.follow(ctx, w.print)
			if name != "" && errs[i] != nil && ctx.Err() == nil {
				errs[i] = about(name, errs[i])
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if errors.Is(err, errSeen) {
			return nil
		}
	}
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return context.Cause(ctx)
}

// daemon finds who has events. A home that no daemon has open has none.
func (w *watcher) daemon(ctx context.Context) (*remote, error) {
	if w.call.url != "" {
		base, err := cleanBase(w.call.url)
		if err != nil {
			return nil, err
		}
		w.tell("asks %s", base)
		return newRemote(base, nil, w.traced), nil
	}
	daemon, err := askDaemon(ctx, w.home, w.traced)
	w.tell("asks the daemon of %s", w.home)
	if err == nil && daemon == nil {
		err = withHint(fmt.Errorf("no daemon runs on %s", w.home), "cutie serve --home "+w.home+" starts one")
	}
	return daemon, err
}

func (w *watcher) url(base, queue string) string {
	query := url.Values{}
	if w.kind != "" {
		query.Set("kind", w.kind)
	}
	if w.status != "" {
		query.Set("status", w.status)
	}
	ref := base + "events"
	if queue != "" {
		ref += "/" + url.PathEscape(queue)
		if w.from > 0 {
			query.Set("from", fmt.Sprint(w.from))
		}
	}
	if len(query) > 0 {
		ref += "?" + query.Encode()
	}
	return ref
}

// lost says that a connection has to be made again.
func (w *watcher) lost(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.warnf("connection lost, trying again: %v", err)
}

// print prints one event.
func (w *watcher) print(kind string, data []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count > 0 && w.seen == w.count {
		return errSeen
	}
	line, err := w.line(kind, data)
	if err == nil {
		_, err = screenOf(w.stdout).Write(line)
	}
	if err != nil || kind == resetKind {
		return err
	}
	if w.seen++; w.seen == w.count {
		return errSeen
	}
	return nil
}

// resetKind is the name of what says that events were lost.
const resetKind = "reset"

func (w *watcher) line(kind string, data []byte) ([]byte, error) {
	if kind == resetKind {
		var r struct{ Queue, Reason, State string }
		if err := json.Unmarshal(data, &r); err != nil {
			return nil, fmt.Errorf("event %s: %w", kind, err)
		}
		w.warnf("events are missing: %s; see %s", strings.TrimPrefix(r.Queue+": "+r.Reason, ": "), r.State)
		if !w.json {
			return nil, nil
		}
		return fmt.Appendf(nil, "{\"kind\":%q,%s\n", kind, bytes.TrimPrefix(data, []byte("{"))), nil
	}
	if w.json {
		return append(bytes.Clone(data), '\n'), nil
	}
	var e struct {
		Queue, Time, Kind, Job, Phase, From, To, Type string
		Seq, Size                                     int64
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, fmt.Errorf("event %s: %w", kind, err)
	}
	l := listing{people: w.people}
	at := e.Time
	if t, err := time.Parse(time.RFC3339Nano, e.Time); err == nil {
		at = l.date(t)
	}
	none := func(s string) string {
		if s == "" {
			return "-"
		}
		return s
	}
	if e.Job == "" {
		e.Job = "queue-info.txt"
	}
	size, phase := l.size(e.Size), e.Kind == queuefs.Phase.String()
	if phase {
		e.To, size = e.Phase, "-"
	}
	l.row(at, e.Queue, fmt.Sprint(e.Seq), e.Kind, e.Job, none(e.From), none(e.To), size, none(e.Type))
	r := l.rows[0]
	if w.people {
		where := moved(r[5], r[6])
		if phase && e.Phase == "" {
			where = "gone"
		}
		return fmt.Appendf(nil, "%s  %s  %-7s  %s  %s\n", r[0], r[1], r[3], r[4], where), nil
	}
	return []byte(strings.Join(r, "\t") + "\n"), nil
}

// moved says where a job went, or where it is.
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
