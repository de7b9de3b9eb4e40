package callback_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cutie/cmd/cutie/callback"
	"cutie/queuefs"
)

func (h *home) phase(q *queuefs.Queue, subject, phase string) {
	h.t.Helper()
	if err := q.TellPhase(ctx, subject, phase); err != nil {
		h.t.Fatal(err)
	}
}

var anyTime = regexp.MustCompile(`20[0-9-]+T[0-9:.]+Z`)

// told returns what came since the last call: the kind, and the body without
// its times.
func (r *receiver) told() (all []string) {
	for _, d := range r.received() {
		all = append(all, d.header.Get("Cutie-Sequence")+" "+d.header.Get("Cutie-Event")+" "+anyTime.ReplaceAllString(d.body, "T"))
	}
	return all
}

func (r *receiver) wantTold(t *testing.T, want ...string) {
	t.Helper()
	if got := r.told(); !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

const (
	aborted = `2 phase {"queue":"jobs","seq":2,"time":"T","kind":"phase","job":"u1","phase":"ABORTED","state":"http://h.example/uws/jobs/async/u1"}`
	gone    = `3 phase {"queue":"jobs","seq":3,"time":"T","kind":"phase","job":"u2"}`
	pending = `4 phase {"queue":"jobs","seq":4,"time":"T","kind":"phase","job":"u3","phase":"PENDING","state":"http://h.example/uws/jobs/async/u3"}`
)

func TestReceiversAreToldOfPhases(t *testing.T) {
	h, r := newHome(t, callback.Options{}), newReceiver(t)
	h.secrets("jobs: "+secret+"\n", 0o600)
	q := h.queue("jobs", r.URL)
	h.phase(q, "u1", "PENDING")
	h.phase(q, "u1", "ABORTED") // the last one counts
	h.phase(q, "u2", "")
	h.tick()
	all := r.received()
	if len(all) != 2 {
		t.Fatalf("got %d deliveries", len(all))
	}
	for name, want := range map[string]string{"Content-Type": "application/json", "Cutie-Queue": "jobs", "Cutie-Event": "phase", "Cutie-Sequence": "2"} {
		if got := all[0].header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if all[0].header.Get("Cutie-Signature") == "" || all[0].header.Get("Cutie-Delivery") == all[1].header.Get("Cutie-Delivery") {
		t.Errorf("got headers %v and %v", all[0].header, all[1].header)
	}
	r.got = all
	r.wantTold(t, aborted, gone)
	h.phase(q, "u3", "PENDING")
	h.tick()
	r.wantTold(t, pending)
	if st := h.state("jobs"); st.Delivered != 3 || st.Waiting != 0 {
		t.Errorf("got %+v", st)
	}
}

// What waits of phases is kept beside what waits of jobs, whose lines are those
// of always.
func TestPhasesThatWaitOutliveTheJournal(t *testing.T) {
	h, r := newHome(t, callback.Options{}), newReceiver(t)
	h.queue("filler", "")
	q := h.queue("jobs", r.URL)
	h.phase(q, "u1", "PENDING")
	h.phase(q, "u1", "ABORTED")
	h.phase(q, "u2", "")
	h.phase(q, "u3", "PENDING")
	h.submit(q, "x")
	r.fails(1)
	h.tick()
	r.received()
	h.checkpoint(q)
	text, err := os.ReadFile(filepath.Join(h.dir, "callbacks", "jobs.outbox"))
	if err != nil {
		t.Fatal(err)
	}
	want := "5 T\n2 T phase u1 ABORTED\n3 T phase u2\n4 T phase u3 PENDING\n5 T submit " + j1 + "\nseal: "
	if got := anyTime.ReplaceAllString(string(text), "T"); !strings.HasPrefix(got, want) {
		t.Errorf("got outbox\n%s\nwant\n%s", got, want)
	}
	killed := copyHome(t, h.dir)
	for _, o := range []*home{h, h.elsewhere(killed)} {
		if o == h {
			h.close()
			h.open()
		}
		o.tick()
		got := r.told()
		if len(got) != 4 || !slices.Equal(got[:3], []string{aborted, gone, pending}) {
			t.Errorf("got\n%q", got)
		}
		if reports := o.reported(); len(reports) > 0 {
			t.Errorf("got reports %q", reports)
		}
		o.close()
	}
}

// Phases that the journal has no longer are not told of, and it is said.
func TestLostPhasesAreReported(t *testing.T) {
	h, r := newHome(t, callback.Options{}), newReceiver(t)
	h.queue("filler", "")
	q := h.queue("jobs", r.URL)
	h.submit(q, "x")
	h.tick()
	h.close()
	r.received()

	h.openService()
	h.svc.Follow(forgetful{}) // a daemon without callbacks
	q = h.queue("jobs", "")
	h.phase(q, "u1", "PENDING")
	h.submit(q, "y")
	h.checkpoint(q)
	if err := h.svc.Close(); err != nil {
		t.Fatal(err)
	}
	h.open()
	h.tick()
	r.want(t, "jobs 3 submit "+j2+" pending")
	h.wantReport("and phases")
}

func TestPhasesSetAsideAreListed(t *testing.T) {
	h, r := newHome(t, callback.Options{MaxWaiting: 10}), newReceiver(t)
	q := h.queue("jobs", r.URL)
	r.fails(1)
	for i := range 12 {
		h.phase(q, "u"+string(rune('a'+i)), "PENDING")
	}
	h.tick()
	text, err := os.ReadFile(filepath.Join(h.dir, "callbacks", "jobs.dead"))
	if err != nil {
		t.Fatal(err)
	}
	want := "T 1 T phase ua PENDING \"more waited than there is room for\"\n"
	if got := anyTime.ReplaceAllString(string(text), "T"); len(got) < len(want) || got[:len(want)] != want {
		t.Errorf("got\n%s\nwant first\n%s", got, want)
	}
}
