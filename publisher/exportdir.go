package publisher

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"cutie/queuefs/durable"
	"cutie/queuefs/objects"
	"cutie/sitemap"
	"cutie/wellknown"
)

// An ExportDir keeps everything published in a directory that any web server or bucket can
// serve. Its methods are for one goroutine.
//
// Paths in the directory are those of references below the base URI. The Source Description,
// whose path is that of a directory, is index.xml and index.html there. Two names are ours:
//
//	.cutie-export   what the directory has, see exportState
//	.cutie-stage/   unfinished files; removed by the next run
//
// A run gets all changed documents into .cutie-stage, notes in .cutie-export what it begins
// to change, renames the files (a document after all that it names), removes what is named no longer, and writes .cutie-export again. A crash at any
// point leaves a tree whose references lead to files; the next run completes the work.
type ExportDir struct {
	Client *http.Client
	Source string // URI to ask at; with a final slash or not
	Dir    string // made if it is absent; refused if it has documents but no .cutie-export

	BaseURI string // see Export
	Robots  bool   // see Export

	// Resources copies payloads, job files, results and queue-info.txt too. Otherwise
	// references to files lead to the Source.
	Resources bool

	// Web gets each file before the directory has it; nil: there is none. To is its URL.
	Web Web
	To  string

	Fault durable.Fault // for tests
}

// ExportResult is what a run did.
type ExportResult struct {
	Documents int   // documents and packages written
	Resources int   // files of queues written
	Removed   int   // files removed
	Octets    int64 // bytes written
	Moved     int   // files of queues gone or changed before they were copied; the next run gets what became of them
}

// exportState is .cutie-export, in JSON. A file without a tag may have any bytes, or be absent.
type exportState struct {
	Format     int                 `json:"cutieExport"` // exportFormat
	Web        string              `json:"web,omitempty"`
	Resources  bool                `json:"resources,omitempty"`
	Unfinished bool                `json:"unfinished,omitempty"` // a run did not end: there may be files not named here
	Files      map[string]Exported `json:"files"`                // by path
}

const (
	exportFormat    = 1
	exportStateFile = ".cutie-export"
	exportStage     = ".cutie-stage"
	maxState        = 256 << 20 // bytes, a million documents
	robotsPath      = "robots.txt"
	filesOfQueues   = "queues"
)

// An exportRun is one use of an ExportDir.
type exportRun struct {
	*ExportDir
	lock   *os.File
	root   *durable.Dir
	stage  *durable.Dir            // nil before the first file
	open   map[string]*durable.Dir // by path
	old    exportState
	now    exportState
	base   string // begins the references in the directory
	anew   bool   // the Web may lack anything
	staged []stagedFile
	done   ExportResult
}

// A stagedFile is a file under a temporary name; "" if it came again.
type stagedFile struct {
	Exported
	tmp string
}

// Run brings the directory up to date. It writes what has changed alone, each file whole.
func (d *ExportDir) Run(ctx context.Context) (ExportResult, error) {
	r, err := d.begin()
	if err != nil {
		return ExportResult{}, err
	}
	if err = r.receive(ctx); err == nil {
		err = r.finish(ctx)
	}
	return r.done, errors.Join(err, r.close())
}

// begin opens the directory and locks it against other runs.
func (d *ExportDir) begin() (_ *exportRun, err error) {
	r := &exportRun{ExportDir: d, open: make(map[string]*durable.Dir)}
	if err := os.MkdirAll(d.Dir, 0o777); err != nil {
		return nil, err
	}
	if r.lock, err = os.Open(d.Dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if err := unix.Flock(int(r.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.New("another export writes there")
	}
	if r.root, err = durable.OpenShared(d.Dir, d.Fault); err != nil {
		return nil, err
	}
	if err := r.readState(); err != nil {
		return nil, err
	}
	if err := errors.Join(r.root.Sweep(nil), r.root.RemoveTree(exportStage)); err != nil {
		return nil, err
	}
	_, err = os.Lstat(r.file(robotsPath))
	if _, ours := r.old.Files[robotsPath]; d.Robots && !ours && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("robots.txt is there, but not by an export; remove it or leave robots.txt out")
	}
	r.now = exportState{Format: exportFormat, Web: d.To, Resources: d.Resources, Files: make(map[string]Exported)}
	r.anew = d.Web != nil && r.old.Web != d.To
	for path, f := range r.old.Files {
		st, err := os.Lstat(r.file(path))
		if r.anew || r.old.Resources != d.Resources || err != nil || !st.Mode().IsRegular() || st.Size() != f.Length {
			f.Tag = ""
			r.old.Files[path] = f
		}
	}
	return r, nil
}

// file returns the name of the file with a path below the base URI.
func (d *ExportDir) file(path string) string { return filepath.Join(d.Dir, path) }

// close removes staged files and closes all directories.
func (r *exportRun) close() (err error) {
	if r.stage != nil {
		err = errors.Join(r.stage.Close(), r.root.RemoveTree(exportStage))
	}
	for _, sub := range r.open {
		err = errors.Join(err, sub.Close())
	}
	if r.root != nil {
		err = errors.Join(err, r.root.Close())
	}
	return errors.Join(err, r.lock.Close())
}

// receive asks the Source and stages what has changed.
func (r *exportRun) receive(ctx context.Context) error {
	ask := Export{BaseURI: r.BaseURI, Resources: r.Resources, Robots: r.Robots}
	for _, f := range r.old.Files {
		if f.Tag != "" {
			ask.Has = append(ask.Has, f)
		}
	}
	body, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	resp, err := r.request(ctx, http.MethodPost, exportPath, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return fmt.Errorf("%s: %s: %s", resp.Request.URL, resp.Status, bytes.TrimSpace(text))
	}
	at := make(map[string]int) // of the staged files
	for in := bufio.NewReaderSize(resp.Body, 64<<10); ; {
		text, err := in.ReadSlice('\n')
		var line exportLine
		if err == nil {
			err = json.Unmarshal(text, &line)
		}
		switch {
		case err != nil:
			return fmt.Errorf("the answer of %s was cut off, or is no export: %w", resp.Request.URL, noEOF(err))
		case line.Error != "":
			return errors.New(line.Error)
		case line.End:
			return nil
		case line.File == nil:
			r.base = line.Base
			continue
		}
		f := *line.File
		if !exportable(f.Path) {
			return fmt.Errorf("%q is not a name for a file", f.Path)
		}
		if i, again := at[f.Path]; again {
			r.staged[i].tmp = ""
		}
		if f.Same {
			f.Same = false
		} else {
			tmp, err := r.write(io.LimitReader(in, f.Length), f.Length, f.SHA256, f.Modified)
			if err != nil {
				return fmt.Errorf("%s: %w", f.Path, noEOF(err))
			}
			at[f.Path] = len(r.staged)
			r.staged = append(r.staged, stagedFile{f, tmp})
		}
		r.now.Files[f.Path] = f
	}
}

func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// request asks the Source below its URI.
func (r *exportRun) request(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(r.Source, "/")+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return r.Client.Do(req)
}

// errChanged says that a file is not as it was listed.
var errChanged = errors.New("it does not have the length and digest that its list says")

// write stages a file of a length, if known, and a SHA-256, unless that is empty, with the
// modification time a web server is to send, unless that is zero.
func (r *exportRun) write(in io.Reader, length int64, sha string, modified time.Time) (tmp string, err error) {
	if r.stage == nil {
		if r.stage, err = r.root.MakeSub(exportStage); err != nil {
			return "", err
		}
	}
	f, tmp, err := r.stage.Temp()
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), in)
	if err == nil && (length >= 0 && n != length || sha != "" && sha != hex.EncodeToString(sum.Sum(nil))) {
		err = errChanged
	}
	if err == nil && !modified.IsZero() {
		err = os.Chtimes(f.Name(), modified, modified)
	}
	if err != nil {
		return "", errors.Join(err, r.stage.Remove(tmp))
	}
	return tmp, nil
}

// finish puts the staged files in place. The state says before that the directory is
// unfinished, and after it that it is complete.
func (r *exportRun) finish(ctx context.Context) error {
	r.staged = slices.DeleteFunc(r.staged, func(s stagedFile) bool { return s.tmp == "" })
	var gone []string
	between := exportState{exportFormat, r.To, r.Resources, true, maps.Clone(r.old.Files)}
	for _, s := range r.staged {
		r.done.Documents++
		r.done.Octets += s.Length
		between.Files[s.Path] = Exported{Path: s.Path}
	}
	for path := range r.old.Files {
		if _, named := r.now.Files[path]; !named {
			gone = append(gone, path)
			between.Files[path] = Exported{Path: path}
		}
	}
	if len(r.staged)+len(gone) == 0 && !r.old.Unfinished && r.old.Resources == r.Resources && r.old.Web == r.To {
		return nil
	}
	if err := r.writeState(&between); err != nil {
		return err
	}
	unlisted, err := r.copyFiles(ctx, gone)
	if err != nil {
		return err
	}
	slices.SortStableFunc(r.staged, func(a, b stagedFile) int { return a.Height - b.Height })
	if err := r.place(ctx, r.staged); err != nil {
		return err
	}
	slices.Sort(gone)
	for _, path := range append(unlisted, gone...) {
		if err := r.remove(ctx, path); err != nil {
			return err
		}
	}
	if r.Web != nil && (r.anew || r.old.Unfinished) {
		if err := r.tidy(ctx); err != nil {
			return err
		}
	}
	return r.writeState(&r.now)
}

// place renames staged files. The lower ones are on stable storage before a higher one
// follows, and all are at the end.
func (r *exportRun) place(ctx context.Context, all []stagedFile) error {
	for i, s := range all {
		if i == 0 || s.Height > all[i-1].Height {
			if err := r.root.SyncFS(); err != nil {
				return err
			}
		}
		if err := r.show(ctx, s.Exported, filepath.Join(r.stage.Path(), s.tmp)); err != nil {
			return err
		}
		dir, err := r.dir(s.Path)
		if err == nil {
			err = r.stage.Rename(s.tmp, dir, filepath.Base(s.Path))
		}
		if err != nil {
			return err
		}
	}
	return r.root.SyncFS()
}

// dir opens the directory of a path, and makes it.
func (r *exportRun) dir(path string) (*durable.Dir, error) {
	parent := filepath.Dir(path)
	if parent == "." {
		return r.root, nil
	}
	if r.open[parent] == nil {
		above, err := r.dir(parent)
		if err != nil {
			return nil, err
		}
		if r.open[parent], err = above.AddSub(filepath.Base(parent)); err != nil {
			delete(r.open, parent)
			return nil, err
		}
	}
	return r.open[parent], nil
}

// remove removes a file, from the Web before the directory.
func (r *exportRun) remove(ctx context.Context, path string) error {
	if err := r.hide(ctx, path); err != nil {
		return err
	}
	if _, err := os.Lstat(r.file(path)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	dir, err := r.dir(path)
	if err != nil {
		return err
	}
	r.done.Removed++
	return dir.Remove(filepath.Base(path))
}

// exportable reports whether a path leads to a file of an export: to no hidden name, and to
// none outside.
func exportable(path string) bool {
	for i, name := range strings.Split(path, "/") {
		wellKnown := i == 0 && name == ".well-known"
		if name == "" || name[0] == '.' && !wellKnown || strings.HasPrefix(name, durable.TempPrefix) || len(name) > 255 ||
			strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			return false
		}
	}
	return true
}

// readState reads the state. A directory with neither state nor documents has an empty one.
func (r *exportRun) readState() error {
	data, err := r.root.ReadFile(exportStateFile, nil, maxState)
	if err == nil {
		if r.old, err = parseExportState(data); err != nil {
			return fmt.Errorf("%s: %w; remove it and what was exported", exportStateFile, err)
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, path := range []string{strings.Trim(wellknown.Path, "/"), filesOfQueues} {
		if _, err := os.Lstat(r.file(path)); err == nil {
			return fmt.Errorf("%s is there, but not by an export; remove it or take another directory", path)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	r.old = exportState{Resources: r.Resources, Files: make(map[string]Exported)}
	return nil
}

func parseExportState(data []byte) (s exportState, err error) {
	if err = json.Unmarshal(data, &s); err == nil && s.Format != exportFormat {
		err = fmt.Errorf("its format is %d, and not %d", s.Format, exportFormat)
	}
	for path, f := range s.Files {
		if err == nil && (path != f.Path || !exportable(path)) {
			err = fmt.Errorf("%q is not a name for a file", path)
		}
	}
	if s.Files == nil {
		s.Files = make(map[string]Exported)
	}
	return s, err
}

func (r *exportRun) writeState(s *exportState) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return r.root.Replace(exportStateFile, data)
}

// The files of queues in an export are those in the Resource Lists of the sets replica. The
// lists in the directory say which files it has: a list is replaced after its files were
// added, and before files it no longer names are removed.

// fileLists matches current Resource Lists, not former ones.
var fileLists = regexp.MustCompile(`^\.well-known/resourcesync/[^/]+/replica/resourcelist(-[0-9]{6,11})?\.xml$`)

// copyFiles gets the new and changed files of the lists that change, and returns the paths of
// those that no list names any more. gone are the paths of documents that go.
func (r *exportRun) copyFiles(ctx context.Context, gone []string) (unlisted []string, err error) {
	was, is := make(map[string]bool), make(map[string]bool)
	add := func(to map[string]bool) func(string, *sitemap.Entry) error {
		return func(path string, _ *sitemap.Entry) error {
			to[path] = true
			return nil
		}
	}
	unknown := r.old.Unfinished || r.old.Resources != r.Resources // the directory may have any files
	lists := make(map[string]string)                              // staged files of new lists, by path
	for _, s := range r.staged {
		if r.Resources && fileLists.MatchString(s.Path) {
			lists[s.Path] = filepath.Join(r.stage.Path(), s.tmp)
		}
	}
	for path := range r.old.Files {
		if _, changed := lists[path]; (changed || slices.Contains(gone, path)) && r.Resources && fileLists.MatchString(path) {
			unknown = r.each(r.file(path), add(was)) != nil || unknown
		}
	}
	for path := range r.now.Files {
		if _, changed := lists[path]; unknown && !changed && r.Resources && fileLists.MatchString(path) {
			if err := r.each(r.file(path), add(is)); err != nil {
				return nil, err
			}
		}
	}
	if unknown {
		err := filepath.WalkDir(r.file(filesOfQueues), func(name string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				name, err = filepath.Rel(r.Dir, name)
				was[name] = true
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	var files []stagedFile
	for _, list := range lists {
		if err := r.each(list, func(path string, e *sitemap.Entry) error {
			is[path] = true
			s, err := r.fetch(ctx, path, e)
			if err == nil && s.tmp != "" {
				files = append(files, s)
			}
			if err == nil && len(files) >= fileBatch {
				err = r.place(ctx, files)
				files = files[:0]
			}
			return err
		}); err != nil {
			return nil, err
		}
	}
	maps.DeleteFunc(was, func(path string, _ bool) bool { return is[path] })
	return slices.Sorted(maps.Keys(was)), r.place(ctx, files)
}

// each calls visit with every file of a queue in a list.
func (r *exportRun) each(list string, visit func(path string, e *sitemap.Entry) error) error {
	in, err := os.Open(list)
	if err != nil {
		return err
	}
	defer in.Close()
	for rd := sitemap.NewReader(in); ; {
		e, err := rd.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", list, err)
		}
		ref, ok := strings.CutPrefix(e.Loc, r.base+"/")
		path, err := url.PathUnescape(ref)
		if !ok || err != nil || !strings.HasPrefix(path, filesOfQueues+"/") || !exportable(path) {
			continue
		}
		if err := visit(path, &e); err != nil {
			return err
		}
	}
}

// fileBatch is how many files of queues share one sync of the file system.
const fileBatch = 512

// fetch stages a file of a queue, unless it is in place with the time its list says. A file
// gone or changed by now is left to the next run.
func (r *exportRun) fetch(ctx context.Context, path string, e *sitemap.Entry) (s stagedFile, err error) {
	st, err := os.Lstat(r.file(path))
	if err == nil && st.Mode().IsRegular() && st.Size() == e.Length && st.ModTime().Equal(e.LastMod) {
		if r.anew {
			return s, r.show(ctx, Exported{Path: path}, r.file(path))
		}
		return s, nil
	}
	resp, err := r.request(ctx, http.MethodGet, strings.TrimPrefix(e.Loc, r.base), nil)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	sha, in := "", io.Reader(resp.Body)
	for _, h := range e.Hashes {
		if h.Alg == "sha-256" {
			sha = h.Value
		}
	}
	if e.Length >= 0 {
		in = io.LimitReader(in, e.Length+1)
	}
	switch resp.StatusCode {
	case http.StatusOK:
		s.tmp, err = r.write(in, e.Length, sha, e.LastMod)
	case http.StatusNotFound, http.StatusGone:
		err = errChanged
	default:
		err = errors.New(resp.Status)
	}
	if errors.Is(err, errChanged) {
		r.done.Moved++
		return stagedFile{}, nil
	}
	if err != nil {
		return s, fmt.Errorf("%s: %w", resp.Request.URL, err)
	}
	s.Path = path
	r.done.Resources++
	r.done.Octets += max(e.Length, 0)
	return s, nil
}

// A Web serves files to the world under names, as a bucket does.
type Web interface {
	// Publish makes or replaces a file, read from its offset on. mediaType and cacheControl
	// are fields of the answers with it. The error is [objects.ErrPrefix] if the name begins
	// others, and that cannot be.
	Publish(ctx context.Context, name string, file *os.File, mediaType, cacheControl string) error

	// Delete removes a file. If there is none, that is no error.
	Delete(ctx context.Context, name string) error

	// List returns up to most names with a prefix, in order, of those after a name.
	List(ctx context.Context, prefix, after string, most int) ([]string, error)
}

// show copies a file to the Web, before it gets its name in the directory: so a file that
// the state calls complete is there, too.
func (r *exportRun) show(ctx context.Context, f Exported, name string) error {
	if r.Web == nil {
		return nil
	}
	in, err := os.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	cache := "no-cache"
	if f.Final {
		cache = "max-age=31536000, immutable"
	}
	media := f.Type
	if media == "" {
		media = fileType(f.Path)
	}
	names := []string{f.Path}
	description := strings.Trim(wellknown.Path, "/")
	if f.Path == description+descriptionFile {
		names = append(names, description)
	}
	for _, name := range names {
		if _, err := in.Seek(0, io.SeekStart); err != nil {
			return err
		}
		err := r.Web.Publish(ctx, name, in, media, cache)
		if name == description && errors.Is(err, objects.ErrPrefix) {
			continue // then index.html stands for the directory
		}
		if err != nil {
			return fmt.Errorf("publish %s: %w", name, err)
		}
	}
	return nil
}

// fileType is the media type of a file of a queue. No browser runs payloads: strangers made
// them, and browsers may trust the place.
func fileType(name string) string {
	parts := strings.Split(name, "/")
	if len(parts) == 3 || len(parts) == 4 && (parts[2] == "pending" || parts[2] == "consumed" || parts[2] == "deleted") {
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

// hide removes a file from the Web, before the directory loses it.
func (r *exportRun) hide(ctx context.Context, path string) error {
	if r.Web == nil {
		return nil
	}
	if err := r.Web.Delete(ctx, path); err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// tidy removes files of the Web that the directory lacks. A run that has ended leaves none.
func (r *exportRun) tidy(ctx context.Context) error {
	const most = 1000
	for _, prefix := range []string{strings.Trim(wellknown.Path, "/") + "/", filesOfQueues + "/"} {
		for after := ""; ; {
			names, err := r.Web.List(ctx, prefix, after, most)
			if err != nil {
				return err
			}
			for _, name := range names {
				if path.Clean("/"+name) == "/"+name {
					if _, err := os.Lstat(r.file(name)); err == nil {
						continue
					} else if !errors.Is(err, fs.ErrNotExist) {
						return err
					}
				}
				if err := r.hide(ctx, name); err != nil {
					return err
				}
			}
			if len(names) < most {
				break
			}
			after = names[len(names)-1]
		}
	}
	return nil
}
