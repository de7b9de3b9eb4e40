package queuefs_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/check"
	"cutie/queuefs/content"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/table"
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

func newPatient(t *testing.T) *patient {
	t.Helper()
	p := &patient{dir: filepath.Join(fastDir(t), "home")}
	s, q := openHome(t, p.dir, queuefs.Options{Segment: smallSegment})
	t.Cleanup(func() { s.Close() })
	note := func(j job.Job) world {
		return world{"jobs": jobs{byID: map[job.ID]fact{j.ID: {status: j.Status, filename: j.Filename, consumer: j.Consumer,
			requeues: j.Requeues, payload: payload(t, q, j.ID)}}}}
	}
	some := func(n int) job.Job {
		return submit(t, q, job.Meta{Filename: fmt.Sprint("f", n)}, strings.Repeat("x", n))
	}
	p.base = world{"jobs": jobs{byID: map[job.ID]fact{}}}
	for n := range 4 {
		p.base = p.base.with(note(some(100 * n)))
	}
	must(t, s.Checkpoint(ctx))
	change := func(j job.Job, err error) {
		must(t, err)
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
	names := sure(filepath.Glob(p.dir + "/log/journal/*.log"))(t)
	slices.Sort(names)
	for _, name := range names {
		data := sure(os.ReadFile(name))(t)
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
	data := sure(os.ReadFile(name))(t)
	must(t, os.WriteFile(name, change(data), 0o666))
}

func flip(at int64) func([]byte) []byte {
	return func(b []byte) []byte { b[at] ^= 0x10; return b }
}

// opensTo tests that the home holds the world, survives another crash, goes on
// working, and stops clean.
func (t *treatment) opensTo(want world) {
	t.Helper()
	report := func(p durable.Finding) { t.problems = append(t.problems, p.String()) }
	o := queuefs.Options{Segment: smallSegment, Report: report}
	s, err := queuefs.Open(t.dir, o)
	must(t, err)
	want.expect(t, s, "opened")
	q := s.Queues()[0]
	last := want.ids("jobs", job.Pending)
	j := submit(t, q, job.Meta{}, "after")
	if j.ID <= last[len(last)-1] {
		t.Errorf("got %v after %v", j.ID, last[len(last)-1])
	}
	want = want.set("jobs", j.ID, func(f *fact) { *f = fact{status: job.Pending, payload: "after"} })
	again := copyHome(t, t.dir)
	closeHome(t, s)
	before := len(t.problems)
	for _, dir := range []string{t.dir, again} {
		if s, err = queuefs.Open(dir, o); err != nil {
			t.Fatal(err)
		}
		want.expect(t, s, "opened again")
		closeHome(t, s)
		checkHome(t, dir, check.Options{Segment: smallSegment})
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
			must(t, os.Remove(filepath.Join(c.dir, name)))
			if n > 0 {
				c.opensTo(p.without(members...))
				c.mustReport("log/journal/")
				return
			}
			// The table may as well be an older one.
			if _, err := queuefs.Open(c.dir, queuefs.Options{Segment: smallSegment}); err == nil || !strings.Contains(err.Error(), "move it away") {
				t.Fatalf("without the first segment: %v", err)
			}
			must(t, os.Remove(filepath.Join(c.dir, tableFile)))
			c.opensTo(p.without(members...))
			c.mustReport(tableFile)
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
		for index, lose := range map[string]table.Kind{"no pages": table.Pages, "no row of the queue": table.Queues} {
			t.Run(damage+"/"+index, func(t *testing.T) {
				c := p.treat(t)
				c.edit("queues/jobs/pending/j000000000001", change)
				c.edit("queues/jobs/pending/j000000000004", change)
				for _, key := range rows(t, c.dir, lose) {
					loseRow(t, c.dir, lose, key)
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

// TestDamagedTable damages the file of the table, in its rows and between them, of a home that
// was stopped and of one that crashed: the directories and the log stand in for it.
func TestDamagedTable(t *testing.T) {
	p := newPatient(t)
	stopped := *p
	stopped.dir = copyHome(t, p.dir)
	s := sure(queuefs.Open(stopped.dir, queuefs.Options{Segment: smallSegment}))(t)
	closeHome(t, s)
	for _, from := range []struct {
		name string
		*patient
	}{{"crashed", p}, {"stopped", &stopped}} {
		damage := func(how string, do func(t *testing.T, c *treatment)) {
			t.Run(from.name+"/"+how, func(t *testing.T) {
				c := from.treat(t)
				do(t, c)
				c.opensTo(p.without())
				if how != "removed" {
					c.mustReport(tableFile)
				}
			})
		}
		file := func(how string, do func(d []byte) []byte) {
			damage(how, func(_ *testing.T, c *treatment) { c.edit(tableFile, do) })
		}
		st := sure(os.Stat(filepath.Join(from.dir, tableFile)))(t)
		for n := range st.Size() / pageSize { // bbolt's own, free ones among them
			for _, at := range []int64{4, 10, 16, 40, 60, 100} {
				t.Run(fmt.Sprintf("%s/flip %d of page %d", from.name, at, n), func(t *testing.T) {
					c := from.treat(t)
					c.edit(tableFile, flip(n*pageSize+at))
					c.opensTo(p.without())
				})
			}
			t.Run(fmt.Sprintf("%s/page %d zero", from.name, n), func(t *testing.T) {
				c := from.treat(t)
				c.edit(tableFile, func(d []byte) []byte { clear(d[n*pageSize : (n+1)*pageSize]); return d })
				c.opensTo(p.without())
			})
		}
		file("cut", func(d []byte) []byte { return d[:len(d)/3] })
		file("cut to its heads", func(d []byte) []byte { return d[:2*pageSize] })
		file("zero", func(d []byte) []byte { clear(d); return d })
		file("text", func([]byte) []byte { return []byte("no table\n") })
		damage("removed", func(t *testing.T, c *treatment) { must(t, os.Remove(filepath.Join(c.dir, tableFile))) })
		for _, k := range []table.Kind{table.Meta, table.Queues, table.Pages} {
			for _, key := range rows(t, from.dir, k) {
				if key == table.ServiceKey {
					continue // a copy
				}
				row := fmt.Sprintf("row %s %q", k, key)
				damage(row+" flipped", func(t *testing.T, c *treatment) {
					changeRow(t, c.dir, k, key, func(d []byte) []byte { d[len(d)/2] ^= 4; return d })
				})
				damage(row+" empty", func(t *testing.T, c *treatment) {
					changeRow(t, c.dir, k, key, func([]byte) []byte { return []byte{} })
				})
				t.Run(from.name+"/"+row+" lost", func(t *testing.T) {
					c := from.treat(t)
					loseRow(t, c.dir, k, key)
					c.opensTo(p.without())
				})
			}
		}
	}
}

// pageSize is that of the table.
const pageSize = 4096

// crashedFresh is a home that was killed before its first checkpoint, whose
// files all stand, with what it holds and its last event.
func crashedFresh(t *testing.T, jobs int) (dir string, want world, seq job.Seq) {
	t.Helper()
	home := filepath.Join(fastDir(t), "home")
	now := time.Now()
	s, q := openHome(t, home, queuefs.Options{Segment: smallSegment, Now: func() time.Time { return now }})
	for n := range jobs {
		submit(t, q, job.Meta{Filename: fmt.Sprint("f", n)}, strings.Repeat("x", 3000))
	}
	must(t, s.Maintain(ctx)) // it is calm: files are written
	want, seq = observe(t, s), q.Seq()
	dir = copyHome(t, home)
	closeHome(t, s)
	return dir, want, seq
}

func segments(t *testing.T, dir string) []string {
	names := sure(filepath.Glob(dir + "/log/journal/*.log"))(t)
	slices.Sort(names)
	return names
}

// TestAFreshQueueWithoutASegment takes a segment of the journal away. All job
// files and payloads stand.
func TestAFreshQueueWithoutASegment(t *testing.T) {
	crashed, want, seq := crashedFresh(t, 60)
	for _, which := range []string{"first", "middle", "last"} {
		t.Run(which, func(t *testing.T) {
			dir := copyHome(t, crashed)
			all := segments(t, dir)
			i := map[string]int{"first": 0, "middle": len(all) / 2, "last": len(all) - 2}[which]
			must(t, os.Remove(all[i]))
			if which == "last" {
				must(t, os.Remove(all[i+1]))
			}
			var problems []string
			s, q := openHome(t, dir, queuefs.Options{Segment: smallSegment, Report: func(p durable.Finding) { problems = append(problems, p.String()) }})
			want.expect(t, s, "jobs lost")
			if q.Seq() < seq {
				t.Errorf("last event is %d, was %d: numbers are given again", q.Seq(), seq)
			}
			j := submit(t, q, job.Meta{}, "next")
			if j.ID != 61 {
				t.Errorf("the next job is %v", j.ID)
			}
			if len(problems) == 0 {
				t.Error("nobody is told")
			}
			closeHome(t, s)
			if r := checkHome(t, dir, check.Options{Segment: smallSegment}); r.Jobs != 61 {
				t.Errorf("%d jobs", r.Jobs)
			}
		})
	}
}

// interrupted stops the machine at each step of opening a copy of a home, and
// tests that it opens to the world then all the same.
func interrupted(t *testing.T, crashed string, want world) {
	t.Helper()
	for at := 1; ; at++ {
		f := newFaults(at, errInjected)
		f.stops = true
		dir := copyHome(t, crashed)
		s, err := queuefs.Open(dir, queuefs.Options{Segment: smallSegment, Fault: f.step, AcceptLoss: true})
		if err == nil {
			s.Close()
		}
		if !f.fired() {
			return
		}
		s, q := openHome(t, dir, queuefs.Options{Segment: smallSegment, AcceptLoss: true})
		if d := want.difference(observe(t, s)); d != "" {
			j := submit(t, q, job.Meta{}, "this is another job")
			t.Fatalf("stopped at step %d, %s: %.300s\nand the next job is %v", at, f.name, d, j.ID)
		}
		s.Close()
		os.RemoveAll(dir)
	}
}

// The journal is damaged or gone, and the machine stops at each step of
// the opening that takes the jobs out of the directories.
func TestTakingInWhatTheJournalLostMayBeInterrupted(t *testing.T) {
	crashed, want, _ := crashedFresh(t, 20)
	for name, damage := range map[string]func(dir string){
		"no journal": func(dir string) { must(t, os.RemoveAll(filepath.Join(dir, "log/journal"))) },
		"no middle": func(dir string) {
			all := segments(t, dir)
			must(t, os.Remove(all[len(all)/2]))
		},
		"no tail, torn": func(dir string) {
			all := segments(t, dir)
			must(t, os.Truncate(all[0], 8<<12))
			for _, n := range all[1:] {
				must(t, os.Remove(n))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyHome(t, crashed)
			damage(dir)
			interrupted(t, dir, want)
		})
	}
}

// The numbers of events go on after a fresh queue has lost its journal.
func TestEventNumbersGoOnWithoutTheJournal(t *testing.T) {
	home := filepath.Join(fastDir(t), "home")
	now := time.Now()
	s, q := openHome(t, home, queuefs.Options{Segment: smallSegment, Now: func() time.Time { return now }})
	submitN(t, q, 3, job.Meta{Filename: "f"}, "payload")
	for range 3 {
		j := sure(q.Next(ctx, "w"))(t)
		must(t, errOf(q.Requeue(ctx, j.ID)))
	}
	must(t, s.Maintain(ctx))
	seq := q.Seq()
	crashed := copyHome(t, home)
	closeHome(t, s)
	must(t, os.RemoveAll(filepath.Join(crashed, "log/journal")))
	wantErr(t, errOf(queuefs.Open(crashed, queuefs.Options{Segment: smallSegment})), queuefs.ErrJournalLost, "")
	s, q = openHome(t, crashed, queuefs.Options{Segment: smallSegment, AcceptLoss: true})
	defer s.Close()
	if got := q.Seq(); got < seq {
		t.Errorf("last event is %d, but %d was told before", got, seq)
	}
}

// After a sync has failed the next process may see files in the cache that are not
// on the disk.
func TestFilesAreWrittenAgainAfterAFailedSync(t *testing.T) {
	home := filepath.Join(fastDir(t), "home")
	made, _ := openHome(t, home, queuefs.Options{Segment: smallSegment})
	must(t, made.Checkpoint(ctx))
	closeHome(t, made)
	s, q := openHome(t, home, queuefs.Options{Segment: smallSegment, Fault: func(step string, do func() error) error {
		if step == "syncfs" {
			return errInjected // as EIO: what was written is in doubt, the page cache has it as clean
		}
		return do()
	}})
	submit(t, q, job.Meta{}, "payload")
	if err := s.Checkpoint(ctx); !errors.Is(err, ledger.ErrFailed) {
		t.Fatal(err)
	}
	s.Close()
	puts := 0
	s, _ = openHome(t, home, queuefs.Options{Segment: smallSegment, Fault: func(step string, do func() error) error {
		if strings.HasPrefix(step, "put ") {
			puts++
		}
		return do()
	}})
	must(t, s.Checkpoint(ctx))
	closeHome(t, s)
	if puts < 2 {
		t.Errorf("%d files written after a failed sync, want both: what the cache shows need not be on the disk", puts)
	}
}

// A queue was made and the machine stopped; an operator
// puts jobs into its directories, and the machine stops again while the home is
// opened that takes them in.
func TestTakingInJobsOfAFreshQueueMayBeInterrupted(t *testing.T) {
	source, want, _ := crashedFresh(t, 20)
	home := filepath.Join(fastDir(t), "home")
	s, _ := openHome(t, home, queuefs.Options{Segment: smallSegment})
	empty := copyHome(t, home)
	closeHome(t, s)
	for _, d := range []string{"pending", "payload"} {
		must(t, os.RemoveAll(filepath.Join(empty, "queues/jobs", d)))
		must(t, os.CopyFS(filepath.Join(empty, "queues/jobs", d), os.DirFS(filepath.Join(source, "queues/jobs", d))))
	}
	interrupted(t, empty, want)
}

// Job files are of later events than the journal has. Whoever follows
// asks for what came after the last event that it knows.
func TestEventsBeyondTheJournalAreGone(t *testing.T) {
	for name, scanned := range map[string]bool{"fresh": false, "scanned": true} {
		t.Run(name, func(t *testing.T) {
			dir, want, seq := crashedFresh(t, 60)
			all := segments(t, dir)
			for _, n := range all[2:] {
				must(t, os.Remove(n))
			}
			if scanned {
				loseIndex(t, dir, "jobs")
			}
			s, q := openHome(t, dir, queuefs.Options{Segment: smallSegment})
			want.expect(t, s)
			for after := range seq + 2 {
				func() {
					defer func() {
						if p := recover(); p != nil {
							t.Fatalf("events after %d: panic: %v", after, p)
						}
					}()
					q.Events(after, 10)
				}()
			}
			closeHome(t, s)
		})
	}
}

// A result is served only as the worker reported it, however its file was damaged,
// and whether it was read before or not.
func TestADamagedResultIsNotServed(t *testing.T) {
	dir := fastDir(t)
	var problems []string
	s, q := openHome(t, dir, queuefs.Options{Now: clock(), Report: func(p durable.Finding) { problems = append(problems, p.String()) }})
	fillQueue(t, q, 1, 1)
	token := takeOne(t, q, time.Hour).Token
	text := strings.Repeat("what the worker found\n", 400)
	for _, name := range []string{"one", "two"} {
		must(t, putResult(q, 1, token, name, strings.Replace(text, "what", name, 1)))
	}
	must(t, s.Checkpoint(t.Context()))
	file := filepath.Join(dir, "queues", "jobs", "result", "j000000000001", "one")
	good := sure(os.ReadFile(file))(t)
	other := sure(os.ReadFile(filepath.Join(filepath.Dir(file), "two")))(t)
	flipped, zeroed := []byte(string(good)), []byte(string(good))
	flipped[len(good)/2] ^= 4
	clear(zeroed[4096:8192])
	for name, bad := range map[string][]byte{"flip": flipped, "zeroed block": zeroed, "cut": good[:len(good)/2], "emptied": {}, "swapped": other, "tail doubled": append(good, good[len(good)-512:]...)} {
		must(t, os.WriteFile(file, bad, 0o600))
		problems = nil
		if _, in, err := q.Result(1, "one"); !errors.Is(err, content.ErrResultDamaged) {
			t.Errorf("%s: got %v", name, err)
			in.Close()
		}
		must(t, os.WriteFile(file, good, 0o600))
		if got := result(t, q, 1, "one"); got != string(good) {
			t.Errorf("%s: the good one is not served any more", name)
		}
	}
	must(t, os.Remove(file))
	if _, _, err := q.Result(1, "one"); !errors.Is(err, content.ErrResultDamaged) {
		t.Errorf("deleted: got %v", err)
	}
	if len(problems) == 0 || !strings.Contains(problems[0], "result/j000000000001/one") {
		t.Errorf("problems: %q", problems)
	}
	if got := result(t, q, 1, "two"); got != string(other) {
		t.Error("the other result is not served")
	}
}

// A job in work whose job file is gone is put on hold when its lease ends, or at once where
// the lease is lost with it: what its consumer has done is not known, nor its attempts.
func TestAJobInWorkWithoutItsFileIsPutOnHold(t *testing.T) {
	for _, how := range []string{"removed while served", "removed after a stop", "removed after a crash", "cut after a stop", "cut after a crash"} {
		t.Run(how, func(t *testing.T) {
			dir := filepath.Join(fastDir(t), "home")
			now := time.Now()
			o := queuefs.Options{Now: func() time.Time { return now }}
			s, q := openWith(t, dir, o, func(i *home.QueueInfo) { i.Acknowledge, i.Lease = job.AckRequired, time.Minute })
			submit(t, q, job.Meta{}, "x")
			j := sure(q.Next(ctx, "w"))(t)
			must(t, s.Checkpoint(ctx))
			file := func() string { return filepath.Join(dir, "queues/jobs/consumed", j.ID.String()) }
			switch how {
			case "removed while served":
				must(t, os.Remove(file()))
			case "removed after a stop", "cut after a stop":
				closeHome(t, s)
			default:
				copied := copyHome(t, dir)
				closeHome(t, s)
				dir = copied
			}
			switch how {
			case "removed after a stop", "removed after a crash":
				must(t, os.Remove(file()))
			case "cut after a stop", "cut after a crash":
				must(t, os.Truncate(file(), 10))
			}
			if how != "removed while served" {
				s, q = openHome(t, dir, o)
			}
			defer closeHome(t, s)
			now = now.Add(2 * time.Minute)
			must(t, s.Expire(ctx))
			if j, err := q.Next(ctx, "w"); !errors.Is(err, ledger.ErrEmpty) {
				t.Errorf("handed out again: %v, attempt %d, %v", j.ID, j.Attempts, err)
			}
			if j, err := q.Job(1); err != nil || j.Held.IsZero() || j.HeldFor != "job file lost or damaged; the index knows less of the job" {
				t.Errorf("the job is %+v, %v", j, err)
			}
		})
	}
}

// A payload that is lost stays lost. Repairing keeps what is in its place, and
// keeps consumers from stumbling over the job.
func TestRepairPutsJobsWithoutTheirPayloadOnHold(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	submitN(t, q, 7, job.Meta{Filename: "f"}, "payload of a job")
	must(t, errOf(q.Next(ctx, "w")))
	must(t, errOf(q.Hold(ctx, 6, "for a reason")))
	closeHome(t, s)
	for id, how := range map[job.ID]string{1: "one octet", 2: "one octet", 3: "cut", 4: "gone", 6: "gone"} {
		spoil(t, dir, id, how)
	}
	// The file of a job that is damaged otherwise as well is mended with it.
	edit := filepath.Join(dir, "queues/jobs/pending/j000000000002")
	text := sure(os.ReadFile(edit))(t)
	must(t, os.WriteFile(edit, []byte(strings.Replace(string(text), "filename: f", "filename: g", 1)), 0o666))
	inspect := func(repair bool, want ...string) {
		t.Helper()
		r := sure(check.Home(dir, check.Options{Segment: segmentSize, Repair: repair}))(t)
		var got []string
		for _, p := range r.Problems {
			if rest, ok := strings.CutPrefix(p.String(), "queues/jobs/payload/j00000000000"); ok {
				got = append(got, rest)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	inspect(false, "1: payload has not its SHA-256 digest", "2: payload has not its SHA-256 digest",
		"3: payload has 3 octets instead of 16", "4: payload missing", "6: payload missing")
	inspect(true, "1: payload has not its SHA-256 digest; moved to corrupt/payload-j000000000001",
		"2: payload has not its SHA-256 digest; moved to corrupt/payload-j000000000002; the job is on hold",
		"3: payload has 3 octets instead of 16; moved to corrupt/payload-j000000000003; the job is on hold",
		"4: payload missing; the job is on hold", "6: payload missing; the job is on hold")
	s, q = openHome(t, dir, queuefs.Options{})
	taken, err := q.NextN(ctx, "w", 9)
	if err != nil || len(taken) != 2 || taken[0].ID != 5 || taken[1].ID != 7 {
		t.Errorf("got %v, %v", taken, err)
	}
	for id, want := range map[job.ID]string{2: "payload has not its SHA-256 digest", 3: "payload has 3 octets instead of 16", 4: "payload missing", 6: "for a reason"} {
		if j, err := q.Job(id); err != nil || j.Held.IsZero() || j.HeldFor != want || (id == 2) != (j.Filename == "g") {
			t.Errorf("got %+v, %v", j, err)
		}
	}
	closeHome(t, s)
	// Whoever has the payload brings it.
	must(t, os.WriteFile(filepath.Join(dir, "queues/jobs/payload/j000000000004"), []byte("payload of a job"), 0o666))
	inspect(true, "1: payload missing", "2: payload missing; the job is on hold", "3: payload missing; the job is on hold", "6: payload missing; the job is on hold")
	_, q = openHome(t, dir, queuefs.Options{})
	should(t, errOf(q.Release(ctx, 4)))
	takes(t, q, 4)
}

// TestCheckOnAFullDisk compares what can be compared, with files that are
// behind the journal and without.
func TestCheckOnAFullDisk(t *testing.T) {
	for _, behind := range []bool{false, true} {
		dir := mount(t, "8m")
		home := filepath.Join(dir, "home")
		o := queuefs.Options{Segment: 4 * smallSegment}
		s, q := openHome(t, home, o)
		submitN(t, q, 5, job.Meta{}, strings.Repeat("x", 10_000))
		must(t, s.Checkpoint(ctx))
		if !behind {
			closeHome(t, s)
		}
		if behind {
			submit(t, q, job.Meta{}, strings.Repeat("x", 10_000))
		}
		free := fill(t, dir, 0)
		if behind {
			wantErr(t, s.Close(), ledger.ErrNoSpace, "close")
			free = fill(t, dir, 0) // also what a segment took that was being prepared
		}
		for range 2 {
			r, err := check.Home(home, check.Options{Segment: o.Segment})
			switch {
			case err != nil:
				t.Errorf("behind %v: %v", behind, err)
			case !behind && (r.Jobs != 5 || r.Octets != 50_000 || len(r.Problems)+len(r.Mended) > 0):
				t.Errorf("got %+v", r)
			case behind && (r.Jobs != 6 || r.Octets != 60_000 || len(r.Problems)+len(r.Mended) > 0):
				t.Errorf("got %+v", r)
			}
			if !behind {
				continue
			}
			r, err = check.Home(home, check.Options{Segment: o.Segment, Repair: true})
			if err == nil || !errors.Is(err, ledger.ErrNoSpace) || r.Jobs != 6 || len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Text, ledger.ErrNoSpace.Error()) {
				t.Errorf("to mend: got %+v, %v", r, err)
			}
		}
		free()
		r, err := check.Home(home, check.Options{Segment: o.Segment})
		if want := len(r.Problems) + len(r.Mended); err != nil || want > 0 {
			t.Errorf("with room: %+v, %v", r, err)
		}
		s, q = openHome(t, home, o)
		if got := q.State().Pending; behind && got != 6 || !behind && got != 5 {
			t.Errorf("%d jobs", got)
		}
		closeHome(t, s)
	}
}

// A table that cannot be read keeps no home shut: it is set aside, reported, and made again.
// A directory in the place of the file stands for every error of a reading.
func TestAnUnreadableTableIsMadeAgain(t *testing.T) {
	for _, how := range []string{"stop", "crash"} {
		t.Run(how, func(t *testing.T) {
			dir := filepath.Join(fastDir(t), "home")
			s, q := openHome(t, dir, queuefs.Options{})
			submitN(t, q, 1100, job.Meta{}, "x")
			must(t, errOf(s.CreateQueue(ctx, home.QueueInfo{Identifier: "small", CullingSize: -1, CullingAge: -1})))
			small := sure(s.Queue("small"))(t)
			submit(t, small, job.Meta{}, "y")
			must(t, errOf(q.Next(ctx, "w")))
			cullQueue(t, s, "jobs")
			must(t, s.Checkpoint(ctx))
			submit(t, q, job.Meta{}, "z")
			dir = leave(t, how, dir, s, nil)
			path := filepath.Join(dir, tableFile)
			must(t, os.Remove(path))
			must(t, os.MkdirAll(filepath.Join(path, "there"), 0o777))
			var reports []string
			s, err := queuefs.Open(dir, queuefs.Options{Segment: segmentSize, Report: func(p durable.Finding) { reports = append(reports, p.String()) }})
			must(t, err)
			if got := strings.Join(reports, "\n"); !strings.Contains(got, tableFile+": ") || !strings.Contains(got, "moved to log/corrupt/") {
				t.Errorf("reports: %q", got)
			}
			for _, want := range []struct {
				id   string
				jobs int64
				next job.ID
			}{{"jobs", 1100, 1102}, {"small", 1, 2}} {
				q := sure(s.Queue(want.id))(t)
				if n := q.State().Pending; n != want.jobs {
					t.Errorf("%s has %d jobs", want.id, n)
				}
				if j, err := q.Next(ctx, "w"); err != nil || j.ID == 0 {
					t.Errorf("%s: the job at the head: %v, %v", want.id, j.ID, err)
				}
				if j := submit(t, q, job.Meta{}, "new"); j.ID < want.next {
					t.Errorf("%s: the next job is %v", want.id, j.ID)
				}
			}
			closeHome(t, s)
			s, err = queuefs.Open(dir, queuefs.Options{Segment: segmentSize, Report: func(p durable.Finding) { t.Errorf("once more: %s", p) }})
			must(t, err)
			closeHome(t, s)
		})
	}
}

// spoil changes the payload of a job behind the back of the engine.
func spoil(t testing.TB, dir string, id job.ID, how string) {
	t.Helper()
	path := filepath.Join(dir, "queues/jobs/payload", id.String())
	switch how {
	case "one octet":
		data := sure(os.ReadFile(path))(t)
		data[len(data)/2] ^= 1
		must(t, os.WriteFile(path, data, 0o666))
	case "cut":
		must(t, os.Truncate(path, 3))
	case "grown":
		must(t, os.Truncate(path, 300<<10))
	case "gone":
		must(t, os.Remove(path))
	}
}

// TestDamagedPayloadIsPutOnHold serves a queue whose head is damaged in every
// way: what is behind it is handed out, and each damage is told once. Payloads of a
// mebibyte are compared with their digest if the queue wants it.
func TestDamagedPayloadIsPutOnHold(t *testing.T) {
	for _, size := range []int{100, 200 << 10, 1 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			dir := fastDir(t)
			var told []string
			o := queuefs.Options{Now: clock(), Report: func(p durable.Finding) { told = append(told, p.String()) }}
			large := size >= 1<<20
			s, q := openWith(t, dir, o, func(i *home.QueueInfo) { i.VerifyOnRead = large })
			submitN(t, q, 7, job.Meta{}, strings.Repeat("x", size))
			must(t, s.Maintain(ctx))
			for i, how := range []string{"one octet", "cut", "gone"} {
				spoil(t, dir, job.ID(i+1), how)
			}
			spoil(t, dir, 5, "cut")
			taken, err := q.Take(ctx, queuefs.Take{By: "w", Max: 2})
			if err != nil || !slices.Equal(idsOfTaken(taken), []job.ID{4}) && !slices.Equal(idsOfTaken(taken), []job.ID{4, 6}) {
				t.Errorf("got %v, %v", idsOfTaken(taken), err)
			}
			taken, err = q.Take(ctx, queuefs.Take{By: "w", Max: 9})
			if err != nil || !slices.Equal(idsOfTaken(taken), []job.ID{6, 7}) {
				t.Errorf("got %v, %v", idsOfTaken(taken), err)
			}
			wantErr(t, errOf(q.Next(ctx, "w")), ledger.ErrEmpty, "")
			if got := q.IDs(index.Filter{Held: true}); !slices.Equal(got, []job.ID{1, 2, 3, 5}) {
				t.Errorf("held: got %v", got)
			}
			j, err := q.Job(1)
			if err != nil || j.HeldFor != "payload of j000000000001 has not its SHA-256 digest" || j.Attempts != 0 {
				t.Errorf("got %+v, %v", j, err)
			}
			// Released without being mended they are held again, and told no more.
			for _, id := range []job.ID{1, 2, 3, 5} {
				must(t, errOf(q.Release(ctx, id)))
			}
			wantErr(t, errOf(q.Next(ctx, "w")), ledger.ErrEmpty, "")
			if len(told) != 4 {
				t.Errorf("told %q", told)
			}
			// A large one that nobody verifies is handed out as it is.
			must(t, errOf(s.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) { i.VerifyOnRead = false }))))
			should(t, errOf(q.Release(ctx, 1)))
			if j, err := q.Next(ctx, "w"); large && (err != nil || j.ID != 1) || !large && !errors.Is(err, ledger.ErrEmpty) {
				t.Errorf("got %v, %v", j.ID, err)
			}
			counted(t, q)
			closeHome(t, s)
		})
	}
}

func idsOfTaken(taken []queuefs.Taken) (ids []job.ID) {
	for _, j := range taken {
		ids = append(ids, j.ID)
	}
	return ids
}

// TestWaiterGetsTheSoundJob waits while only damaged jobs come.
func TestWaiterGetsTheSoundJob(t *testing.T) {
	dir := fastDir(t)
	synctest.Test(t, func(t *testing.T) {
		s, q := openWith(t, dir, queuefs.Options{Now: clock()}, func(i *home.QueueInfo) { i.VerifyOnRead = true })
		j := submit(t, q, job.Meta{}, "payload")
		must(t, errOf(q.Hold(ctx, j.ID, "")))
		must(t, s.Maintain(ctx))
		spoil(t, dir, j.ID, "one octet")
		back := make(chan taking, 10)
		wait(ctx, q, 0, 1, back)
		must(t, errOf(q.Release(ctx, j.ID)))
		expect(t, back)
		submit(t, q, job.Meta{}, "sound")
		expect(t, back, taking{who: 0, jobs: []job.ID{2}})
		if got := q.IDs(index.Filter{Held: true}); !slices.Equal(got, []job.ID{1}) {
			t.Errorf("held: got %v", got)
		}
	})
}

// TestRequeueAtTheEnd puts jobs of each kind of payload at the end, with their
// files written and not; the payload of a large one is the same file.
func TestRequeueAtTheEnd(t *testing.T) {
	for _, size := range []int{0, 100, 100 << 10, 300 << 10} {
		for _, filed := range []bool{false, true} {
			t.Run(fmt.Sprint(size, filed), func(t *testing.T) {
				dir := fastDir(t)
				s, q := openHome(t, dir, queuefs.Options{Now: clock()})
				data := strings.Repeat("payload ", size/8)
				m := job.Meta{Filename: "f", MediaType: "text/plain", Sidecar: "s", Submitter: "me", Batch: "b"}
				submit(t, q, m, data)
				submit(t, q, job.Meta{}, "other")
				first := sure(q.Next(ctx, "w"))(t)
				if filed {
					must(t, s.Maintain(ctx))
				}
				again := sure(q.RequeueEnd(ctx, 1))(t)
				want := first
				want.ID, want.Seq, want.Status, want.Requeues = 3, 4, job.Pending, 1
				want.Submitted, want.Requeued, want.Attempts = again.Submitted, again.Submitted, 0
				want.Consumer, want.Consumed = "", want.Held
				want.Extra = again.Extra
				if got, err := q.Job(3); err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", again) || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
					t.Errorf("got %+v, %v\nand %+v\nwant %+v", got, err, again, want)
				}
				wantErr(t, errOf(q.RequeueEnd(ctx, 1)), job.ErrConflict, "twice")
				if got, want := standing(t, q, 3), "pending requeuedFrom j000000000001"; got != want {
					t.Errorf("got %s want %s", got, want)
				}
				must(t, s.Maintain(ctx))
				if a, b := inode(t, dir, 1), inode(t, dir, 3); (a == b) != (size > 128<<10) {
					t.Errorf("same file: %v", a == b)
				}
				// The old one, pending again, is no longer requeued as the new one.
				must(t, errOf(q.Requeue(ctx, 1)))
				if got := standing(t, q, 1); got != "pending" {
					t.Errorf("got %s", got)
				}
				everywhere(t, s, dir)
			})
		}
	}
}

func inode(t testing.TB, dir string, id job.ID) uint64 {
	t.Helper()
	st := sure(os.Stat(filepath.Join(dir, "queues/jobs/payload", id.String())))(t)
	return st.Sys().(*syscall.Stat_t).Ino
}

// TestPayloadLostBeforeItGotItsName takes large payloads away that wait for
// their names: it is told, and nothing else is kept from its files.
func TestPayloadLostBeforeItGotItsName(t *testing.T) {
	dir := fastDir(t)
	var told []string
	o := queuefs.Options{Now: clock(), Report: func(p durable.Finding) { told = append(told, p.String()) }}
	s, q := openWith(t, dir, o, func(*home.QueueInfo) {})
	submitN(t, q, 2, job.Meta{}, strings.Repeat("x", 200<<10))
	waiting, err := filepath.Glob(filepath.Join(dir, "cutie-tmp", "cutie-tmp-*"))
	if err != nil || len(waiting) != 2 {
		t.Fatalf("%d payloads wait for their names, %v", len(waiting), err)
	}
	for _, name := range waiting {
		must(t, os.Remove(name))
	}
	submit(t, q, job.Meta{}, strings.Repeat("y", 200<<10))
	must(t, s.Checkpoint(ctx))
	if len(told) != 2 || !strings.HasPrefix(told[0], "queues/jobs/payload/j000000000001: payload lost") {
		t.Errorf("told %q", told)
	}
	taken, err := q.Take(ctx, queuefs.Take{By: "w", Max: 9})
	if err != nil || !slices.Equal(idsOfTaken(taken), []job.ID{3}) {
		t.Errorf("got %v, %v", idsOfTaken(taken), err)
	}
	must(t, s.Close())
	r, err := check.Home(dir, check.Options{})
	if err != nil || len(r.Problems) != 2 {
		t.Errorf("check: %v, %v", r.Problems, err)
	}
}

// A reading that fails says nothing of what was written: a submission to a queue that
// verifies on write succeeds when the batch can be read again.
func TestAFailedReadBackIsTriedAgain(t *testing.T) {
	fails := 0
	fault := func(step string, do func() error) error {
		if step == "journal read back" && fails > 0 {
			fails--
			return syscall.EIO
		}
		return do()
	}
	s, q := openWith(t, fastDir(t), queuefs.Options{Fault: fault}, func(i *home.QueueInfo) { i.VerifyOnWrite = true })
	for range 3 {
		fails = 1
		submit(t, q, job.Meta{}, "x")
	}
	if fails != 0 || s.Err() != nil {
		t.Errorf("%d failures left, %v", fails, s.Err())
	}
}

// With verifyOnWrite a payload is read again before the answer.
func TestPayloadIsReadBack(t *testing.T) {
	for _, size := range []int{1000, 200 << 10} {
		for _, verify := range []bool{true, false} {
			dir := fastDir(t)
			payload := strings.Repeat("spoilt?!", size/8)
			spoilt, armed := 0, false
			spoilAll := func() {
				journal, err := filepath.Glob(filepath.Join(dir, "log/journal/*"))
				must(t, err)
				temps, err := filepath.Glob(filepath.Join(dir, "cutie-tmp/*"))
				must(t, err)
				for _, name := range append(journal, temps...) {
					data, err := os.ReadFile(name)
					if err != nil {
						continue
					}
					if i := bytes.Index(data, []byte("spoilt?!")); i >= 0 {
						f, err := os.OpenFile(name, os.O_WRONLY, 0)
						must(t, err)
						_, err = f.WriteAt([]byte("S"), int64(i))
						must(t, errors.Join(err, f.Close()))
						spoilt++
					}
				}
			}
			fault := func(step string, do func() error) error {
				err := do()
				if armed && spoilt == 0 && strings.Contains(step, "sync") {
					spoilAll()
				}
				return err
			}
			s, q := openWith(t, dir, queuefs.Options{Fault: fault},
				func(i *home.QueueInfo) { i.VerifyOnWrite = verify })
			sub := q.Begin()
			d, err := sub.Add(job.Meta{})
			must(t, err)
			must(t, errOf(d.Write([]byte(payload))))
			armed = true
			_, err = sub.Commit(ctx)
			armed = false
			if spoilt == 0 {
				t.Errorf("%d: nothing was spoilt", size)
			}
			if (err != nil) != verify {
				t.Errorf("%d, verify %v: got %v", size, verify, err)
			}
			if got, want := len(q.IDs(index.Filter{Status: job.Pending})), 1; verify && got != 0 || !verify && got != want {
				t.Errorf("%d, verify %v: %d jobs pending", size, verify, got)
			}
			if verify && size == 1000 && !errors.Is(err, ledger.ErrFailed) {
				t.Errorf("%d: got %v, want the journal to fail", size, err)
			}
			s.Close()
		}
	}
}
