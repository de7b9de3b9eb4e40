package dir

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cutie/queuefs/durable"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
)

// steps counts the changes of files, and fails all from number fail on.
type steps struct{ n, fail int }

var errFault = errors.New("fault")

func (s *steps) fault(_ string, do func() error) error {
	if s.n++; s.fail != 0 && s.n >= s.fail {
		return errFault
	}
	return do()
}

// openTree opens the directory of a queue in a new home.
func openTree(t *testing.T, fault durable.Fault) (tr *Dir, path string, reports *[]string) {
	t.Helper()
	home := t.TempDir()
	for _, name := range []string{"q", "q/payload", "q/pending", "q/consumed", "q/deleted", "temp"} {
		must(t, os.Mkdir(filepath.Join(home, name), 0o700))
	}
	d, err := durable.OpenDir(home, fault)
	must(t, err)
	temp, err := durable.OpenDir(filepath.Join(home, "temp"), fault)
	must(t, err)
	reports = new([]string)
	tr, err = Open(d, "q", &Options{Path: "queues", Temp: temp, Cache: durable.NewCache(2), MaxJobFile: 1 << 20, InDoubt: func() bool { return false },
		Report: func(path, text string) { *reports = append(*reports, path+": "+text) }}, ledger.New("q", new(ledger.Shared)))
	must(t, err)
	t.Cleanup(func() { tr.Close(); temp.Close(); d.Close() })
	return tr, home, reports
}

// write writes the files of a job, given as the journal would have them.
func write(d *Dir, f files) error {
	if f.name = f.ID.String(); f.Filed == index.FiledUnknown {
		d.compare(&f, true)
	}
	if err := d.writePayload(&f); err != nil {
		return err
	}
	return d.writeJobFile(&f)
}

// filesOf are those of job 7, in a status.
func filesOf(st, filed job.Status, text, payload, temp string) files {
	b := &ledger.Behind{ID: 7, View: ledger.View{Job: index.Job{Standing: index.Standing{Status: st}, Filed: filed, Size: 4}, Temp: temp}}
	f := files{Behind: b, text: []byte(text)}
	if payload != "" {
		f.payload = []byte(payload)
	}
	return f
}

// contents are all files below a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, path))
		got[path] = string(data)
		return err
	})
	must(t, err)
	return got
}

// After a fault at any step the same work, from an unknown state, ends with the
// wanted files.
func TestWorkIsDoneAgainAfterAnyStep(t *testing.T) {
	id := job.ID(7)
	for _, tt := range []struct {
		name string
		then files
		temp string
		want map[string]string
	}{
		{"rewrite", filesOf(job.Pending, job.Pending, "held", "", ""), "",
			map[string]string{"q/pending/" + id.String(): "held", "q/payload/" + id.String(): "data"}},
		{"move", filesOf(job.Consumed, job.Pending, "consumed", "", ""), "",
			map[string]string{"q/consumed/" + id.String(): "consumed", "q/payload/" + id.String(): "data"}},
		{"cull", filesOf(0, job.Pending, "", "", "large"), "large", map[string]string{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for fail := 1; ; fail++ {
				s := &steps{}
				tr, home, reports := openTree(t, s.fault)
				must(t, write(tr, filesOf(job.Pending, 0, "pending", "data", "")))
				if tt.temp != "" {
					must(t, os.WriteFile(filepath.Join(home, "temp", tt.temp), nil, 0o600))
				}
				f := tt.then
				f.PayloadFiled = true
				s.n, s.fail = 0, fail
				err := write(tr, f)
				s.fail = 0
				if err == nil && fail == 1 {
					t.Fatal("no step")
				}
				if err != nil {
					f.Filed = index.FiledUnknown
					if err := write(tr, f); err != nil {
						t.Fatalf("after a fault at step %d: %v", fail, err)
					}
				}
				if got := contents(t, home); !maps.Equal(got, tt.want) || len(*reports) != 0 {
					t.Fatalf("after a fault at step %d: got %q and reports %q, want %q", fail, got, *reports, tt.want)
				}
				if err == nil {
					return
				}
			}
		})
	}
}

func TestALargePayloadGetsItsName(t *testing.T) {
	tr, home, reports := openTree(t, nil)
	must(t, os.WriteFile(filepath.Join(home, "temp", "large"), []byte("data"), 0o600))
	f := filesOf(job.Pending, 0, "pending", "", "large")
	for range 2 { // the second time it has its name
		if got, err := tr.ReadPayload(7, "large", nil, 10); string(got) != "data" || err != nil {
			t.Errorf("got %q, %v, want the payload", got, err)
		}
		must(t, write(tr, f))
	}
	if len(*reports) != 0 {
		t.Errorf("got reports %q, want none", *reports)
	}
	must(t, os.Remove(filepath.Join(home, "q/payload", f.ID.String())))
	must(t, write(tr, f))
	if len(*reports) != 1 || !strings.HasPrefix((*reports)[0], "queues/q/payload/"+f.ID.String()+": payload lost") {
		t.Errorf("got reports %q, want the lost payload", *reports)
	}
}

func TestOfTwoJobFilesTheLaterStays(t *testing.T) {
	tr, home, reports := openTree(t, nil)
	later, earlier := job.Job{ID: 3, Status: job.Pending, Seq: 2}, job.Job{ID: 3, Status: job.Consumed, Seq: 1}
	files := map[string]string{"pending/" + later.ID.String(): string(later.AppendText(nil)),
		"consumed/" + later.ID.String(): string(earlier.AppendText(nil)), "deleted/notes": ""}
	for path, text := range files {
		must(t, os.WriteFile(filepath.Join(home, "q", path), []byte(text), 0o600))
	}
	var got []Standing
	must(t, tr.Walk(nil, func(s Standing) error { got = append(got, s); return nil }))
	if want := []Standing{{ID: 3, Filed: job.Pending}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	want := map[string]string{"q/pending/" + later.ID.String(): string(later.AppendText(nil)),
		"q/corrupt/consumed-" + later.ID.String(): string(earlier.AppendText(nil)), "q/corrupt/deleted-notes": ""}
	if got := contents(t, home); !maps.Equal(got, want) || len(*reports) != 2 {
		t.Errorf("got %q and reports %q, want %q and two reports", got, *reports, want)
	}
}

func TestResultsArePlacedAndWiped(t *testing.T) {
	tr, home, _ := openTree(t, nil)
	id := job.ID(5)
	for _, tt := range []struct {
		place []ledger.Placed
		all   bool
		want  map[string]string
	}{
		{[]ledger.Placed{{Temp: "a", Name: "A"}}, false, map[string]string{"A": "a"}},
		{[]ledger.Placed{{Temp: "b", Name: "B"}}, false, map[string]string{"A": "a", "B": "b"}},
		{[]ledger.Placed{{Temp: "c", Name: "C"}}, true, map[string]string{"C": "c"}},
		{nil, true, nil},
	} {
		for _, p := range tt.place {
			must(t, os.WriteFile(filepath.Join(home, "temp", p.Temp), []byte(p.Temp), 0o600))
		}
		for range 2 { // done again, it changes nothing
			if tt.place == nil {
				must(t, tr.removeResults(id))
			} else {
				must(t, tr.placeResults(id, tt.place, tt.all))
			}
			want := map[string]string{}
			for name, text := range tt.want {
				want["q/result/"+id.String()+"/"+name] = text
			}
			if got := contents(t, home); !maps.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
			if got := tr.HasResults(id); got != (tt.want != nil) {
				t.Errorf("got results %v, want %v", got, tt.want != nil)
			}
		}
	}
}

func TestForeignFilesAreNamed(t *testing.T) {
	tr, home, _ := openTree(t, nil)
	if err := tr.Foreign(); err != nil {
		t.Error(err)
	}
	must(t, os.WriteFile(filepath.Join(home, "q/pending/notes"), nil, 0o600))
	if err := tr.Foreign(); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "pending/notes") {
		t.Errorf("got %v, want the name of the file", err)
	}
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
