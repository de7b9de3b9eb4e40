package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/reach"
	"cutie/publisher/destination"
	"cutie/publisher/destination/local"
	"cutie/publisher/destination/source"
	"cutie/queuefs/durable"
	"cutie/queuefs/state"
	"cutie/queuefs/tree"
)

// The directory of a backup.
const (
	backupReport = "backup.json" // of the last whole backup; written last
	backupCopy   = "copy"        // of the queues, as cutie sync makes one
	backupFiles  = "files-"      // and a time: files of the home beside its queues
)

// backupVerb keeps a backup of a home.
func backupVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup DIR",
		Short: "keep a backup of a home in a directory",
		Args:  between(1, 1),
		Long: `
Copies the queues of the home to DIR, while its daemon runs or without one, and all other
files of the home: properties, users, subscribers, secrets. The first backup copies all,
later ones what has changed. Then an audit compares the copy with the published lists.

A backup holds all that happened before it began. The report names the last event of each
queue in it; later changes of some jobs may be in it, too. A backup that was cut off is
taken up by the next one, and DIR can be restored meanwhile. The audit reads all files of
the copy and compares their digests; with --quick it compares length and time alone.

Not in it are logs, and published documents. The changes that led to the state in DIR are
in it, so that followers of the home go on with the one that cutie restore makes. DIR has
one state of the home. For several, take several directories, or snapshots of DIR.

Files outside of the home, such as a users file, are copied with --also. They keep their
modes; so do secrets. DIR is for its owner alone.

It ends with 8 if files are missing or differ.`,
		Example: `cutie backup /srv/backup --also users.txt
cutie restore /srv/backup --home new`,
	}
	var o backup
	fs := cmd.Flags()
	fs.BoolVar(&o.Deep, "checksum", false, "copy files again whose digests are not those of the home, though length and time are right")
	fs.BoolVar(&o.Quick, "quick", false, "audit by length and time alone, without reading all files")
	fs.Var(&o.octets, "bandwidth", "at most this many `octets` a second")
	fs.StringArrayVar(&o.also, "also", nil, "copy this `FILE` or directory outside of the home, too")
	return c.Verb(cmd, optTarget|optForm|optVerbose, func(ctx context.Context) error {
		if _, err := wantsJSON(c); err != nil {
			return err
		}
		if c.URL != "" {
			return fault.Hint(fault.Usagef("a backup has files of the home that no URL gives"), "--home DIR without --url or CUTIE_URL; cutie sync URL DIR copies the queues of a daemon elsewhere")
		}
		ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		r, err := o.run(ctx, c, c.Args[0])
		if err != nil {
			return hinted(err)
		}
		return printBackup(c, r)
	})
}

type backup struct {
	destination.Options
	octets octets
	also   []string
}

// A backedUp is the report of a backup, and the contents of backup.json.
type backedUp struct {
	state.Typed
	Home    string                   `json:"home"`
	Source  string                   `json:"source"`
	Began   time.Time                `json:"began"`
	Files   string                   `json:"files"` // directory in the one of the backup
	Queues  []backedQueue            `json:"queues"`
	Fetched int64                    `json:"fetched"`
	Deleted int64                    `json:"deleted"`
	Octets  int64                    `json:"octets"` // of the files fetched
	Audit   *destination.AuditReport `json:"audit"`
	Seconds float64                  `json:"seconds"`
}

type backedQueue struct {
	Queue     string    `json:"queue"`
	LastEvent uint64    `json:"lastEvent"` // all events up to it are in the backup
	Until     time.Time `json:"until,omitzero"`
}

func (o *backup) run(ctx context.Context, c *call, dir string) (r *backedUp, err error) {
	r = &backedUp{Typed: state.BackupClass.Typed(), Home: c.Home, Began: time.Now().UTC().Truncate(time.Microsecond)}
	t, err := c.Source(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	if all, err := t.Service(ctx); err != nil || len(all.Queues) == 0 {
		return nil, cmp.Or(err, fmt.Errorf("%s has no queues", t.Home))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	into, err := durable.OpenDir(dir, nil)
	if err != nil {
		return nil, err
	}
	defer into.Close()
	copied, err := o.open(ctx, c, t, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, copied.Close()) }()
	// Before the queues: what these files say was done must not be missing from the queues.
	r.Files = backupFiles + r.Began.Format("20060102T150405.000000Z")
	if err := o.copyFiles(t.Home, filepath.Join(dir, r.Files)); err != nil {
		return nil, err
	}
	stop := showProgress(c, copied)
	err = o.catchUp(ctx, copied, r)
	stop()
	if err != nil {
		return nil, err
	}
	if r.Audit, err = copied.Audit(ctx); err != nil {
		return nil, err
	}
	if a := r.Audit; !a.Clean() {
		err := fmt.Errorf("%w: %d missing, %d different, %d extra", fault.ErrDiffers, a.Missing, a.Different, a.Extra)
		return nil, errors.Join(printAudit(c, a), fault.Hint(err, "cutie backup --checksum "+dir+" mends it; cutie check "+t.Home+" looks for faults of the home"))
	}
	r.Seconds = time.Since(r.Began).Round(time.Millisecond).Seconds()
	return r, o.commit(into, r)
}

// commit makes the backup the last whole one.
func (o *backup) commit(into *durable.Dir, r *backedUp) error {
	if err := into.SyncFS(); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := into.Replace(backupReport, append(text, '\n')); err != nil {
		return err
	}
	var old []string
	err = into.Names(func(name string) {
		if strings.HasPrefix(name, backupFiles) && name != r.Files {
			old = append(old, name)
		}
	})
	for _, name := range old {
		err = errors.Join(err, into.RemoveTree(name))
	}
	return err
}

// open opens the copy of the queues. A home served at another URL than before has the same
// files under other names.
func (o *backup) open(ctx context.Context, c *call, t *reach.Target, dir string) (*destination.Copy, error) {
	o.URL, o.Dir, o.Delete, o.History = t.Base, filepath.Join(dir, backupCopy), destination.DeleteAll, true
	o.Again = o.Deep
	o.Settle = -1 // Explain is for the rest
	o.HTTP = source.Options{Transport: homeTransport{t.HTTP.Transport}, UserAgent: reach.Agent(), Octets: int64(o.octets)}
	o.Tell = func(text string) { c.Warnf("%s", text) }
	copied, err := destination.Open(ctx, o.Options)
	if !errors.Is(err, destination.ErrOther) {
		return copied, err
	}
	if err := os.RemoveAll(filepath.Join(o.Dir, local.Own)); err != nil {
		return nil, err
	}
	return destination.Open(ctx, o.Options)
}

// A homeTransport carries requests for any URL to one home: references of a home have the
// name that its clients use.
type homeTransport struct{ http.RoundTripper }

func (t homeTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "http" {
		r = r.Clone(r.Context())
		r.URL.Scheme = "http"
	}
	return t.RoundTripper.RoundTrip(r)
}

// Files change while they are fetched, and a later change explains each.
const (
	maxRounds  = 100
	roundPause = 50 * time.Millisecond
)

// catchUp copies all up to the last event now. Of jobs that change meanwhile it copies a
// later state, so that it ends under any load.
func (o *backup) catchUp(ctx context.Context, copied *destination.Copy, r *backedUp) error {
	report, err := copied.Sync(ctx)
	if err != nil {
		return err
	}
	if report.Skipped > 0 {
		return fmt.Errorf("%w: %d documents or entries could not be read", fault.ErrDiffers, report.Skipped)
	}
	if report.Refused > 0 {
		return fmt.Errorf("%w: %d files were refused", fault.ErrDiffers, report.Refused)
	}
	r.Source = report.Source
	transit := 0
	for _, s := range report.Sets {
		transit += s.Transit
		r.Queues = append(r.Queues, backedQueue{strings.TrimSuffix(s.Name, wholeQueue), s.Event, s.Until})
	}
	for round := 1; transit > 0; round++ {
		select {
		case <-time.After(roundPause):
		case <-ctx.Done():
			return ctx.Err()
		}
		left, err := copied.Explain(ctx, jobOf)
		if err != nil {
			return err
		}
		if transit = len(left); transit > 0 && round == maxRounds {
			return fmt.Errorf("%w: %d files are missing, such as %s", fault.ErrDiffers, transit, left[0])
		}
	}
	counts := copied.Counts()
	r.Fetched, r.Deleted, r.Octets = counts.Fetched.Load(), counts.Deleted.Load(), counts.Stored.Load()
	return nil
}

// jobOf returns what the files of one job have in common.
func jobOf(uri string) string {
	if job := path.Dir(uri); path.Base(path.Dir(job)) == tree.Results {
		return path.Base(job)
	}
	return path.Base(uri)
}

func printBackup(c *call, r *backedUp) error {
	if asJSON, _ := wantsJSON(c); asJSON {
		return printJSON(c, r)
	}
	w := onScreen(c.Out.Stdout)
	for _, q := range r.Queues {
		fmt.Fprintf(w, "%s: up to event %d\n", q.Queue, q.LastEvent)
	}
	_, err := fmt.Fprintf(w, "%d queues, %d files, fetched %d, deleted %d; %d octets, %.1f s\n",
		len(r.Queues), r.Audit.Resources, r.Fetched, r.Deleted, r.Octets, r.Seconds)
	return err
}

// readBackup reads the report of the last whole backup.
func readBackup(dir string) (r backedUp, err error) {
	text, err := os.ReadFile(filepath.Join(dir, backupReport))
	if errors.Is(err, fs.ErrNotExist) {
		return r, fault.Hint(fmt.Errorf("%s has no whole backup: there is no %s", dir, backupReport), "cutie backup "+dir+" --home HOME makes or finishes one")
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err == nil && (!filepath.IsLocal(r.Files) || !strings.HasPrefix(r.Files, backupFiles)) {
		err = fmt.Errorf("files %.80q", r.Files)
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w", filepath.Join(dir, backupReport), err)
	}
	return r, nil
}

// last returns the last event of a queue in the backup.
func (r *backedUp) last(queue string) (event uint64, in bool) {
	i := slices.IndexFunc(r.Queues, func(q backedQueue) bool { return q.Queue == queue })
	if i < 0 {
		return 0, false
	}
	return r.Queues[i].LastEvent, true
}
