package uws_test

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"cutie/queuefs"
)

// What a kill leaves at each step of RUN is one of these.
func TestRunThatWasBrokenOff(t *testing.T) {
	for name, damage := range map[string]struct {
		want string
		do   func(t *testing.T, staged, jobs, id, running string)
	}{
		"before the job was submitted": {"PENDING", func(t *testing.T, staged, jobs, id, running string) {}},
		"before the record followed": {"QUEUED", func(t *testing.T, staged, jobs, id, running string) {
			write(t, filepath.Join(staged, id), running)
			remove(t, filepath.Join(jobs, id))
		}},
		"before what was staged had gone": {"QUEUED", func(t *testing.T, staged, jobs, id, running string) {
			write(t, filepath.Join(staged, id), running)
			write(t, filepath.Join(staged, id+".upload0"), "left")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "")
			id := idOf(w.create("a=1"))
			staged, jobs := filepath.Join(w.dir, "uws", "q", "staged"), filepath.Join(w.dir, "uws", "q", "jobs")
			text, err := os.ReadFile(filepath.Join(staged, id))
			if err != nil {
				t.Fatal(err)
			}
			running := string(text) + "running: j000000000001\n"
			if damage.want == "QUEUED" {
				w.want(303, "POST", "async/"+id+"/phase", "PHASE=RUN")
			}
			w.close()
			if damage.want == "PENDING" {
				write(t, filepath.Join(staged, id), running)
			}
			damage.do(t, staged, jobs, id, running)
			write(t, filepath.Join(staged, "cutie-tmp-x"), "left")
			write(t, filepath.Join(staged, "u"+strings.Repeat("a", 26)+".upload0"), "left")
			w.open(nil)
			w.phase(w.srv.URL+"/uws/q/async/"+id, damage.want)
			if got := ids(w.get("async")); !reflect.DeepEqual(got, []string{id}) {
				t.Errorf("got %v in the list, want %s", got, id)
			}
			var want []string
			if damage.want == "PENDING" {
				want = []string{id}
			}
			if got := names(t, staged); !reflect.DeepEqual(got, want) {
				t.Errorf("got %v staged, want %v", got, want)
			}
			if damage.want == "PENDING" {
				w.want(303, "POST", "async/"+id+"/phase", "PHASE=RUN")
			}
			if got := w.q.State().Pending; got != 1 {
				t.Errorf("got %d jobs in the queue, want 1", got)
			}
		})
	}
}

func TestRecordsOfAFormerQueueMeanNothing(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, "")
	old := w.create("a=1")
	if err := w.svc.RemoveQueue(ctx, "q"); err != nil {
		t.Fatal(err)
	}
	w.sleep(1e9)
	if _, err := w.svc.CreateQueue(ctx, queuefs.QueueInfo{ID: "q", CullingSize: -1, CullingAge: -1}); err != nil {
		t.Fatal(err)
	}
	w.want(404, "GET", old, "")
	if got := ids(w.get("async")); len(got) != 0 {
		t.Errorf("got %v in the list, want nothing", got)
	}
	if got := names(t, filepath.Join(w.dir, "uws", "q", "staged")); len(got) != 0 {
		t.Errorf("got %v, want nothing staged", got)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		all = append(all, e.Name())
	}
	return all
}
