package home_test

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"cutie/queuefs/home"
	"cutie/queuefs/job"
)

func TestList(t *testing.T) {
	for _, tt := range []struct {
		text string
		ids  []string
		add  string // x
		drop string // ark+=1=x
	}{
		{"", []string{}, "x\n", ""},
		{"jobs", []string{"jobs"}, "jobs\nx\n", "jobs"},
		{"# mine\r\n\r\n  ark:/1/x  \r\nark+=1=x\njobs\n", []string{"ark+=1=x", "jobs"}, "# mine\r\n\r\n  ark:/1/x  \r\nark+=1=x\njobs\nx\n", "# mine\r\n\r\njobs\n"},
	} {
		ids, err := home.List(tt.text).Queues()
		if err != nil || ids == nil || !slices.Equal(ids, tt.ids) {
			t.Errorf("%q: got %q, %v", tt.text, ids, err)
		}
		if got := home.List(tt.text).Add("x"); string(got) != tt.add {
			t.Errorf("%q with x: got %q", tt.text, got)
		}
		if got := home.List(tt.text).Drop("ark+=1=x"); string(got) != tt.drop {
			t.Errorf("%q without ark+=1=x: got %q", tt.text, got)
		}
	}
}

// A line of no queue is an error, but does not keep others from being added or
// dropped.
func TestListWithAStrangeLine(t *testing.T) {
	l := home.List("one\ncutie-tmp\ntwo\n")
	if _, err := l.Queues(); !errors.Is(err, job.ErrBadName) || !strings.Contains(err.Error(), "queues.txt: line 2") {
		t.Errorf("got %v", err)
	}
	if got := l.Drop("one").Add("three"); string(got) != "cutie-tmp\ntwo\nthree\n" {
		t.Errorf("got %q", got)
	}
}

func TestListOnDisk(t *testing.T) {
	d := openDir(t, t.TempDir())
	l, err := home.ReadList(d)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %q, %v", l, err)
	}
	must(t, l.Add("jobs").Write(d))
	if l, err = home.ReadList(d); err != nil || string(l) != "jobs\n" {
		t.Errorf("got %q, %v", l, err)
	}
}
