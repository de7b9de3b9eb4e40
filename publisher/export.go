package publisher

import (
	"context"
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

// An Export keeps a copy of everything that a Source publishes in a directory,
// from which any web server or bucket can serve it. The paths in the directory
// are those of the references below the base URI; only the Source Description,
// whose path is that of a directory as well, stands in index.xml and index.html
// in there.
//
// Run writes what has changed since the last one and nothing else. A document
// is replaced whole or not at all, and after everything that it names; what is
// named no longer is removed last. After a crash the next Run ends what was
// begun. The file .cutie-export in the directory remembers the entity tags; if
// there are documents without it the directory is refused.
//
// The Source is asked as any Destination asks, so that it may be in this
// process, behind a socket, or far away. Its methods are for one goroutine.
type Export struct {
	Client *http.Client // nil: http.DefaultClient
	Source string       // URI to ask at instead of the base URI; with a final slash or not
	Dir    string       // is made if it is not there

	// BaseURI begins the references to what is in the directory, in place of
	// the Source's base URI; empty for that itself. At another place packages
	// get other octets, because of their manifests, and nothing is said of
	// notifications: hubs know the topics of the Source alone.
	BaseURI string

	// Resources writes the files of the queues too: payloads, job files and
	// queue-info.txt. Without them references to files lead to the Source.
	Resources bool

	// Robots writes robots.txt, with a line for each Resource List.
	Robots bool

	// Home is the directory of the Source, if it is on this machine: packages
	// are then hard links into it where the file system allows it.
	Home string

	Fault durable.Fault // for tests
}

// Exported is what a Run did.
type Exported struct {
	Documents int   // written, packages among them
	Resources int   // files of queues written
	Removed   int   // files
	Octets    int64 // written or linked
	Moved     int   // files of queues that were gone or changed before they could be copied; the next Run has what came of them
}

// ErrMoving says that the Source closes lists faster than they can be copied.
var ErrMoving = errors.New("the source changes faster than it can be copied")

// moveTries is how often a copy is begun again because a list was closed, or
// something removed, while it was made.
const moveTries = 20

// A run is one use of an Export.
type run struct {
	*Export
	source string // without a slash at the end
	base   string // of the Source, "" if it is not known: nothing is published
	tree   string // base of the references in the directory
	dir    *exportDir
	old    *exportState
	nodes  map[string]*node
	queue  []*node // nodes still to be looked at
	done   Exported
}

// Run brings the directory up to date.
func (e *Export) Run(ctx context.Context) (Exported, error) {
	r, unlock, err := e.begin()
	if err != nil {
		return Exported{}, fmt.Errorf("export to %s: %w", e.Dir, err)
	}
	defer unlock()
	if err = r.copy(ctx); err == nil {
		err = r.finish(ctx)
	}
	if err = errors.Join(err, r.dir.close()); err != nil {
		return r.done, fmt.Errorf("export to %s: %w", e.Dir, err)
	}
	return r.done, nil
}

// begin opens the directory, and keeps others from writing there.
func (e *Export) begin() (*run, func(), error) {
	r := &run{Export: e, source: strings.TrimRight(e.Source, "/"), tree: strings.TrimRight(e.BaseURI, "/")}
	for _, uri := range []string{r.source, r.tree} {
		u, err := url.Parse(uri)
		if err != nil || uri != "" && (u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" || u.User != nil) {
			return nil, nil, fmt.Errorf("%q is not an absolute http or https URI", uri)
		}
	}
	if err := os.MkdirAll(e.Dir, 0o777); err != nil {
		return nil, nil, err
	}
	lock, err := os.Open(e.Dir)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, nil, errors.New("another export writes there")
	}
	if r.dir, err = openExportDir(e.Dir, e.Fault); err != nil {
		lock.Close()
		return nil, nil, err
	}
	if r.old, err = r.dir.readState(); err == nil {
		err = r.dir.sweep()
	}
	if err != nil {
		r.dir.close()
		lock.Close()
		return nil, nil, err
	}
	if r.old.to != r.tree && r.tree != "" || r.tree == "" && r.old.to != r.old.from || r.old.resources != e.Resources {
		r.old.forget()
	}
	return r, func() { lock.Close() }, nil
}

// copy gets all that has changed, beside what is there.
func (r *run) copy(ctx context.Context) error {
	for range moveTries {
		err := r.crawl(ctx)
		if err == nil {
			err = r.confirm(ctx)
		}
		if !errors.Is(err, ErrMoving) {
			return err
		}
		if err := r.dir.discard(); err != nil {
			return err
		}
	}
	return ErrMoving
}

// finish puts what was got in place of what was there. It begins when the
// state says that it has begun, and is done when that says so.
func (r *run) finish(ctx context.Context) error {
	if r.Robots {
		if err := r.robots(); err != nil {
			return err
		}
	}
	state := r.state()
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
	if !r.dir.pending() && !files.any() && len(gone) == 0 && state.equal(r.old) {
		return nil
	}
	if err := r.dir.writeState(r.old.beginning(state)); err != nil {
		return err
	}
	if err := files.copy(ctx); err != nil {
		return err
	}
	if err := r.dir.place(); err != nil {
		return err
	}
	if err := files.remove(ctx); err != nil {
		return err
	}
	slices.Sort(gone)
	for _, path := range gone {
		if err := r.dir.remove(path); err != nil {
			return err
		}
		r.done.Removed++
	}
	return r.dir.writeState(state)
}

// state is what the directory holds when everything is in place.
func (r *run) state() *exportState {
	s := &exportState{from: r.base, to: r.tree, resources: r.Resources, docs: make(map[string]exported)}
	for path, n := range r.nodes {
		s.docs[path] = n.exported
	}
	return s
}

// robots makes robots.txt unless it is there.
func (r *run) robots() error {
	var lists []string
	for path := range r.nodes {
		if strings.HasPrefix(path, wellknown.Path+"/") && strings.HasSuffix(path, "/"+docName{kind: resourceList}.String()) {
			lists = append(lists, r.tree+path)
		}
	}
	slices.Sort(lists)
	text := wellknown.Robots(lists)
	n := &node{exported: exported{path: robotsPath, tag: salt(text), sha256: "-"}, rank: rankOf(robotsPath, nil)}
	r.nodes[robotsPath] = n
	had, ours := r.old.docs[robotsPath]
	size, _, err := r.dir.stat(robotsPath)
	switch {
	case ours && err == nil && had.tag == n.tag && had.length == size:
		n.exported = had
		return nil
	case !ours && !errors.Is(err, fs.ErrNotExist):
		return errors.New("robots.txt is there, but not by an export; remove it or leave robots.txt out")
	}
	return r.stage(n, []byte(text), nil)
}

const robotsPath = "/robots.txt"
