package rest_test

import (
	"fmt"
	"io"
	"net/http"
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

// Manifests that are redirected in a circle, and ones that are too long together, end.
func TestIncludedManifestsEnd(t *testing.T) {
	src := newSource(t, map[string]string{"/circle": "@round\n", "/long": "#" + strings.Repeat("x", 70_000), "/big": strings.Repeat("#\n", 1500)})
	src.handle = func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/circle", http.StatusFound) }
	u := src.url
	s := newSite(t, rest.Options{Fetch: src.client(t), Batch: batch.Limits{Lines: 6, Octets: 100_000}})
	for _, tt := range []struct {
		manifest string
		status   int
		want     string
	}{
		{"@" + u + "/circle\n", 400, u + "/circle line 1: " + u + "/round: this manifest includes itself"},
		{"@" + u + "/long\n", 413, u + "/long: manifests have more than 6 lines together, or one of more than 65536 octets"},
		{"# " + strings.Repeat(strings.Repeat("x", 1000)+"\n#", 98) + "\n@" + u + "/big\n", 400, "line 100: " + u + "/big: body is too big: it has "},
	} {
		if got := s.postBatch(tt.manifest).want(t, tt.status).exception(t); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%.80q: got %q, want %q", tt.manifest, got, tt.want)
		}
	}
	s.wantNoTemps()
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
