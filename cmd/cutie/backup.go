package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

	"cutie/cmd/cutie/daemon"
	"cutie/cmd/cutie/mirror"
	"cutie/publisher/destination"
	"cutie/publisher/destination/local"
	"cutie/publisher/destination/source"
	"cutie/queuefs/dir"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/state"
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
			return withHint(usagef("a backup has files of the home that no URL gives"), "--home DIR without --url or CUTIE_URL; cutie sync URL DIR copies the queues of a daemon elsewhere")
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
	if err := copyRows(ctx, t, filepath.Join(dir, r.Files, homeFiles)); err != nil {
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
		err := fmt.Errorf("%w: %d missing, %d different, %d extra", errDiffers, a.Missing, a.Different, a.Extra)
		return nil, errors.Join(printAudit(c, a), withHint(err, "cutie backup --checksum "+dir+" mends it; cutie check "+t.Home+" looks for faults of the home"))
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
func (o *backup) open(ctx context.Context, c *call, t *target, dir string) (*destination.Copy, error) {
	o.URL, o.Dir, o.Delete, o.History = t.Base, filepath.Join(dir, backupCopy), destination.DeleteAll, true
	o.Again = o.Deep
	o.Settle = -1 // Explain is for the rest
	o.HTTP = source.Options{Transport: homeTransport{t.HTTP.Transport}, UserAgent: agentName(), Octets: int64(o.octets)}
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
		return fmt.Errorf("%w: %d documents or entries could not be read", errDiffers, report.Skipped)
	}
	if report.Refused > 0 {
		return fmt.Errorf("%w: %d files were refused", errDiffers, report.Refused)
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
			return fmt.Errorf("%w: %d files are missing, such as %s", errDiffers, transit, left[0])
		}
	}
	counts := copied.Counts()
	r.Fetched, r.Deleted, r.Octets = counts.Fetched.Load(), counts.Deleted.Load(), counts.Stored.Load()
	return nil
}

// jobOf returns what the files of one job have in common.
func jobOf(uri string) string {
	if job := path.Dir(uri); path.Base(path.Dir(job)) == dir.Results {
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
		return r, withHint(fmt.Errorf("%s has no whole backup: there is no %s", dir, backupReport), "cutie backup "+dir+" --home HOME makes or finishes one")
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

// A home is restored in a directory within itself. When it is whole a file says so, and its
// entries move up, the tag of a home last. So a crash leaves no home, or a whole one.
const (
	restoringDir  = "cutie-restoring"
	restoredWhole = "cutie-whole" // in restoringDir
)

// restoreVerb makes a home of a backup.
func restoreVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore DIR",
		Short: "make a home of a backup",
		Args:  between(1, 1),
		Long: `
Makes the home of --home or CUTIE_HOME, which must be empty, of a backup by cutie backup.
DIR stays as it is. Jobs keep identifiers, order, states, sidecars, holds, leases, results
and settings; numbers of jobs and events go on; users, secrets and subscribers are those of
the backup. Every job file and payload is verified by its digest. The changes in the backup
stay published: followers that are not ahead of it go on with the home.

Jobs that were handed out and have no outcome are listed. --requeue-unfinished puts them
back into their queues. A pending job whose job file was changing during the backup, so
that the backup has a former one or none, is put on hold and listed.

Files of --also stay in the backup: the report says where. A restoration that was cut off
leaves no home, and begins anew. A queue of a mirror becomes a queue of its own.

It ends with 8 if files are missing or damaged.`,
		Example: `cutie restore /srv/backup --home new
cutie serve --home new`,
	}
	var o promotion
	flags := cmd.Flags()
	flags.BoolVar(&o.force, "force", false, "restore a backup with files missing")
	flags.BoolVar(&o.requeue, "requeue-unfinished", false, "put back jobs that were handed out and have no outcome")
	return c.Verb(cmd, optHome|optForm|optVerbose, func(ctx context.Context) error {
		if _, err := wantsJSON(c); err != nil {
			return err
		}
		r, err := o.restore(ctx, c.Args[0], c.Home)
		if err != nil {
			return hinted(err)
		}
		if err := printRestored(c, r); err != nil {
			return err
		}
		if mirror.Answers(ctx, strings.TrimSuffix(r.Source, "/")) {
			c.Warnf("%s answers: workers of both homes would get each job twice", r.Source)
		}
		return r.verdict("cutie check --repair " + c.Home)
	})
}

// A restored home is the report of the command.
type restored struct {
	state.Typed
	promoted
	Also []string `json:"also,omitempty"` // files of other places, in the backup
}

func (o *promotion) restore(ctx context.Context, dir, to string) (*restored, error) {
	if err := asOwner(to); err != nil {
		return nil, err
	}
	was, err := readBackup(dir)
	if err != nil {
		return nil, err
	}
	into, err := restoring(to)
	if err != nil {
		return nil, err
	}
	defer into.Close()
	at := filepath.Join(to, restoringDir)
	r := &restored{Typed: state.RestoreClass.Typed()}
	text, err := os.ReadFile(filepath.Join(at, restoredWhole))
	if err == nil {
		if err := json.Unmarshal(text, r); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(at, restoredWhole), err)
		}
		return r, moveUp(into)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := errors.Join(into.RemoveTree(restoringDir), o.fill(dir, at, &was)); err != nil {
		return nil, err
	}
	p, err := o.promote(ctx, at)
	if err != nil {
		return nil, err
	}
	r.promoted, r.Home = *p, to
	if r.Also, err = filesBelow(filepath.Join(dir, was.Files, alsoFiles)); err != nil {
		return nil, err
	}
	if err := r.whole(into); err != nil {
		return nil, err
	}
	return r, moveUp(into)
}

// restoring opens the directory of a home to be. It must be empty, but for a restoration cut
// off.
func restoring(to string) (*durable.Dir, error) {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return nil, err
	}
	into, err := durable.OpenDir(to, nil)
	if err != nil {
		return nil, err
	}
	other := ""
	begun := false
	err = into.Names(func(name string) {
		switch name {
		case restoringDir:
			begun = true
		case home.LostFound:
		default:
			other = name
		}
	})
	if err == nil && other != "" {
		if begun {
			_, err = os.Lstat(filepath.Join(to, restoringDir, restoredWhole))
		}
		if !begun || err != nil {
			err = withHint(fmt.Errorf("%s: %.60q: %w", to, other, fs.ErrExist), "--home DIR names a directory that is empty, or not there yet")
		}
	}
	if err != nil {
		return nil, errors.Join(err, into.Close())
	}
	return into, nil
}

// fill copies the backup.
func (o *promotion) fill(dir, to string, was *backedUp) error {
	from := filepath.Join(dir, backupCopy)
	_, sets, err := destination.Standings(from)
	if err != nil {
		return err
	}
	lock, err := local.Open(from, was.Source, false) // keeps backups out
	if err != nil {
		return err
	}
	defer lock.Close()
	for _, s := range sets {
		queue := strings.TrimSuffix(s.Name, wholeQueue)
		last, in := was.last(queue)
		if !o.force && (!s.Baseline || in && s.Reached < last || !in && s.Transit > 0) {
			return withHint(fmt.Errorf("%s: files of queue %s are missing, since the last backup was cut off", dir, queue),
				"cutie backup "+dir+" --home HOME finishes it; --force restores what there is")
		}
	}
	if err := copyTree(filepath.Join(dir, was.Files, homeFiles), to); err != nil {
		return err
	}
	// Former programs took the state of a copy along, out of a home that was one.
	if err := os.RemoveAll(filepath.Join(to, local.Own)); err != nil {
		return err
	}
	return copyTree(from, to)
}

// whole notes that the home is whole, on stable storage.
func (r *restored) whole(into *durable.Dir) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	at, err := into.Sub(restoringDir)
	if err != nil {
		return err
	}
	if err = at.SyncFS(); err == nil {
		err = at.Replace(restoredWhole, text)
	}
	return errors.Join(err, at.Close())
}

// moveUp moves a whole home to its place, the tag last: with it the directory is a home.
func moveUp(into *durable.Dir) error {
	at, err := into.Sub(restoringDir)
	if err != nil {
		return err
	}
	var names []string
	err = at.Names(func(name string) {
		if name != restoredWhole {
			names = append(names, name)
		}
	})
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(b, a) }) // "0=" is the least
	for _, name := range names {
		if err == nil && strings.HasPrefix(name, "0=") {
			err = into.Sync()
		}
		if err == nil {
			err = at.Rename(name, into, name)
		}
	}
	if err == nil {
		err = into.Sync()
	}
	if err = errors.Join(err, at.Close()); err != nil {
		return err
	}
	return into.RemoveTree(restoringDir)
}

// filesBelow returns the paths of the files below a directory.
func filesBelow(dir string) (all []string, err error) {
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path == dir {
			return nil
		}
		if err == nil && !e.IsDir() {
			all = append(all, path)
		}
		return err
	})
	return all, err
}

func printRestored(c *call, r *restored) error {
	if asJSON, _ := wantsJSON(c); asJSON {
		return printJSON(c, r)
	}
	if err := printPromoted(c, &r.promoted); err != nil {
		return err
	}
	for _, name := range r.Also {
		fmt.Fprintf(onScreen(c.Out.Stdout), "not in the home: %s\n", name)
	}
	return nil
}

// Files of a backup beside the queues.
const (
	homeFiles = "home" // of the home, below its directory
	alsoFiles = "also" // of other places, below the root of the file system
)

// settingsFile of a home says how it was published.
var settingsFile = filepath.Join(home.PublishedDir, "cutie-source.txt")

// inBackup reports whether a backup copies an entry of a home beside its queues: all that
// is neither made of the queues nor of this process alone.
func inBackup(name string) bool {
	switch name {
	case home.InfoName:
		return true
	case home.ListName, home.QueuesDir, home.LogDir, home.PublishedDir, home.CopiesDir, local.Own:
		return false
	}
	return !strings.HasPrefix(name, "cutie-") && !strings.HasPrefix(name, "0=")
}

// copyFiles copies the files of a home beside its queues, and those of Options, to the new
// directory dir.
func (o *backup) copyFiles(from, dir string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	names := []string{settingsFile}
	for _, e := range entries {
		if inBackup(e.Name()) {
			names = append(names, e.Name())
		}
	}
	for _, name := range names {
		err := copyTree(filepath.Join(from, name), filepath.Join(dir, homeFiles, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // it is gone meanwhile
			return err
		}
	}
	for _, name := range o.also {
		name, err := filepath.Abs(name)
		if err == nil {
			err = copyTree(name, filepath.Join(dir, alsoFiles, name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copyRows puts the rows of the home that its files do not have where the first opening of the
// restored home takes them in.
func copyRows(ctx context.Context, t *target, to string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(t.Base, "/")+daemon.OwnRowsPath, nil)
	if err != nil {
		return err
	}
	a, err := t.HTTP.Do(req)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	rows, err := io.ReadAll(a.Body)
	if err == nil && a.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", daemon.OwnRowsPath, a.Status)
	}
	if err != nil || len(rows) == 0 {
		return err
	}
	into := filepath.Join(to, home.LogDir, home.PackedDir)
	if err := os.MkdirAll(into, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(into, "rows"), rows, 0o600)
}

// copyTree copies a file, or a directory with all files below it, with modes and times.
// Neither sockets nor symbolic links are copied, except that name may be one. It syncs
// nothing.
func copyTree(name, to string) error {
	name, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return filepath.WalkDir(name, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			if path != name && errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		rest, err := filepath.Rel(name, path)
		if err != nil {
			return err
		}
		switch target := filepath.Join(to, rest); {
		case e.IsDir():
			return copyDir(path, target)
		case e.Type().IsRegular():
			err = copyFile(path, target)
		}
		if path != name && errors.Is(err, fs.ErrNotExist) {
			return nil // it is gone meanwhile
		}
		return err
	})
}

func copyDir(name, to string) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	return os.Chmod(to, info.Mode().Perm()|0o700)
}

func copyFile(name, to string) (err error) {
	in, err := os.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Chmod(info.Mode().Perm())
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}
