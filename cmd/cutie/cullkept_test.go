package main_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"testing"
)

// Whoever culls is told of what stays, with the exit code of success: also of several
// queues.
func TestCullTellsWhatIsKept(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/cull" {
			t.Errorf("asked %s %s", r.Method, r.URL)
		}
		w.Header().Set("Content-Type", "text/x-anvl")
		io.WriteString(w, "name: x\nculledJob: jobs j000000000001 consumed 2026-01-02T03:04:05.000000Z 7\n"+
			"keptJob: jobs 12 spared\nkeptJob: other 1 spared\n")
	}))
	defer srv.Close()
	out, err := exec.Command("cutie", "cull", "--url", srv.URL).CombinedOutput()
	want := `jobs	j000000000001	consumed	7	2026-01-02T03:04:05.000000Z
cutie: cull: 1 job of 7 octets culled
cutie: cull: jobs: 12 jobs kept until the destruction that UWS has promised
cutie: cull: other: 1 job kept until the destruction that UWS has promised
`
	if got := string(out); err != nil || got != want {
		t.Errorf("got %v\n%s\nwant\n%s", err, got, want)
	}
	if out, err := exec.Command("cutie", "cull", "-q", "--url", srv.URL).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("-q: got %v %s", err, out)
	}
}
