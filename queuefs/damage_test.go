package queuefs_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/check"
	"cutie/testdata/long"
)

// A patient is a home as a crash left it, to be damaged in copies: jobs 1 to 4
// are in files and index, what follows is in the journal only, one batch a
// change.
type patient struct {
	dir     string
	base    world
	changes []world // what each batch sets, in order
}

func newPatient(t *testing.T) *patient { return newPatientWith(t, true) }

// newPatientWith is newPatient with index files of its own for the queue, or not.
func newPatientWith(t *testing.T, own bool) *patient {
	t.Helper()
	p := &patient{dir: filepath.Join(fastDir(t), "home")}
	s, q := openHome(t, p.dir, queuefs.Options{Segment: smallSegment, OwnIndex: own})
	t.Cleanup(func() { s.Close() })
	note := func(j queuefs.Job) world {
		return world{"jobs": jobs{byID: map[queuefs.JobID]fact{j.ID: {status: j.Status, filename: j.Filename, consumer: j.Consumer,
			requeues: j.Requeues, payload: payload(t, q, j.ID)}}}}
	}
	some := func(n int) queuefs.Job {
		return submit(t, q, queuefs.Meta{Filename: fmt.Sprint("f", n)}, strings.Repeat("x", n))
	}
	p.base = world{"jobs": jobs{byID: map[queuefs.JobID]fact{}}}
	for n := range 4 {
		p.base = p.base.with(note(some(100 * n)))
	}
	if err := s.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	change := func(j queuefs.Job, err error) {
		if err != nil {
			t.Fatal(err)
		}
		p.changes = append(p.changes, note(j))
	}
	change(some(5000), nil)
	change(q.Next(ctx, "w"))
	change(some(7000), nil)
	change(q.Delete(ctx, 4))
	change(some(10), nil)
	for range 6 {
		change(some(6000), nil)
	}
	change(q.Requeue(ctx, 4))
	change(q.Next(ctx, "v"))
	change(some(1), nil)
	return p
}

// with returns the world changed by another.
func (w world) with(change world) world {
	w = w.clone()
	for name, j := range change {
		for id, f := range j.byID {
			w = w.set(name, id, func(g *fact) { *g = f })
		}
	}
	return w
}

// without returns the world that is left when batches are lost.
func (p *patient) without(lost ...int) world {
	w := p.base
	for i, c := range p.changes {
		if !slices.Contains(lost, i) {
			w = w.with(c)
		}
	}
	return w
}

// A batch is where the journal has a change.
type batch struct {
	segment string
	at      int64
	size    int64 // without the padding
}

const blockSize = 4096

// batches finds the batches behind the checkpoint, by the format of the journal.
func (p *patient) batches(t *testing.T) (found []batch) {
	t.Helper()
	names, err := filepath.Glob(p.dir + "/log/journal/*.log")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for at := int64(blockSize); at+blockSize <= int64(len(data)); {
			if string(data[at:at+4]) != "CQB1" {
				break
			}
			size := int64(binary.LittleEndian.Uint32(data[at+8:]))
			found = append(found, batch{filepath.Base(name), at, size})
			at += (size + blockSize - 1) / blockSize * blockSize
		}
	}
	if len(found) < len(p.changes) || found[len(found)-1].segment == found[len(found)-len(p.changes)].segment {
		t.Fatalf("got %d batches, want %d over two segments", len(found), len(p.changes))
	}
	return found[len(found)-len(p.changes):]
}

// A treatment is a copy of the patient that was damaged.
type treatment struct {
	*testing.T
	dir      string
	problems []string
}

func (p *patient) treat(t *testing.T) *treatment { return &treatment{T: t, dir: copyHome(t, p.dir)} }

// edit changes a file of the home.
func (t *treatment) edit(name string, change func(b []byte) []byte) {
	t.Helper()
	name = filepath.Join(t.dir, name)
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, change(data), 0o666); err != nil {
		t.Fatal(err)
	}
}

func flip(at int64) func([]byte) []byte {
	return func(b []byte) []byte { b[at] ^= 0x10; return b }
}

// opensTo tests that the home holds the world, survives another crash, goes on
// working, and stops clean.
func (t *treatment) opensTo(want world) {
	t.Helper()
	report := func(p queuefs.Problem) { t.problems = append(t.problems, p.String()) }
	o := queuefs.Options{Segment: smallSegment, Report: report}
	s, err := queuefs.Open(t.dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if d := want.difference(observe(t, s)); d != "" {
		t.Errorf("opened: %s", d)
	}
	q := s.Queues()[0]
	last := want.ids("jobs", queuefs.Pending)
	j := submit(t, q, queuefs.Meta{}, "after")
	if j.ID <= last[len(last)-1] {
		t.Errorf("got %v after %v", j.ID, last[len(last)-1])
	}
	want = want.set("jobs", j.ID, func(f *fact) { *f = fact{status: queuefs.Pending, payload: "after"} })
	again := copyHome(t, t.dir)
	closeHome(t, s)
	before := len(t.problems)
	for _, dir := range []string{t.dir, again} {
		if s, err = queuefs.Open(dir, o); err != nil {
			t.Fatal(err)
		}
		if d := want.difference(observe(t, s)); d != "" {
			t.Errorf("opened again: %s", d)
		}
		closeHome(t, s)
		r, err := check.Home(dir, check.Options{Segment: smallSegment})
		if err != nil || len(r.Problems)+len(r.Mended) > 0 {
			t.Errorf("check: %v, %+v", err, r)
		}
		if dir == t.dir && len(t.problems) > before {
			t.Errorf("reported again after a clean stop: %q", t.problems[before:])
		}
	}
}

func (t *treatment) mustReport(name string) {
	t.Helper()
	for _, p := range t.problems {
		if strings.HasPrefix(p, name) {
			return
		}
	}
	t.Errorf("reported %q, nothing of %s", t.problems, name)
}

// TestDamagedBatch damages each batch of the journal in each of its parts.
func TestDamagedBatch(t *testing.T) {
	p := newPatient(t)
	all := p.batches(t)
	for i, b := range all {
		if !long.On() && i%4 != 1 && i != len(all)-1 {
			continue
		}
		end := b.at + b.size
		for _, place := range []struct {
			name string
			do   func(data []byte) []byte
			told bool // also of the last batch, which may be one that was never finished
		}{
			{"magic", flip(b.at), false},
			{"checksum", flip(b.at + 4), true},
			{"length", flip(b.at + 8), true},
			{"count", flip(b.at + 12), true},
			{"number", flip(b.at + 16), false},
			{"record length", flip(b.at + 24), true},
			{"record", flip(b.at + 40), true},
			{"middle", flip(b.at + b.size/2), true},
			{"last octet", flip(end - 1), true},
			{"first sector zero", func(d []byte) []byte { clear(d[b.at : b.at+512]); return d }, false},
			{"last sector zero", func(d []byte) []byte { clear(d[max((end-1)&^511, b.at+24):end]); return d }, true},
		} {
			t.Run(fmt.Sprintf("batch %d/%s", i, place.name), func(t *testing.T) {
				c := p.treat(t)
				segment := "log/journal/" + b.segment
				c.edit(segment, place.do)
				damaged, _ := os.ReadFile(filepath.Join(c.dir, segment))
				c.opensTo(p.without(i))
				if i == len(all)-1 {
					if place.told {
						c.mustReport(segment)
					}
					return
				}
				c.mustReport("log/journal/")
				aside, err := os.ReadFile(filepath.Join(c.dir, segment+".damaged"))
				if err != nil {
					// A segment that ends with the lost batch is told from the next one.
					t.Error(err)
				} else if !bytes.Equal(aside, damaged) {
					t.Error("what was set aside is not what was found")
				}
			})
		}
	}
	t.Run("padding", func(t *testing.T) {
		c := p.treat(t)
		for _, b := range all {
			c.edit("log/journal/"+b.segment, func(d []byte) []byte {
				for at := b.at + b.size; at%blockSize != 0; at++ {
					d[at] = 0xff
				}
				return d
			})
		}
		c.opensTo(p.without())
		if len(c.problems) > 0 {
			t.Errorf("reported %q", c.problems)
		}
	})
}

// TestDamagedSegment damages what holds batches: headers, sizes, whole files.
func TestDamagedSegment(t *testing.T) {
	p := newPatient(t)
	all := p.batches(t)
	var bySegment [][]int
	for i, b := range all {
		if i == 0 || b.segment != all[i-1].segment {
			bySegment = append(bySegment, nil)
		}
		bySegment[len(bySegment)-1] = append(bySegment[len(bySegment)-1], i)
	}
	for n, members := range bySegment {
		name := "log/journal/" + all[members[0]].segment
		for _, at := range []int64{0, 8, 12, 16, 100} {
			t.Run(fmt.Sprintf("%d/header %d", n, at), func(t *testing.T) {
				c := p.treat(t)
				c.edit(name, flip(at))
				c.opensTo(p.without())
				c.mustReport(name)
			})
		}
		for k := range members {
			t.Run(fmt.Sprintf("%d/cut at batch %d", n, members[k]), func(t *testing.T) {
				for _, more := range []int64{0, 30, 4000} {
					c := p.treat(t)
					at := all[members[k]].at + min(more, all[members[k]].size-1)
					c.edit(name, func(d []byte) []byte { return d[:at] })
					c.opensTo(p.without(members[k:]...))
					c.mustReport("log/journal/")
				}
			})
		}
		t.Run(fmt.Sprintf("%d/empty", n), func(t *testing.T) {
			c := p.treat(t)
			c.edit(name, func([]byte) []byte { return nil })
			c.opensTo(p.without(members...))
			c.mustReport("log/journal/")
		})
		if n == len(bySegment)-1 {
			continue // nothing can tell that there was one
		}
		t.Run(fmt.Sprintf("%d/removed", n), func(t *testing.T) {
			c := p.treat(t)
			if err := os.Remove(filepath.Join(c.dir, name)); err != nil {
				t.Fatal(err)
			}
			c.opensTo(p.without(members...))
			c.mustReport("log/journal/")
		})
	}
}

// TestFilesLeftHalfDone damages the files of jobs of which the journal knows
// better, as a crash leaves them that comes while they are written, and has the
// directories read all the same.
func TestFilesLeftHalfDone(t *testing.T) {
	p := newPatient(t)
	for damage, change := range map[string]func(b []byte) []byte{
		"empty": func([]byte) []byte { return nil },
		"cut":   func(b []byte) []byte { return b[:len(b)/2] },
		"zeros": func(b []byte) []byte { return append(b, make([]byte, blockSize-len(b))...) },
		"tail":  func(b []byte) []byte { return append(b, "00:00Z\n"...) },
	} {
		for index, lose := range map[string]string{"no pages": "p0*", "no queue file": "queue*"} {
			t.Run(damage+"/"+index, func(t *testing.T) {
				c := p.treat(t)
				c.edit("queues/jobs/pending/j000000000001", change)
				c.edit("queues/jobs/pending/j000000000004", change)
				lost, err := filepath.Glob(filepath.Join(c.dir, "log/index/queues/jobs", lose))
				if err != nil || len(lost) == 0 {
					t.Fatalf("%s: %v, %v", lose, lost, err)
				}
				for _, name := range lost {
					must(t, os.Remove(name))
				}
				c.opensTo(p.without())
				for _, said := range c.problems {
					if !strings.Contains(said, "made again from the directories") {
						t.Errorf("reported: %s", said)
					}
				}
			})
		}
	}
}

// TestDamagedIndex damages each file of the index, of a home that was stopped
// and of one that crashed: the directories and the journal stand in for it.
func TestDamagedIndex(t *testing.T) {
	damageIndex(t, true, "log/index/queues/jobs/p000000000", "log/index/queues/jobs/queue", "log/index/checkpoint")
}

// TestDamagedSmallIndex is TestDamagedIndex for queues with few jobs.
func TestDamagedSmallIndex(t *testing.T) {
	damageIndex(t, false, "log/index/small", "log/index/checkpoint")
}

func damageIndex(t *testing.T, own bool, names ...string) {
	p := newPatientWith(t, own)
	stopped := *p
	stopped.dir = copyHome(t, p.dir)
	s, err := queuefs.Open(stopped.dir, queuefs.Options{Segment: smallSegment, OwnIndex: own})
	if err != nil {
		t.Fatal(err)
	}
	closeHome(t, s)
	for _, from := range []struct {
		name string
		*patient
	}{{"crashed", p}, {"stopped", &stopped}} {
		for _, name := range names {
			damage := func(how string, told bool, do func(d []byte) []byte) {
				t.Run(from.name+"/"+filepath.Base(name)+"/"+how, func(t *testing.T) {
					c := from.treat(t)
					c.edit(name, do)
					c.opensTo(p.without())
					if told {
						c.mustReport(name)
					}
				})
			}
			st, err := os.Stat(filepath.Join(from.dir, name))
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range []int64{0, 8, 20, 32, 40, st.Size() / 2, st.Size() - 1} {
				damage(fmt.Sprint("flip ", at), true, flip(at))
			}
			damage("cut", true, func(d []byte) []byte { return d[:len(d)/2] })
			damage("empty", true, func([]byte) []byte { return nil })
			damage("zero", true, func(d []byte) []byte { clear(d); return d })
			// A crash, too, may leave a torn entry at the end of the catalog.
			damage("longer", from.name == "stopped" || !strings.HasSuffix(name, "small"), func(d []byte) []byte { return append(d, "more"...) })
			t.Run(from.name+"/"+filepath.Base(name)+"/removed", func(t *testing.T) {
				c := from.treat(t)
				if err := os.Remove(filepath.Join(c.dir, name)); err != nil {
					t.Fatal(err)
				}
				c.opensTo(p.without())
			})
		}
	}
}
