package job_test

import (
	"errors"
	"strings"
	"testing"

	"cutie/queuefs/job"
)

func TestWordsReadAsWritten(t *testing.T) {
	for _, id := range []job.ID{1, 42, job.MaxID} {
		if got, err := job.ParseID(id.String()); got != id || err != nil {
			t.Errorf("got %v, %v, want %v", got, err, id)
		}
	}
	for s := job.Pending; s <= job.Deleted; s++ {
		if got, err := job.ParseStatus(s.String()); got != s || err != nil {
			t.Errorf("got %v, %v, want %v", got, err, s)
		}
	}
	for k := job.Submit; k <= job.Phase; k++ {
		if got, err := job.ParseKind(k.String()); got != k || err != nil {
			t.Errorf("got %v, %v, want %v", got, err, k)
		}
	}
	for o := job.Completed; o <= job.Aborted; o++ {
		if got, err := job.ParseOutcome(o.String()); got != o || err != nil {
			t.Errorf("got %v, %v, want %v", got, err, o)
		}
	}
	for _, bad := range []string{"", "j", "j000000000000", "J000000000001", "j00000000001", "j00000000000x", "Pending", "Status(0)"} {
		_, e1 := job.ParseID(bad)
		_, e2 := job.ParseStatus(bad)
		_, e3 := job.ParseKind(bad)
		_, e4 := job.ParseOutcome(bad)
		for _, err := range []error{e1, e2, e3, e4} {
			if !errors.Is(err, job.ErrBadName) {
				t.Errorf("%q: got %v", bad, err)
			}
		}
	}
}

func TestParseID(t *testing.T) {
	for id, want := range map[job.ID]string{1: "j000000000001", 42: "j000000000042", 999_999_999_999: "j999999999999"} {
		if got := id.String(); got != want {
			t.Errorf("%d: got %s want %s", uint64(id), got, want)
		}
		if got, err := job.ParseID(want); got != id || err != nil {
			t.Errorf("%s: got %v, %v", want, got, err)
		}
	}
	for _, in := range []string{
		"", "j", "j1", "j000000000000", "j00000000001", "j0000000000001", "J000000000001", "000000000001", "j00000000000a",
		"j-00000000001", "j+00000000001", " j000000000001", "j000000000001 ", "j000000000001\n", "j00000000000\x00", "j00000000000\u0661", "../../etc/passw",
		"j000000000001/", "%6a000000000001", strings.Repeat("j000000000001", 1000),
	} {
		if got, err := job.ParseID(in); !errors.Is(err, job.ErrBadName) || got != 0 || len(err.Error()) > 400 {
			t.Errorf("%.40q: got %v, %v", in, got, err)
		}
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("j000000000001")
	f.Add("j00000000000\u0661")
	f.Fuzz(func(t *testing.T, in string) {
		id, err := job.ParseID(in)
		if err == nil && (id.String() != in || id == 0) || err != nil && id != 0 {
			t.Fatalf("%q: got %v, %v", in, id, err)
		}
	})
}

func TestNamesOfStatusAndKind(t *testing.T) {
	for st := job.Pending; st <= job.Deleted; st++ {
		if got, err := job.ParseStatus(st.String()); got != st || err != nil {
			t.Errorf("%v: got %v, %v", st, got, err)
		}
	}
	for _, in := range []string{"", "Pending", "PENDING", "all", "pending ", "Status(4)"} {
		if got, err := job.ParseStatus(in); !errors.Is(err, job.ErrBadName) || got != 0 {
			t.Errorf("%q: got %v, %v", in, got, err)
		}
	}
	if job.Status(9).String() != "Status(9)" || job.Kind(99).String() != "Kind(99)" || job.Requeue.String() != "requeue" {
		t.Error("names of numbers without one")
	}
}
