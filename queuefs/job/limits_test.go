package job_test

import (
	"testing"

	"cutie/queuefs/job"
)

func TestLimitsReadWhatTheyPrint(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		"pending=5":               "pending=5",
		"life=0,pending=5":        "pending=5,life=0",
		"upload=1,run=2,active=3": "active=3,upload=1,run=2",
		"life=1000001":            "error",
		"run=2147483648":          "error",
		"pending":                 "error",
		"pending=":                "error",
		"pending=-1":              "error",
		"pending=1,pending=2":     "error",
		"pending=0,pending=2":     "error",
		"jobs=1":                  "error",
		"pending=1,":              "error",
	} {
		l, err := job.ParseLimits(text)
		got := l.String()
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: got %q (%v), want %q", text, got, err, want)
		}
	}
}

func TestLimitsLieOverOthers(t *testing.T) {
	own, err := job.ParseLimits("pending=0,run=7")
	if err != nil {
		t.Fatal(err)
	}
	got := own.Over(job.Limits{Pending: 10, Active: 20, Run: 30})
	if want := (job.Limits{Pending: job.Unlimited, Active: 20, Run: 7}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}
