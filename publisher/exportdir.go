package publisher

import (
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
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

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
// whose path is that of a directory, is index.xml and index.html there. What the directory
// has is noted in .cutie-export, see exportState.
//
// A run gets all changed documents under temporary names, notes that it begins, gets the
// files of queues that the new Resource Lists name, renames the documents, each after all
// that it names, removes what is named no longer, and notes what there is now. A crash at
// any point leaves a tree whose references lead to files; the next run completes the work.
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

// ExportResult is what a run did.
type ExportResult struct {
	Documents int   // documents and packages written
	Resources int   // files of queues written
	Removed   int   // files removed
	Octets    int64 // bytes written
	Moved     int   // files of queues gone or changed before they were copied; the next run gets what became of them
}

// exportState is .cutie-export, in JSON. After a crash in a run only files that never change
// have known bytes, and there may be files it does not name.
type exportState struct {
	Format     int                 `json:"cutieExport"`   // exportFormat
	Base       string              `json:"base"`          // begins the references
	Web        string              `json:"web,omitempty"` // "?" while it gets all files
	Resources  bool                `json:"resources,omitempty"`
	Unfinished bool                `json:"unfinished,omitempty"` // a run did not end
	Files      map[string]Exported `json:"files"`                // documents, by path
}

const (
	exportFormat    = 1
	exportStateFile = ".cutie-export"
	maxState        = 256 << 20 // bytes, a million documents
	robotsPath      = "robots.txt"
	filesOfQueues   = "queues"
)

// description is the path of the Source Description.
var description = strings.Trim(wellknown.Path, "/")

// An exportRun is one use of an ExportDir.
type exportRun struct {
	*ExportDir
	files    *os.Root
	dir      *durable.Dir // the same directory
	old, now exportState
	other    bool                  // the directory or the Web may have any files
	staged   map[string]stagedFile // documents to be placed, by path
	may      map[string]bool       // paths of files that there may be, apart from those of old
	named    map[string]bool       // paths of files of queues in new lists
	done     ExportResult
}

// A stagedFile is a file under a temporary name.
type stagedFile struct {
	Exported
	tmp string
}

// Run brings the directory up to date. It writes what has changed alone, each file whole.
func (d *ExportDir) Run(ctx context.Context) (_ ExportResult, err error) {
	r := &exportRun{ExportDir: d, staged: make(map[string]stagedFile), may: make(map[string]bool), named: make(map[string]bool)}
	if err := os.MkdirAll(d.Dir, 0o777); err != nil {
		return r.done, err
	}
	lock, err := os.Open(d.Dir)
	if err != nil {
		return r.done, err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return r.done, errors.New("another export writes there")
	}
	if r.files, err = os.OpenRoot(d.Dir); err != nil {
		return r.done, err
	}
	defer r.files.Close()
	if r.dir, err = durable.OpenShared(d.Dir, d.Fault); err != nil {
		return r.done, err
	}
	defer func() { err = errors.Join(err, r.dir.Sweep(nil), r.dir.Close()) }()
	if err = r.dir.Sweep(nil); err == nil {
		err = r.readState()
	}
	if err == nil {
		err = r.receive(ctx)
	}
	if err == nil && r.changed() {
		err = r.finish(ctx)
	}
	return r.done, err
}

// readState reads the state. A directory with neither state nor documents has an empty one.
func (r *exportRun) readState() error {
	data, err := r.dir.ReadFile(exportStateFile, nil, maxState)
	foreign := []string{robotsPath}
	switch {
	case err == nil:
		if err = json.Unmarshal(data, &r.old); err == nil && r.old.Format != exportFormat {
			err = fmt.Errorf("its format is %d, and not %d", r.old.Format, exportFormat)
		}
		for path := range r.old.Files {
			if err == nil && !exportable(path) {
				err = fmt.Errorf("%q is not a name for a file", path)
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w; remove it and what was exported", exportStateFile, err)
		}
	case errors.Is(err, fs.ErrNotExist):
		r.old = exportState{Resources: r.Resources, Web: r.To, Unfinished: r.Web != nil}
		foreign = append(foreign, description, filesOfQueues)
	default:
		return err
	}
	for _, name := range foreign {
		if _, ours := r.old.Files[name]; ours || name == robotsPath && !r.Robots {
			continue
		}
		if _, err := r.files.Lstat(name); err == nil {
			return fmt.Errorf("%s is there, but not by an export; remove it or take another directory", name)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (r *exportRun) writeState(s *exportState) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return r.dir.Replace(exportStateFile, data)
}

// receive asks the Source, and stages what has changed.
func (r *exportRun) receive(ctx context.Context) error {
	ask := Export{BaseURI: r.BaseURI, Resources: r.Resources, Robots: r.Robots, Has: make(map[string]Exported)}
	r.now = exportState{Format: exportFormat, Web: r.To, Resources: r.Resources, Files: make(map[string]Exported)}
	r.other = r.old.Unfinished || r.old.Resources != r.Resources || r.old.Web != r.To
	for path, f := range r.old.Files {
		if st, err := r.files.Lstat(path); r.old.Web == r.To && err == nil && st.Mode().IsRegular() && st.Size() == f.Length {
			ask.Has[path] = f
		} else if fileLists.MatchString(path) {
			r.other = true
		}
	}
	if r.other {
		maps.DeleteFunc(ask.Has, func(_ string, f Exported) bool { return !f.Final })
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
	r.now.Base = resp.Header.Get(exportedBase)
	r.other = r.other || r.old.Base != r.now.Base
	_, params, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	for parts := multipart.NewReader(resp.Body, params["boundary"]); ; {
		part, err := parts.NextRawPart()
		line := ""
		if err == nil {
			line = part.Header.Get(exportedFile)
		}
		if err == nil && line == "" {
			var text []byte
			if text, err = io.ReadAll(io.LimitReader(part, 1<<10)); err == nil && len(text) > 0 {
				err = errors.New(string(text))
			}
			if err == nil {
				return nil
			}
		}
		var f Exported
		if err == nil {
			err = json.Unmarshal([]byte(line), &f)
		}
		if err == nil && !exportable(f.Path) {
			err = fmt.Errorf("%q is not a name for a file", f.Path)
		}
		if err == nil {
			err = r.stage(f, part)
		}
		if err != nil {
			return fmt.Errorf("the answer of %s is no whole export: %w", resp.Request.URL, err)
		}
	}
}

// stage stages a document, unless it is the same. One that comes again replaces itself.
func (r *exportRun) stage(f Exported, in io.Reader) error {
	delete(r.staged, f.Path)
	if f.Same {
		f.Same = false
	} else {
		tmp, err := r.write(&f, in)
		if err != nil {
			return err
		}
		r.staged[f.Path] = stagedFile{f, tmp}
	}
	r.now.Files[f.Path] = f
	return nil
}

// write writes a file under a temporary name, with the modification time that a web server
// is to send, unless that is zero.
func (r *exportRun) write(f *Exported, in io.Reader) (tmp string, err error) {
	out, tmp, err := r.dir.Temp()
	if err != nil {
		return "", err
	}
	defer out.Close()
	sum := sha256.New()
	if f.Length, err = io.Copy(io.MultiWriter(out, sum), in); err != nil {
		return "", err
	}
	f.SHA256 = hex.EncodeToString(sum.Sum(nil))
	if !f.Modified.IsZero() {
		err = os.Chtimes(out.Name(), f.Modified, f.Modified)
	}
	return tmp, err
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

// exportable reports whether a path leads to a file of an export: to no hidden name, and to
// none outside.
func exportable(path string) bool {
	return fs.ValidPath(path) && !strings.HasPrefix(path, durable.TempPrefix) &&
		!strings.Contains("/"+strings.TrimPrefix(path, ".well-known/"), "/.") &&
		!strings.ContainsFunc(path, func(c rune) bool { return c < ' ' || c == 0x7f })
}

// changed reports whether there is anything to do.
func (r *exportRun) changed() bool {
	for path := range r.old.Files {
		if _, named := r.now.Files[path]; !named {
			return true
		}
	}
	return r.other || len(r.staged) > 0
}

// finish brings the directory from the old state to the new one.
func (r *exportRun) finish(ctx context.Context) error {
	begun := r.old
	begun.Format, begun.Unfinished = exportFormat, true
	if r.old.Web != r.To {
		begun.Web = "?"
	}
	if err := r.writeState(&begun); err != nil {
		return err
	}
	if r.other {
		if err := r.findFiles(ctx); err != nil {
			return err
		}
	}
	if err := r.copyFiles(ctx); err != nil {
		return err
	}
	documents := slices.SortedFunc(maps.Values(r.staged), func(a, b stagedFile) int { return a.Height - b.Height })
	if err := r.place(ctx, documents); err != nil {
		return err
	}
	for _, s := range documents {
		r.done.Documents++
		r.done.Octets += s.Length
	}
	for path := range r.old.Files {
		r.may[path] = true
	}
	for _, path := range slices.Sorted(maps.Keys(r.may)) {
		if _, document := r.now.Files[path]; document || r.named[path] {
			continue
		}
		if err := r.remove(ctx, path); err != nil {
			return err
		}
	}
	return r.writeState(&r.now)
}

// place gives staged files their names. The lower ones are on stable storage before a higher
// one follows, and all are at the end.
func (r *exportRun) place(ctx context.Context, all []stagedFile) error {
	for i, s := range all {
		if i == 0 || s.Height > all[i-1].Height {
			if err := r.dir.SyncFS(); err != nil {
				return err
			}
		}
		if err := r.show(ctx, s.Exported, s.tmp); err != nil {
			return err
		}
		if err := r.dir.Step("place", func() error {
			if err := r.files.MkdirAll(filepath.Dir(s.Path), 0o777); err != nil {
				return err
			}
			return r.files.Rename(s.tmp, s.Path)
		}); err != nil {
			return err
		}
	}
	return r.dir.SyncFS()
}

// remove removes a file, from the Web before the directory.
func (r *exportRun) remove(ctx context.Context, path string) error {
	if r.Web != nil {
		if err := r.Web.Delete(ctx, path); err != nil {
			return fmt.Errorf("remove %s: %w", path, err)
		}
	}
	if !fs.ValidPath(path) {
		return nil // of the Web alone
	}
	err := r.dir.Step("remove", func() error { return r.files.Remove(path) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		r.done.Removed++
	}
	return err
}

// show copies a file to the Web, before it gets its name in the directory: so a file that
// the state calls complete is there, too.
func (r *exportRun) show(ctx context.Context, f Exported, name string) error {
	if r.Web == nil {
		return nil
	}
	in, err := r.files.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	cache := "no-cache"
	if f.Final {
		cache = "max-age=31536000, immutable"
	}
	names := []string{f.Path}
	if f.Path == description+descriptionFile {
		names = append(names, description)
	}
	for _, name := range names {
		if _, err := in.Seek(0, io.SeekStart); err != nil {
			return err
		}
		err := r.Web.Publish(ctx, name, in, exportedType(f.Path), cache)
		if name == description && errors.Is(err, objects.ErrPrefix) {
			continue // then index.html stands for the directory
		}
		if err != nil {
			return fmt.Errorf("publish %s: %w", name, err)
		}
	}
	return nil
}

// exportedType is the media type of a file. No browser runs payloads: strangers made them, and
// browsers may trust the place.
func exportedType(name string) string {
	parts := strings.Split(name, "/")
	if parts[0] == filesOfQueues {
		if len(parts) == 3 || len(parts) == 4 && slices.Contains([]string{"pending", "consumed", "deleted"}, parts[2]) {
			return "text/plain; charset=utf-8"
		}
		return "application/octet-stream"
	}
	switch filepath.Ext(name) {
	case ".xml":
		return typeXML
	case ".zip":
		return typeZIP
	case ".json":
		return typeJSON
	case ".html":
		return typeHTML
	}
	return "text/plain; charset=utf-8"
}

// findFiles notes all files of the directory and of the Web.
func (r *exportRun) findFiles(ctx context.Context) error {
	for _, top := range []string{description, filesOfQueues} {
		err := fs.WalkDir(r.files.FS(), top, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				r.may[path] = true
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		const most = 1000
		for names := make([]string, most); r.Web != nil && len(names) == most; {
			if names, err = r.Web.List(ctx, top+"/", names[most-1], most); err != nil {
				return err
			}
			for _, name := range names {
				r.may[name] = true
			}
		}
	}
	return nil
}

// The files of queues in an export are those in the Resource Lists of the sets replica. The
// lists in the directory say which files it has: a list is replaced after its files were
// added, and before files that no list names any more are removed. If the directory may have
// any files, all lists come again.

// fileLists matches current Resource Lists, not former ones.
var fileLists = regexp.MustCompile(`^\.well-known/resourcesync/[^/]+/replica/resourcelist(-[0-9]{6,11})?\.xml$`)

// copyFiles gets the new and changed files of the lists that change.
func (r *exportRun) copyFiles(ctx context.Context) error {
	if !r.Resources {
		return nil
	}
	for path := range r.old.Files {
		if now, named := r.now.Files[path]; fileLists.MatchString(path) && !r.other && (!named || now.Tag != r.old.Files[path].Tag) {
			if err := r.each(path, func(path string, _ *sitemap.Entry) error {
				r.may[path] = true
				return nil
			}); err != nil {
				return err
			}
		}
	}
	var files []stagedFile
	for _, list := range r.staged {
		if !fileLists.MatchString(list.Path) {
			continue
		}
		err := r.each(list.tmp, func(path string, e *sitemap.Entry) error {
			r.named[path] = true
			s, err := r.fetch(ctx, path, e)
			if err == nil && s.tmp != "" {
				files = append(files, s)
			}
			if err == nil && len(files) >= fileBatch {
				err = r.place(ctx, files)
				files = files[:0]
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return r.place(ctx, files)
}

// each calls visit with every file of a queue in a list.
func (r *exportRun) each(list string, visit func(path string, e *sitemap.Entry) error) error {
	in, err := r.files.Open(list)
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
		ref, ok := strings.CutPrefix(e.Loc, r.now.Base+"/")
		path, err := url.PathUnescape(ref)
		if ok && err == nil && strings.HasPrefix(path, filesOfQueues+"/") && exportable(path) {
			if err := visit(path, &e); err != nil {
				return err
			}
		}
	}
}

// fileBatch is how many files of queues share one sync of the file system.
const fileBatch = 512

// fetch stages a file of a queue, unless it is in place with the time its list says. A file
// gone or changed by now is left to the next run.
func (r *exportRun) fetch(ctx context.Context, path string, e *sitemap.Entry) (s stagedFile, err error) {
	st, err := r.files.Lstat(path)
	if err == nil && st.Mode().IsRegular() && st.Size() == e.Length && st.ModTime().Equal(e.LastMod) {
		if r.old.Web != r.To {
			return s, r.show(ctx, Exported{Path: path}, path)
		}
		return s, nil
	}
	resp, err := r.request(ctx, http.MethodGet, strings.TrimPrefix(e.Loc, r.now.Base), nil)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		in := io.Reader(resp.Body)
		if e.Length >= 0 {
			in = io.LimitReader(in, e.Length+1)
		}
		s.Exported = Exported{Path: path, Modified: e.LastMod}
		s.tmp, err = r.write(&s.Exported, in)
		same := e.Length < 0 || e.Length == s.Length
		for _, h := range e.Hashes {
			same = same && (h.Alg != "sha-256" || h.Value == s.SHA256)
		}
		if err != nil || same {
			break
		}
		fallthrough
	case http.StatusNotFound, http.StatusGone:
		r.done.Moved++
		return stagedFile{}, nil
	default:
		err = errors.New(resp.Status)
	}
	if err != nil {
		return s, fmt.Errorf("%s: %w", resp.Request.URL, err)
	}
	r.done.Resources++
	r.done.Octets += s.Length
	return s, nil
}
