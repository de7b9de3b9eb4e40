package inspect_test

import (
	"io"
	"net/http"
	"testing"
)

// The resource of a requeued job comes back after the Resource Dump with its old time, and
// is in no package.
func TestWhatCameBackAfterADumpIsNoFinding(t *testing.T) {
	f := filled(t) // without /b
	was := f.Now
	for _, path := range []string{"/set/resourcedump.xml", "/set/dump.zip"} {
		resp, err := http.Get(f.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		old, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		f.Fault(path, func(w http.ResponseWriter, _ *http.Request) bool { w.Write(old); return true })
	}
	f.Put("/b", "text of /b")
	f.Lock(func() {
		f.Modified["/b"] = was.Add(-2e9)
		f.Changes[len(f.Changes)-1].LastMod = was.Add(-2e9)
	})
	f.Put("/e", "later")
	if r := report(t, f); len(r.Findings) > 0 {
		t.Errorf("got %+v", r.Findings)
	}
}
