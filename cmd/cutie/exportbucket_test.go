package main_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"cutie/queuefs/objects/objectstest"
)

// The bucket serves the world when no daemon does, and another home begins with a copy of
// it.
func TestABucketIsASource(t *testing.T) {
	t.Parallel()
	var store objectstest.Memory
	s3 := httptest.NewServer(objectstest.Handler(&store))
	defer s3.Close()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := store.Get(r.Context(), "www"+r.URL.Path, 0)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		defer body.Close()
		io.Copy(w, body)
	}))
	defer web.Close()
	dir := t.TempDir()
	d := serveHome(t, filepath.Join(dir, "home"))
	script := strings.NewReplacer("WEB", web.URL, "S3", s3.URL)
	sh(t, dir, script.Replace(`for i in 1 2 3 4 5; do echo $i >f$i; done
cutie put jobs f1 f2 f3 --home home
cutie get jobs --home home >/dev/null
cutie publish --now --home home
cutie export copy --home home --to s3://bucket/www --endpoint S3 --base-uri WEB --resources
cutie put jobs f4 f5 --home home
cutie export copy --home home --to s3://bucket/www --endpoint S3 --base-uri WEB --resources`))
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	sh(t, dir, script.Replace(`cutie sync WEB mirror --set jobs/replica
cutie audit mirror`))
	web.Close()
	sh(t, dir, `cutie promote mirror; cutie check mirror`)
	out, err := cutie(t, "status", "--home", filepath.Join(dir, "mirror"))
	if err != nil || !strings.Contains(out, "jobs\t4") {
		t.Errorf("got %q, %v, want the four jobs that wait", out, err)
	}
	for _, wrong := range [][]string{{"--to", "bucket"}, {"--endpoint", s3.URL}} {
		if out, err := cutie(t, append([]string{"export", filepath.Join(dir, "x"), "--home", filepath.Join(dir, "mirror")}, wrong...)...); err == nil {
			t.Errorf("%v: got %q, want an error", wrong, out)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "x")); !os.IsNotExist(err) {
		t.Errorf("a directory was made: %v", err)
	}
}
