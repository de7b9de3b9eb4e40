package publisher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"cutie/sitemap"
)

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
	for path := range r.old.files {
		if _, changed := lists[path]; (changed || slices.Contains(gone, path)) && r.Resources && fileLists.MatchString(path) {
			unknown = r.each(r.file(path), add(was)) != nil || unknown
		}
	}
	for path := range r.now.files {
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
