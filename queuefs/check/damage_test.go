package check_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/check"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/testdata/long"
)

// damages are what may happen to one file. other is another file of its kind, "" if
// there is none.
var damages = []struct {
	name string
	do   func(t *testing.T, path, other string)
}{
	{"flip", change(func(b []byte) []byte { b[len(b)/2] ^= 1; return b })},
	{"zero", change(func(b []byte) []byte { at := len(b) / 2 &^ 511; clear(b[at:min(at+512, len(b))]); return b })},
	{"cut", change(func(b []byte) []byte { return b[:len(b)/2] })},
	{"empty", change(func(b []byte) []byte { return nil })},
	{"delete", func(t *testing.T, path, _ string) { must(t, os.Remove(path)) }},
	{"swap", func(t *testing.T, path, other string) {
		must(t, os.Rename(path, path+"~"))
		must(t, os.Rename(other, path))
		must(t, os.Rename(path+"~", other))
	}},
	{"double", change(func(b []byte) []byte { return append(b, b[len(b)-min(len(b), max(len(b)/3, 1)):]...) })},
}

func change(do func(b []byte) []byte) func(t *testing.T, path, other string) {
	return func(t *testing.T, path, _ string) {
		b, err := os.ReadFile(path)
		must(t, err)
		must(t, os.WriteFile(path, do(b), 0o666))
	}
}

// A home with one damaged file is as it was, or what differs is told by check with
// the way out, and by the service, and all else is served. Nothing is wrong in silence.
func TestEveryDamageToEveryKindOfFile(t *testing.T) {
	for _, state := range []string{"stopped", "killed"} {
		p := newPatient(t, state == "stopped")
		for _, kind := range slices.Sorted(maps.Keys(p.files)) {
			for i, path := range p.some(kind) {
				for k, d := range damages {
					if !long.On() && (i > 0 || k%4 != len(kind)%4) {
						continue
					}
					other := p.other(kind, path)
					if d.name == "swap" && other == "" || p.empty(t, path) && d.name != "delete" && d.name != "swap" {
						continue
					}
					t.Run(strings.ReplaceAll(fmt.Sprintf("%s/%s/%s/%s", state, kind, path, d.name), " ", "-"), func(t *testing.T) {
						dir := copyHome(t, p.dir)
						if other != "" {
							other = filepath.Join(dir, other)
						}
						d.do(t, filepath.Join(dir, path), other)
						p.examine(t, dir)
					})
				}
			}
		}
	}
}

// some returns files of a kind: all with CUTIE_LONG, except for the many jobs.
func (p *patient) some(kind string) []string {
	all := p.files[kind]
	if kind == "segment" && len(all) > 1 {
		return []string{all[0], all[len(all)-1]}
	}
	return all
}

// other returns another file of the kind: of the other queue, or else the next one.
func (p *patient) other(kind, path string) string {
	all := p.files[kind]
	for _, pair := range [][2]string{{"/a/", "/b/"}, {"/b/", "/a/"}} {
		if o := strings.Replace(path, pair[0], pair[1], 1); o != path && slices.Contains(all, o) {
			return o
		}
	}
	i := slices.Index(all, path)
	if len(all) < 2 {
		return ""
	}
	return all[(i+1)%len(all)]
}

// empty reports whether there is nothing in a file to damage.
func (p *patient) empty(t *testing.T, path string) bool {
	info, err := os.Stat(filepath.Join(p.dir, path))
	must(t, err)
	return info.Size() == 0
}

func (p *patient) examine(t *testing.T, dir string) {
	before := contents(t, dir)
	r, err := check.Home(dir, check.Options{Segment: segment})
	if d := facts(before).difference(contents(t, dir)); len(d) > 0 {
		t.Errorf("check alone changed %q", d)
	}
	told := texts(r.Problems)
	if err != nil {
		told = append(told, err.Error())
	}
	if len(r.Mended) > 0 {
		t.Errorf("check alone mended %q", texts(r.Mended))
	}
	p.serve(t, copyHome(t, dir), told)
	p.heal(t, dir, r, err)
}

// serve opens the home, and takes all pending jobs.
func (p *patient) serve(t *testing.T, dir string, told []string) {
	var reports []string
	s, err := queuefs.Open(dir, queuefs.Options{Segment: segment, Report: func(p durable.Finding) { reports = append(reports, p.String()) }})
	if err != nil {
		if len(told) == 0 {
			t.Errorf("refused, and check finds nothing: %v", err)
		}
		t.Logf("refused: %v", err)
		return
	}
	defer s.Close()
	got := observe(t, s)
	differs := p.want.difference(got)
	if len(differs) > 0 && len(told) == 0 {
		t.Errorf("%q differ, and check finds nothing; reports: %q", differs, reports)
	}
	given := map[string]bool{}
	for _, q := range s.Queues() {
		for {
			taken, err := q.Take(ctx, queuefs.Take{By: "consumer", Max: 1})
			if err != nil {
				break
			}
			j := taken[0].Job
			name := q.ID() + "/" + j.ID.String()
			if given[name] {
				t.Errorf("%s was given twice", name)
			}
			given[name] = true
			want := strings.Split(p.want[name], "|")
			is := strings.Split(jobFacts(q, &j), "|")
			if len(want) < 9 || want[0] != "pending" || want[3] != "" {
				t.Errorf("%s was given, it is %q; check: %q", name, p.want[name], told)
				continue
			}
			if is[1] != want[1] || is[2] != want[2] {
				if !mentions(reports, name) || !mentions(told, name) {
					t.Errorf("%s was given as %q instead of %q; reports %q, check %q", name, is[:3], want[:3], reports, told)
				}
			}
			if is[8] != want[8] && (q.Info().VerifyOnRead || !mentions(told, name)) {
				t.Errorf("%s was given with another payload", name)
			}
		}
	}
	for name, f := range p.want {
		if strings.HasPrefix(f, "pending|") && strings.Split(f, "|")[3] == "" && !given[name] && !mentions(reports, name) && !mentions(reports, "queue") {
			t.Errorf("%s was not given, reports: %q", name, reports)
		}
	}
}

// mentions reports whether one of the texts names a job, given as queue/job.
func mentions(texts []string, job string) bool {
	queue, id, _ := strings.Cut(job, "/")
	return slices.ContainsFunc(texts, func(s string) bool {
		return strings.Contains(s, queue) && strings.Contains(s, id)
	})
}

// heal follows the way out that check names, until nothing is left but lost payloads
// and results. Only a loss that the operator accepts takes jobs away.
func (p *patient) heal(t *testing.T, dir string, r queuefs.CheckReport, err error) {
	accepted := false
	for n := 0; err != nil || len(r.Problems) > 0; n++ {
		o, ok := check.Cure(&r, err)
		if !ok && err == nil && r.Problems[0].Cure != "" {
			r = setCallbacks(t, dir)
			continue
		}
		if n == 3 || !ok {
			t.Errorf("not healed: %v, %q", err, texts(r.Problems))
			return
		}
		o.Segment = segment
		accepted = accepted || o.AcceptLoss
		if r, err = check.Home(dir, o); err != nil {
			t.Errorf("the cure %+v fails: %v", o, err)
			return
		}
		if _, ok := check.Cure(&r, err); !ok && len(r.Problems) > 0 && r.Problems[0].Cure == "" { // nothing but lost payloads
			break
		}
		r, err = check.Home(dir, check.Options{Segment: segment})
	}
	s, err := queuefs.Open(dir, queuefs.Options{Segment: segment})
	if err != nil {
		t.Errorf("after the cure: %v", err)
		return
	}
	defer s.Close()
	got := observe(t, s)
	for _, name := range p.want.difference(got) {
		if got[name] != "" || accepted || name == "extra c" { // told before; a damaged line may name another queue
			continue
		}
		t.Errorf("after the cure: %s: got %q want %q", name, got[name], p.want[name])
	}
}

// setCallbacks sets the callbacks of all queues again, as check says.
func setCallbacks(t *testing.T, dir string) queuefs.CheckReport {
	s, err := queuefs.Open(dir, queuefs.Options{Segment: segment})
	must(t, err)
	for _, q := range s.Queues() {
		_, err := s.SetQueue(ctx, q.ID(), func(i *home.QueueInfo) error { i.Callback = callbackOf(q.ID()); return nil })
		must(t, err)
	}
	must(t, s.Close())
	r, err := check.Home(dir, check.Options{Segment: segment})
	must(t, err)
	return r
}

func texts(problems []durable.Finding) []string {
	all := make([]string, len(problems))
	for i, p := range problems {
		all[i] = p.String()
	}
	return all
}
