package tree_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"cutie/queuefs/durable"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/tree"
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
func openTree(t *testing.T, fault durable.Fault) (tr *tree.Tree, dir string, reports *[]string) {
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
	tr, err = tree.Open(d, "q", &tree.Options{Path: "queues", Temp: temp, Cache: durable.NewCache(2), MaxJobFile: 1 << 20,
		Report: func(path, text string) { *reports = append(*reports, path+": "+text) }})
	must(t, err)
	t.Cleanup(func() { tr.Close(); temp.Close(); d.Close() })
	return tr, home, reports
}

func write(tr *tree.Tree, f tree.Files) error {
	tr.Prepare(&f, true)
	files := []*tree.Files{&f}
	n, err := tr.WritePayloads(files)
	if err == nil {
		_, err = tr.WriteJobFiles(files[:n])
	}
	return err
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
	first := tree.Files{ID: id, Status: job.Pending, Text: []byte("pending"), Payload: []byte("data"), Size: 4}
	for _, tt := range []struct {
		name string
		then tree.Files
		temp string
		want map[string]string
	}{
		{"rewrite", tree.Files{Status: job.Pending, From: job.Pending, Text: []byte("held")}, "",
			map[string]string{"q/pending/" + id.String(): "held", "q/payload/" + id.String(): "data"}},
		{"move", tree.Files{Status: job.Consumed, From: job.Pending, Text: []byte("consumed")}, "",
			map[string]string{"q/consumed/" + id.String(): "consumed", "q/payload/" + id.String(): "data"}},
		{"cull", tree.Files{From: job.Pending, Temp: "large"}, "large", map[string]string{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for fail := 1; ; fail++ {
				s := &steps{}
				tr, home, reports := openTree(t, s.fault)
				must(t, write(tr, first))
				if tt.temp != "" {
					must(t, os.WriteFile(filepath.Join(home, "temp", tt.temp), nil, 0o600))
				}
				f := tt.then
				f.ID, f.PayloadFiled = id, true
				s.n, s.fail = 0, fail
				err := write(tr, f)
				s.fail = 0
				if err == nil && fail == 1 {
					t.Fatal("no step")
				}
				if err != nil {
					f.From = index.FiledUnknown
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
	f := tree.Files{ID: 1, Status: job.Pending, Text: []byte("pending"), Temp: "large", Size: 4}
	for range 2 { // the second time it has its name
		if got, err := tr.ReadPayload(1, "large", nil, 10); string(got) != "data" || err != nil {
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
	id := job.ID(3)
	for path, text := range map[string]string{"pending/" + id.String(): "2", "consumed/" + id.String(): "1", "deleted/notes": ""} {
		must(t, os.WriteFile(filepath.Join(home, "q", path), []byte(text), 0o600))
	}
	got, err := tr.JobFiles(func(job.ID) bool { return true }, func(text []byte) job.Seq { return job.Seq(text[0] - '0') })
	must(t, err)
	if want := map[job.ID]job.Status{id: job.Pending}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	want := map[string]string{"q/pending/" + id.String(): "2", "q/corrupt/consumed-" + id.String(): "1", "q/corrupt/deleted-notes": ""}
	if got := contents(t, home); !maps.Equal(got, want) || len(*reports) != 2 {
		t.Errorf("got %q and reports %q, want %q and two reports", got, *reports, want)
	}
}

func TestResultsArePlacedAndWiped(t *testing.T) {
	tr, home, _ := openTree(t, nil)
	id := job.ID(5)
	put := func(temp string) {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(home, "temp", temp), []byte(temp), 0o600))
	}
	for _, tt := range []struct {
		work tree.ResultWork
		want map[string]string
	}{
		{tree.ResultWork{Place: []tree.Placed{{Temp: "a", Name: "A"}}}, map[string]string{"A": "a"}},
		{tree.ResultWork{Wipe: true, Place: []tree.Placed{{Temp: "b", Name: "B"}}, Drop: []string{"c"}}, map[string]string{"B": "b"}},
		{tree.ResultWork{Wipe: true}, nil},
	} {
		for _, p := range tt.work.Place {
			put(p.Temp)
		}
		for _, temp := range tt.work.Drop {
			put(temp)
		}
		for range 2 { // done again, it changes nothing
			must(t, tr.WriteResults(id, tt.work))
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
	if err := tr.Foreign(); !errors.Is(err, tree.ErrForeign) || !strings.Contains(err.Error(), "pending/notes") {
		t.Errorf("got %v, want the name of the file", err)
	}
}

// TestBacklogOfResultsGoesOnMeanwhile has results come and go while earlier ones are
// written.
func TestBacklogOfResultsGoesOnMeanwhile(t *testing.T) {
	one, two, three := tree.Placed{Temp: "t1", Name: "a"}, tree.Placed{Temp: "t2", Name: "b"}, tree.Placed{Temp: "t3", Name: "a"}
	var b tree.ResultBacklog
	b.Add(one)
	was := b
	b.Add(two)
	if !b.Done(was) || b.Work().Wipe || !reflect.DeepEqual(b.Placed(), []tree.Placed{two}) || len(b.Work().Drop) > 0 {
		t.Errorf("after the first: %+v", b.Work())
	}
	was = b
	b.Wipe()
	b.Add(three)
	if !b.Done(was) {
		t.Error("nothing left after a wipe")
	}
	if w := b.Work(); !w.Wipe || !reflect.DeepEqual(w.Place, []tree.Placed{three}) || !reflect.DeepEqual(w.Drop, []string{"t2"}) {
		t.Errorf("after a wipe: %+v", w)
	}
	was = b
	if b.Done(was) || len(b.Placed()) > 0 {
		t.Errorf("in the end: %+v", b.Work())
	}
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
