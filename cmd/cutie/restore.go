package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/mirror"
	"cutie/cmd/cutie/reach"
	"cutie/publisher/destination"
	"cutie/publisher/destination/local"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/state"
)

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
	if err := reach.AsOwner(to); err != nil {
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
			err = fault.Hint(fmt.Errorf("%s: %.60q: %w", to, other, fs.ErrExist), "--home DIR names a directory that is empty, or not there yet")
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
			return fault.Hint(fmt.Errorf("%s: files of queue %s are missing, since the last backup was cut off", dir, queue),
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
	case home.ListName, home.QueuesDir, home.LogDir, home.PublishedDir, home.MirrorsDir, home.CopiesDir, local.Own:
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
