package rest_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/batch"
	"cutie/queuefs/digest"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
)

// filenames are those of all jobs in the order of the queue.
func (s *site) filenames() string {
	s.t.Helper()
	jobs, err := s.q.List(queuefs.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	var names []string
	for _, j := range jobs {
		names = append(names, j.Filename)
	}
	return strings.Join(names, " ")
}

// The lines of a manifest that is included stand in the place of the line that
// names it, whichever way the batch is submitted; relative URLs begin where it
// was found, which is where redirects led.
func TestManifestsIncludeOthers(t *testing.T) {
	inner := "#%checkm_0.7\nc.bin md5 " + md5OfHello + "\n../d?x=1#y - - 6 - named\n#%eof\n"
	files := map[string]string{"/a": "hello\n", "/z": "hello\n", "/deep/c.bin": "hello\n", "/d": "hello\n", "/e": "hello\n",
		"/m": "/e\n@/moved\n", "/deep/inner": inner, "/empty": "# nothing\n"}
	src := newSource(t, files)
	src.handle = func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/deep/inner", http.StatusFound)
		case "/d":
			if r.URL.RawQuery != "x=1" {
				t.Errorf("asked for %s", r.URL)
			}
			io.WriteString(w, "hello\n")
		default:
			http.NotFound(w, r)
		}
	}
	outer := fmt.Sprintf("%[1]s/a\n@%[1]s/m sha-256 %[2]s %[3]d\n@%[1]s/empty\n%[1]s/z\n", src.url,
		digest.Sum(digest.SHA256, []byte(files["/m"])).Hex, len(files["/m"]))
	for name, submit := range map[string]func(s *site){
		"waiting": func(s *site) {
			q := s.postBatch(outer).want(t, 201).queue(t)
			want(t, "submitted", q.Submitted, []queuefs.JobID{1, 2, 3, 4, 5})
		},
		"not waiting": func(s *site) {
			b := s.ended(s.postBatch(outer, "Prefer", "respond-async").want(t, 202).Header.Get("Location"))
			if b.Status != state.BatchDone || b.Lines != 5 || b.Fetched != 5 || len(b.Submitted) != 5 {
				t.Errorf("got %+v", b)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newBatchSite(t, rest.Options{Fetch: src.client(t)})
			submit(s)
			if got := s.filenames(); got != "a e c.bin named z" {
				t.Errorf("got %s", got)
			}
			s.wantNoTemps()
		})
	}
}

// A complaint names the manifest and the line, and nothing is submitted.
func TestIncludedManifestsThatAreRefused(t *testing.T) {
	private := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("an address that is not allowed was asked") }))
	defer private.Close()
	src := newSource(t, nil)
	u := src.url
	files := map[string]string{
		"/a": "hello\n", "/bad": "a md5\nftp://x/y\n\n@again\n", "/again": "b c d e f g h\n", "/self": "a\n@self#x\n",
		"/one": "@two\n", "/two": "a\n@one\n", "/cut": "#%checkm\na\n", "/to-private": "@" + private.URL + "/m\n",
		"/missing": "a\nnosuch\n", "/nothing": "#%eof\n", "/dir": "@a dir\n", "/long": "#" + strings.Repeat("x", 70_000),
		"/many": "a\na\na\na\na\na\n", "/wide": "@nothing\n@nothing\n@nothing\n@nothing\n", "/circle": "@round\n",
		"/big": strings.Repeat("#\n", 1500),
	}
	for n := range 4 {
		files[fmt.Sprintf("/deep%d", n)] = fmt.Sprintf("@deep%d\n", n+1)
	}
	files["/deep4"] = "a\n"
	src.handle = func(w http.ResponseWriter, r *http.Request) {
		body, ok := files[r.URL.Path]
		switch {
		case r.URL.Path == "/round":
			http.Redirect(w, r, "/circle", http.StatusFound)
		case !ok:
			http.NotFound(w, r)
		default:
			io.WriteString(w, body)
		}
	}
	s := newSite(t, rest.Options{Fetch: src.client(t), Batch: batch.Limits{Lines: 6, Octets: 100_000, Includes: 4, Depth: 4}})
	for _, tt := range []struct {
		manifest string
		status   int
		want     string
	}{
		{"@" + u + "/bad\n" + u + "/x\n", 400, u + "/bad line 1: md5 without value; " + u + `/bad line 2: "ftp://x/y": refused: scheme is not http or https; ` +
			u + "/again line 1: 7 columns instead of 6; a blank in a name is written %20"},
		{u + "/a\n@" + u + "/gone\n", 400, "line 2: " + u + "/gone: answer is 404 not found"},
		{"@" + u + "/missing\n", 400, u + "/missing line 2: " + u + "/nosuch: answer is 404 not found"},
		{"@" + u + "/self\n", 400, u + "/self line 2: " + u + "/self#x: this manifest includes itself"},
		{"@" + u + "/one\n", 400, u + "/two line 2: " + u + "/one: this manifest includes itself"},
		{"@" + u + "/circle\n", 400, u + "/circle line 1: " + u + "/round: this manifest includes itself"},
		{"@" + u + "/cut\n", 400, u + "/cut line 2: truncated manifest: #%eof is missing"},
		{"@" + u + "/to-private\n", 400, u + "/to-private line 1: " + private.URL + "/m: refused: the host is not known, or its address is not public and not allowed here"},
		{"@http://127.0.0.1:1/m\n", 400, "line 1: http://127.0.0.1:1/m: refused: the host is not known, or its address is not public and not allowed here"},
		{"@file:///etc/passwd\n", 400, `line 1: "file:///etc/passwd": refused: scheme is not http or https`},
		{"@/etc/passwd\n", 400, `line 1: "/etc/passwd" is not a whole URL; relative ones are for manifests that are included by theirs`},
		{"@" + u + "/a dir\n", 400, "line 1: a directory is neither a job nor a manifest"},
		{"@" + u + "/dir\n", 400, u + "/dir line 1: a directory is neither a job nor a manifest"},
		{"@" + u + "/nothing md5 " + md5OfHello + "\n", 400, "line 1: " + u + "/nothing: digest verification failed: expected md5:"},
		{"@" + u + "/nothing - - 7\n", 400, "line 1: " + u + "/nothing: length is 6 instead of 7"},
		{"@" + u + "/nothing - - 3\n", 400, "line 1: " + u + "/nothing: length is 6 instead of 3"},
		{"@" + u + "/nothing\n", 400, "batch manifest names no files"},
		{"@" + u + "/deep0\n", 400, u + "/deep3 line 1: " + u + "/deep4: manifests include one another more than 4 deep"},
		{"@" + u + "/wide\n", 413, u + "/wide line 4: more than 4 manifests are included"},
		{u + "/a\n@" + u + "/many\n", 413, u + "/many: manifests have more than 6 lines together, or one of more than 65536 octets"},
		{"@" + u + "/long\n", 413, u + "/long: manifests have more than 6 lines together, or one of more than 65536 octets"},
		{"# " + strings.Repeat(strings.Repeat("x", 1000)+"\n#", 98) + "\n@" + u + "/big\n", 400, "line 100: " + u + "/big: body is too big: it has "},
	} {
		got := s.postBatch(tt.manifest).want(t, tt.status).exception(t)
		if !strings.HasPrefix(got, tt.want) {
			t.Errorf("%.80q: got %q, want %q", tt.manifest, got, tt.want)
		}
	}
	s.wantCounts(0, 0, 0)
	s.wantNoTemps()
	s.postBatch("@"+u+"/deep1\n").want(t, 201)
	s.wantCounts(1, 0, 0)

	off := newSite(t, rest.Options{Fetch: src.client(t), Batch: batch.Limits{Includes: -1}})
	before := src.asked.Load()
	if got := off.postBatch("@"+u+"/deep4\n").want(t, 400).exception(t); got != "line 1: no manifest is included here; its lines belong into this one" || src.asked.Load() != before {
		t.Errorf("got %q", got)
	}
}

// The time of a batch counts while its manifests are read.
func TestTimeForABatchEndsWhileManifestsAreRead(t *testing.T) {
	src := newSource(t, nil)
	src.handle = func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	s := newSite(t, rest.Options{Fetch: src.client(t), Batch: batch.Limits{Wait: 20 * time.Millisecond}})
	got := s.postBatch("@"+src.url+"/m\n").want(t, 400).exception(t)
	if got != "the time for the batch was over before all manifests were read" {
		t.Errorf("got %q", got)
	}
	s.wantCounts(0, 0, 0)
}
