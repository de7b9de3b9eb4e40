// Package documents copies what a ResourceSync Source publishes (ANSI/NISO
// Z39.99-2017, version 1.1, and its earlier versions).
//
// A [Mirror] keeps a copy of all documents of a Source in a directory; any web
// server or bucket can serve the directory. A Source is asked by HTTP alone, so
// it may be in this process, behind a socket, or far away.
//
// # Files
//
// Paths in the directory are the paths of references below the base URI. The
// Source Description has the path of a directory; it stands in that directory
// as index.xml and index.html. Two names are ours:
//
//	.cutie-export   entity tags and lengths of what is there, see state
//	.cutie-stage/   unfinished files; removed by the next run
//
// A run gets all changed documents into .cutie-stage, notes in .cutie-export
// what it begins to change, renames the files in ranks (a document after all
// documents it names), removes what is named no longer, and writes
// .cutie-export again. A crash at any point leaves a tree whose references
// lead to files; the next run completes the work.
package documents

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"cutie/queuefs/durable"
	"cutie/wellknown"
)

// A Mirror keeps a copy of all documents of a Source in a directory. Its
// methods are for one goroutine.
type Mirror struct {
	Client *http.Client // nil: http.DefaultClient
	Source string       // URI to ask at instead of the base URI; with a final slash or not
	Dir    string       // made if it is absent; refused if it has documents but no .cutie-export

	// BaseURI replaces the Source's base URI in references; empty keeps it. At
	// another base URI packages get other bytes, because their manifests have
	// references, and hubs are left out: a hub serves the topics of the Source
	// alone.
	BaseURI string

	// Resources copies payloads, job files and queue-info.txt too. Otherwise
	// references to files lead to the Source.
	Resources bool

	// Robots writes robots.txt, with a line for each Resource List.
	Robots bool

	// Home is the home of the Source on this machine, or empty. Packages are
	// hard links into it where the file system allows that.
	Home string

	// Web gets a copy of each file before the directory has it; nil: there is none. To is
	// its URL.
	Web Web
	To  string

	Fault durable.Fault // for tests

	finals map[string]content // of documents that never change, by path
}

// Result is what a run did.
type Result struct {
	Documents int   // documents and packages written
	Resources int   // files of queues written
	Removed   int   // files removed
	Octets    int64 // bytes written or linked
	Moved     int   // files of queues gone or changed before they were copied; the next run gets what became of them
}

// ErrMoving says that the Source closes lists faster than they can be copied.
var ErrMoving = errors.New("the source changes faster than it can be copied")

// moveTries is how often a copy begins again after the Source has closed a
// list or removed a document meanwhile.
const moveTries = 20

// A run is one use of a Mirror.
type run struct {
	*Mirror
	source string // without a slash at the end
	base   string // of the Source; empty while unknown
	target string // base of the references in the directory
	tree   *tree
	old    *state
	anew   bool // the Web may lack anything
	tidy   bool // the Web may have files without one in the directory
	nodes  map[string]*node
	queue  []*node // nodes to visit
	done   Result
}

// Run brings the directory up to date. It writes changed documents only, each
// whole.
func (m *Mirror) Run(ctx context.Context) (Result, error) {
	r, unlock, err := m.open()
	if err != nil {
		return Result{}, err
	}
	defer unlock()
	if err = r.copy(ctx); err == nil {
		err = r.finish(ctx)
	}
	return r.done, errors.Join(err, r.tree.close())
}

// open opens the directory and locks it against other runs.
func (m *Mirror) open() (*run, func(), error) {
	r := &run{Mirror: m, source: strings.TrimRight(m.Source, "/"), target: strings.TrimRight(m.BaseURI, "/")}
	for _, uri := range []string{r.source, r.target} {
		u, err := url.Parse(uri)
		if err != nil || uri != "" && (u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" || u.User != nil) {
			return nil, nil, fmt.Errorf("%q is not an absolute http or https URI", uri)
		}
	}
	if err := os.MkdirAll(m.Dir, 0o777); err != nil {
		return nil, nil, err
	}
	lock, err := os.Open(m.Dir)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, nil, errors.New("another export writes there")
	}
	if r.tree, err = openTree(m.Dir, m.Fault); err == nil {
		if r.old, err = r.tree.readState(); err == nil {
			err = errors.Join(r.tree.root.Sweep(nil), r.tree.root.RemoveTree(stageName))
		}
		if err != nil {
			r.tree.close()
		}
	}
	if err != nil {
		lock.Close()
		return nil, nil, err
	}
	r.tree.web = m.Web
	r.tidy = m.Web != nil && (r.old.web != m.To || r.old.unfinished)
	if r.anew = m.Web != nil && r.old.web != m.To; r.anew {
		r.old.forget()
		m.finals = nil
	}
	if r.old.to != r.target && r.target != "" || r.target == "" && r.old.to != r.old.from || r.old.resources != m.Resources {
		r.old.forget()
		m.finals = nil
	}
	if m.finals == nil {
		m.finals = make(map[string]content)
	}
	return r, func() { lock.Close() }, nil
}

// copy stages all changed documents.
func (r *run) copy(ctx context.Context) error {
	for range moveTries {
		err := r.crawl(ctx)
		if err == nil {
			err = r.confirm(ctx)
		}
		if !errors.Is(err, ErrMoving) {
			return err
		}
		if err := r.tree.discard(); err != nil {
			return err
		}
	}
	return ErrMoving
}

// finish puts the staged files in place. The state file says before that the
// tree is unfinished, and after it that it is complete.
func (r *run) finish(ctx context.Context) error {
	if r.Robots {
		if err := r.robots(); err != nil {
			return err
		}
	}
	state := &state{from: r.base, to: r.target, resources: r.Resources, web: r.To, docs: make(map[string]doc)}
	for path, n := range r.nodes {
		state.docs[path] = n.doc
	}
	files, err := r.files()
	if err != nil {
		return err
	}
	defer files.close()
	var gone []string
	for path := range r.old.docs {
		if r.nodes[path] == nil {
			gone = append(gone, path)
		}
	}
	if len(r.tree.staged)+len(files.lists)+len(gone) == 0 && !files.all && !r.tidy && state.equal(r.old) {
		return nil
	}
	if err := r.tree.writeState(r.old.until(state)); err != nil {
		return err
	}
	if err := files.copy(ctx); err != nil {
		return err
	}
	if err := r.tree.place(ctx); err != nil {
		return err
	}
	if err := files.remove(ctx); err != nil {
		return err
	}
	slices.Sort(gone)
	for _, path := range gone {
		if err := r.tree.remove(ctx, path); err != nil {
			return err
		}
		r.done.Removed++
	}
	if r.tidy {
		if err := r.tree.tidy(ctx); err != nil {
			return err
		}
	}
	return r.tree.writeState(state)
}

const robotsPath = "/robots.txt"

// robots stages robots.txt unless the directory has it.
func (r *run) robots() error {
	var lists []string
	for path := range r.nodes {
		if strings.HasSuffix(path, "/resourcelist.xml") {
			lists = append(lists, r.target+path)
		}
	}
	slices.Sort(lists)
	text := []byte(wellknown.Robots(lists))
	n := &node{doc: doc{path: robotsPath, tag: fmt.Sprintf("%.6x", sha256.Sum256(text)), sha256: "-"}, rank: rankOf(robotsPath, nil)}
	r.nodes[robotsPath] = n
	had, ours := r.old.docs[robotsPath]
	size, _, err := r.tree.stat(robotsPath)
	switch {
	case ours && err == nil && had.tag == n.tag && had.length == size:
		n.doc = had
		return nil
	case !ours && !errors.Is(err, fs.ErrNotExist):
		return errors.New("robots.txt is there, but not by an export; remove it or leave robots.txt out")
	}
	return r.stage(n, text, nil)
}
