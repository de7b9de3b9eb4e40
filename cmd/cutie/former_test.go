package main_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// unpack unpacks a home of a former version, and returns its directory.
func unpack(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(filepath.Join("../../testdata/former", name+".tgz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for in := tar.NewReader(z); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return filepath.Join(dir, name)
		}
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(dir, filepath.Clean("/"+h.Name))
		if h.FileInfo().IsDir() {
			err = os.MkdirAll(at, 0o777)
		} else if out, e := os.Create(at); e != nil {
			err = e
		} else {
			_, err = io.Copy(out, in)
			err = errors.Join(err, out.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Homes of the version before UWS jobs were jobs of the queue, one closed and one
// left by a kill, have jobs in every phase. uws-phases.txt in them lists these.
func TestHomesOfAFormerVersionOpen(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"stopped", "killed"} {
		t.Run(name, func(t *testing.T) {
			home := unpack(t, name)
			list, err := os.ReadFile(filepath.Join(home, "uws-phases.txt"))
			if err != nil {
				t.Fatal(err)
			}
			// Without documents of another base URI the lists go back as far as the
			// journal.
			if err := os.RemoveAll(filepath.Join(home, "resourcesync")); err != nil {
				t.Fatal(err)
			}
			listen := fmt.Sprintf("127.%d.%d.%d:8080", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
			for round, end := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGTERM} {
				d := serveHome(t, home, "--listen", listen)
				for line := range strings.Lines(string(list)) {
					want, id, _ := strings.Cut(strings.TrimSpace(line), " ")
					resp, got := ask(t, "GET", d.url+"uws/jobs/async/"+id+"/phase")
					if resp.StatusCode == 404 {
						got = "GONE"
					}
					if got != want && (want != "EXECUTING" || got != "QUEUED") { // the lease ends some day
						t.Errorf("got phase %s of job %s, want %s", got, id, want)
					}
					if want != "PENDING" {
						continue
					}
					_, text := ask(t, "GET", d.url+"uws/jobs/async/"+id)
					for _, file := range []string{"one", "two"} {
						if !strings.Contains(text, `id="`+file+`"`) {
							continue
						}
						if _, got := ask(t, "GET", d.url+"uws/jobs/async/"+id+"/parameters/"+file); !strings.HasPrefix(got, "a line of a large file\n") && got != "small\n" {
							t.Errorf("got %.100q of file %s of job %s", got, file, id)
						}
					}
				}
				if out, err := cutie(t, "cull", "jobs", "--size", "0", "-n", "--url", d.url); err != nil {
					t.Errorf("cull: %v: %s", err, out)
				}
				_, changes := ask(t, "GET", d.url+".well-known/resourcesync/jobs/replica/changelist.xml")
				// The first stop lets go of the journal of the former version.
				if round < 2 && !strings.Contains(changes, `cut:event="submit"`) || strings.Contains(changes, `cut:event="phase"`) {
					t.Errorf("got changes %s", changes)
				}
				if end == syscall.SIGKILL {
					d.kill()
				} else if err := d.stop(end); err != nil {
					t.Error(err)
				}
			}
			if out, err := cutie(t, "check", home); err != nil || !strings.HasSuffix(out, " 0 problems\n") {
				t.Errorf("check: %v: %s", err, out)
			}
		})
	}
}
