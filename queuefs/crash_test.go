package queuefs_test

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/check"
	"cutie/testdata/long"
	"cutie/testdata/processes"
)

// told is what the killed processes have said.
type told struct {
	begun, done map[string][]string // "submit QUEUE": arguments, in order
	errors      []string
}

func (d *told) read(r io.Reader, ready func()) {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return // a line without an end was not said
		}
		word := strings.Fields(line)
		switch {
		case word[0] == "ready":
			ready()
		case word[0] == "error":
			d.errors = append(d.errors, line)
		case word[0] == "begin":
			d.begun[word[1]+" "+word[2]] = append(d.begun[word[1]+" "+word[2]], strings.Join(word[3:], " "))
		default:
			d.done[word[1]+" "+word[2]] = append(d.done[word[1]+" "+word[2]], strings.Join(word[3:], " "))
		}
	}
}

// check compares a queue with everything that was said of it.
func (d *told) check(t *testing.T, q *queuefs.Queue) {
	t.Helper()
	begun := map[string]int{} // takings and how many jobs they may have
	for _, b := range d.begun["take "+q.ID()] {
		var by string
		var max int
		fmt.Sscan(b, &by, &max)
		begun[by] = max
	}
	names := map[string]bool{}
	for _, n := range d.begun["submit "+q.ID()] {
		names[n] = true
	}
	list, err := q.List(queuefs.ListOptions{Limit: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]queuefs.Job{}
	taken := map[string]int{}
	described := map[string]bool{}
	for _, line := range d.begun["describe "+q.ID()] {
		described[line] = true
	}
	for _, j := range list {
		if _, twice := byName[j.Filename]; twice || !names[j.Filename] {
			t.Errorf("%v is %q, nobody submitted it, or another job has it", j.ID, j.Filename)
		}
		byName[j.Filename] = j
		sidecar, by, again := strings.Cut(j.Sidecar, " by ")
		if sidecar != "of "+j.Filename || again && !described[j.ID.String()+" "+by] || payload(t, q, j.ID) != namedPayload(j.Filename) {
			t.Errorf("%v (%s): payload or sidecar differ", j.ID, j.Filename)
		}
		if j.Status == queuefs.Consumed {
			if taken[j.Consumer]++; taken[j.Consumer] > begun[j.Consumer] {
				t.Errorf("%v was handed out to %s, who asked for %d", j.ID, j.Consumer, begun[j.Consumer])
			}
		}
	}
	for _, line := range d.done["submit "+q.ID()] {
		name, id, _ := strings.Cut(line, " ")
		if byName[name].ID.String() != id {
			t.Errorf("acknowledged as %s: %s, got %v", id, name, byName[name].ID)
		}
	}
	// A batch is there as a whole.
	for _, j := range list {
		if first := byName[j.Batch]; first.Filename != j.Batch || j.ID < first.ID {
			t.Errorf("%v: the batch of %s lacks its first job", j.ID, j.Filename)
		}
	}
	// Between two takings of a job somebody must have wanted it back.
	times := map[string]int{}
	for _, line := range d.done["take "+q.ID()] {
		_, id, _ := strings.Cut(line, " ")
		times[id]++
	}
	for _, id := range d.begun["requeue "+q.ID()] {
		times[id]--
	}
	for id, n := range times {
		if n > 1 {
			t.Errorf("%s was handed out %d times more than it was requeued", id, n)
		}
	}
	// What was acknowledged stays, unless somebody has begun to undo it.
	undone := map[string]bool{}
	for _, id := range slices.Concat(d.begun["requeue "+q.ID()]) {
		undone[id] = true
	}
	for what, inspect := range map[string]func(j *queuefs.Job, by string) bool{
		"result":   func(j *queuefs.Job, by string) bool { return result(t, q, j.ID, "out") == by },
		"describe": func(j *queuefs.Job, by string) bool { return strings.Contains(j.Sidecar, " by ") },
		"conclude": func(j *queuefs.Job, by string) bool {
			return j.Outcome == queuefs.Failed && j.Message == by && j.Consumer == by && j.Lease == queuefs.Lease{}
		},
	} {
		for _, line := range d.done[what+" "+q.ID()] {
			word, by, _ := strings.Cut(line, " ")
			id, _ := queuefs.ParseJobID(word)
			if j, err := q.Job(id); !undone[word] && (err != nil || !inspect(&j, by)) {
				t.Errorf("%s was told %s: got %+v, %v", what, line, j, err)
			}
		}
	}
	counted(t, q)
	for _, line := range slices.Concat(d.done["take "+q.ID()], d.done["delete "+q.ID()]) {
		id := line[strings.LastIndexByte(line, ' ')+1:]
		n, _ := queuefs.ParseJobID(id)
		if st, _ := q.Status(n); st == queuefs.Pending && !undone[id] {
			t.Errorf("%s is pending again: %s", id, line)
		}
	}
}

var crashes = flag.Int("crashes", 0, "how often TestKilledAtRandom kills its process; 0 is a few times, or many with CUTIE_LONG")

// TestKilledAtRandom kills a busy process again and again.
func TestKilledAtRandom(t *testing.T) {
	rounds := *crashes
	if rounds == 0 {
		rounds = long.N(3, 30)
	}
	dir := t.TempDir()
	s, _ := openHome(t, dir, queuefs.Options{})
	if _, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "line", CullingSize: -1, CullingAge: -1}); err != nil {
		t.Fatal(err)
	}
	closeHome(t, s)
	d := &told{begun: map[string][]string{}, done: map[string][]string{}}
	for round := range rounds {
		cmd := child(t, "clients", dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = os.Stderr
		if err := processes.Start(cmd); err != nil {
			t.Fatal(err)
		}
		d.read(out, func() {
			time.AfterFunc(time.Duration(rand.Int64N(int64(300*time.Millisecond))), func() { cmd.Process.Kill() })
		})
		cmd.Wait()
		if len(d.errors) > 0 {
			t.Fatalf("round %d: %s", round, d.errors)
		}
		checkAfterKill(t, dir, d)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	t.Logf("%d jobs in line, %d in jobs", len(d.done["submit line"]), len(d.done["submit jobs"]))
}

// notBrokenOff adds what is reported after a kill to problems, but not that the kill broke
// the write of a batch off: nobody was told that it was done.
func notBrokenOff(problems *[]queuefs.Problem) func(queuefs.Problem) {
	return func(p queuefs.Problem) {
		if !strings.Contains(p.Text, "the last batch does not verify and was cut") {
			*problems = append(*problems, p)
		}
	}
}

func checkAfterKill(t *testing.T, dir string, d *told) {
	t.Helper()
	var problems []queuefs.Problem
	s, err := queuefs.Open(dir, queuefs.Options{Segment: segmentSize, Report: notBrokenOff(&problems)})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range s.Queues() {
		d.check(t, q)
		checkTail(t, q)
	}
	line, err := s.Queue("line")
	if err != nil {
		t.Fatal(err)
	}
	// One consumer, nothing requeued: what is consumed is a head without holes.
	st := line.State()
	if ids := line.IDs(queuefs.ListOptions{Status: queuefs.Pending, Limit: 1}); len(ids) == 1 && int64(ids[0]) != st.Consumed+1 {
		t.Errorf("line: %d are consumed, the next one is %v", st.Consumed, ids[0])
	}
	closeHome(t, s)
	if len(problems) > 0 {
		t.Errorf("reported %v", problems)
	}
	r, err := check.Home(dir, check.Options{Segment: segmentSize})
	if err != nil || len(r.Problems)+len(r.Mended) > 0 {
		t.Errorf("check: %v, problems %v, mended %v", err, r.Problems, r.Mended)
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
}

// checkTail tests the events that the journal still has: no gap, growing
// times, and each job last seen as it stands.
func checkTail(t *testing.T, q *queuefs.Queue) {
	t.Helper()
	seq := q.Seq()
	after := seq
	for after > 0 {
		if _, err := q.Events(after-1, 1); err != nil {
			break
		}
		after--
	}
	events, err := q.Events(after, 1<<30)
	if err != nil || queuefs.Seq(len(events)) != seq-after {
		t.Fatalf("%s: events after %d of %d: got %d, %v", q.ID(), after, seq, len(events), err)
	}
	stands := map[queuefs.JobID]queuefs.Status{}
	for i, e := range events {
		if e.Seq != after+queuefs.Seq(i)+1 || i > 0 && !e.Time.After(events[i-1].Time) {
			t.Errorf("%s: event %d: got %+v", q.ID(), i, e)
		}
		if was, seen := stands[e.Job]; seen && was != e.From {
			t.Errorf("%s: event %d takes %v from %v, it was %v", q.ID(), e.Seq, e.Job, e.From, was)
		}
		stands[e.Job] = e.To
	}
	for id, st := range stands {
		if got, _ := q.Status(id); got != st {
			t.Errorf("%s: %v is %v, the last event left it %v", q.ID(), id, got, st)
		}
	}
}

// openAndClose is a child that opens a home and closes it, and tells what
// memory that took.
func openAndClose(dir string) {
	s, err := queuefs.Open(dir, queuefs.Options{Segment: segmentSize, Report: func(p queuefs.Problem) { fmt.Println(p) }})
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		fmt.Println("VmHWM: 1") // a system that does not say
	}
	os.Stdout.Write(status)
}
