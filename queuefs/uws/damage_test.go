package uws_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cutie/queuefs/check"
	"cutie/queuefs/uws"
)

// damaged gives a job file another text between two openings of the home, and
// returns the URL of the job by then.
func (w *world) damaged(job, number string, edit func(text string) string) string {
	w.t.Helper()
	w.close()
	name := filepath.Join(w.dir, "queues", "q", "pending", number)
	text, err := os.ReadFile(name)
	if err != nil {
		w.t.Fatal(err)
	}
	write(w.t, name, edit(string(text)))
	w.quiet = true
	w.open(nil)
	return w.srv.URL + "/uws/q/async/" + idOf(job)
}

func TestJobWithADamagedRecordIsUnknown(t *testing.T) {
	line := func(name, value string) func(string) string {
		return func(text string) string {
			var b strings.Builder
			for l := range strings.Lines(text) {
				if !strings.HasPrefix(l, name+":") {
					b.WriteString(l)
				}
			}
			return b.String() + name + ": " + value + "\n"
		}
	}
	for name, edit := range map[string]func(string) string{
		"no job file":      func(string) string { return "no colon" },
		"empty job file":   func(string) string { return "" },
		"identifier":       line("uws-id", "broken"),
		"duration":         line("uws-duration", "soon"),
		"archived":         line("uws-archived", "soon"),
		"date of the file": line("submitted", "soon"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "")
			job := w.create("secret=1&PHASE=RUN")
			whole := w.create("a=1")
			job = w.damaged(job, "j000000000001", edit)
			w.phase(job, "UNKNOWN")
			if text := w.get(job); strings.Contains(text, "secret") {
				t.Errorf("got %s, want no parameters", text)
			}
			valid(t, "1.1", w.get(job), w.get("async"))
			w.want(404, "GET", job+"/parameters/secret", "")
			if got := ids(w.get("async?PHASE=UNKNOWN")); len(got) != 1 {
				t.Errorf("got %v of phase UNKNOWN, want the one", got)
			}
			w.want(200, "GET", job+"?WAIT=60", "")
			w.want(403, "POST", job+"/phase", "PHASE=RUN")
			w.phase(w.srv.URL+"/uws/q/async/"+idOf(whole), "PENDING")
			w.as = uws.Caller{Name: "somebody"}
			w.want(403, "DELETE", job, "")
		})
	}
}

// The secret part of the identifier protects a job whose other elements are damaged.
func TestDamagedRecordIsNotFoundByItsNumberAlone(t *testing.T) {
	w := newWorld(t, "")
	job, other := w.create("a=1"), w.create("a=1")
	job = w.damaged(job, "j000000000001", func(text string) string { return text + "uws-duration: soon\n" })
	w.phase(job, "UNKNOWN")
	id, wrong := idOf(job), idOf(other)
	w.want(404, "GET", w.srv.URL+"/uws/q/async/"+id[:9]+wrong[9:], "")
}

func TestCheckFindsElementsWithoutSense(t *testing.T) {
	w := newWorld(t, "")
	w.create("a=1")
	w.create("a=1")
	w.damaged("", "j000000000001", func(text string) string { return text + "uws-duration: soon\n" })
	w.close()
	inspect := func(repair bool) (found []string) {
		r, err := check.Home(w.dir, check.Options{Repair: repair, Now: w.clock, Segment: 1 << 20, Job: uws.Check})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range r.Problems {
			found = append(found, p.String())
		}
		return found
	}
	const want = "queues/q/pending/j000000000001: uws-duration: \"soon\": no number of seconds"
	for _, repair := range []bool{true, false} { // repair takes the edited file as it is
		if got := inspect(repair); len(got) != 1 || got[0] != want {
			t.Errorf("repair %v: got %q, want %s", repair, got, want)
		}
	}
	w.open(nil)
}
