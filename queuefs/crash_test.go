package queuefs_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/check"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
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
	list := sure(q.List(index.Filter{Limit: 1 << 20}))(t)
	byName := map[string]job.Job{}
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
		if j.Status == job.Consumed {
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
	for what, inspect := range map[string]func(j *job.Job, by string) bool{
		"result":   func(j *job.Job, by string) bool { return result(t, q, j.ID, "out") == by },
		"describe": func(j *job.Job, by string) bool { return strings.Contains(j.Sidecar, " by ") },
		"conclude": func(j *job.Job, by string) bool {
			return j.Outcome == job.Failed && j.Message == by && j.Consumer == by && j.Lease == job.Lease{}
		},
	} {
		for _, line := range d.done[what+" "+q.ID()] {
			word, by, _ := strings.Cut(line, " ")
			id, _ := job.ParseID(word)
			if j, err := q.Job(id); !undone[word] && (err != nil || !inspect(&j, by)) {
				t.Errorf("%s was told %s: got %+v, %v", what, line, j, err)
			}
		}
	}
	counted(t, q)
	for _, line := range slices.Concat(d.done["take "+q.ID()], d.done["delete "+q.ID()]) {
		id := line[strings.LastIndexByte(line, ' ')+1:]
		n, _ := job.ParseID(id)
		if st, _ := q.Status(n); st == job.Pending && !undone[id] {
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
	must(t, errOf(s.CreateQueue(ctx, home.QueueInfo{Identifier: "line", CullingSize: -1, CullingAge: -1})))
	closeHome(t, s)
	d := &told{begun: map[string][]string{}, done: map[string][]string{}}
	for round := range rounds {
		cmd := child(t, "clients", dir)
		out := sure(cmd.StdoutPipe())(t)
		cmd.Stderr = os.Stderr
		must(t, processes.Start(cmd))
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
func notBrokenOff(problems *[]durable.Finding) func(durable.Finding) {
	return func(p durable.Finding) {
		if !strings.Contains(p.Text, "the last batch does not verify and was cut") {
			*problems = append(*problems, p)
		}
	}
}

func checkAfterKill(t *testing.T, dir string, d *told) {
	t.Helper()
	var problems []durable.Finding
	s := sure(queuefs.Open(dir, queuefs.Options{Segment: segmentSize, Report: notBrokenOff(&problems)}))(t)
	for _, q := range s.Queues() {
		d.check(t, q)
		checkTail(t, q)
	}
	line := sure(s.Queue("line"))(t)
	// One consumer, nothing requeued: what is consumed is a head without holes.
	st := line.State()
	if ids := line.IDs(index.Filter{Status: job.Pending, Limit: 1}); len(ids) == 1 && int64(ids[0]) != st.Consumed+1 {
		t.Errorf("line: %d are consumed, the next one is %v", st.Consumed, ids[0])
	}
	closeHome(t, s)
	if len(problems) > 0 {
		t.Errorf("reported %v", problems)
	}
	checkHome(t, dir, check.Options{Segment: segmentSize})
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
	if err != nil || job.Seq(len(events)) != seq-after {
		t.Fatalf("%s: events after %d of %d: got %d, %v", q.ID(), after, seq, len(events), err)
	}
	stands := map[job.ID]job.Status{}
	for i, e := range events {
		if e.Seq != after+job.Seq(i)+1 || i > 0 && !e.Time.After(events[i-1].Time) {
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
	s, err := queuefs.Open(dir, queuefs.Options{Segment: segmentSize, Report: func(p durable.Finding) { fmt.Println(p) }})
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

// The child of the crash test runs clients on two queues and says on its
// standard output what it is about to do and what was acknowledged, a line
// each:
//
//	begin WORK ARGUMENTS…     done WORK ARGUMENTS…
//
// Queue "line" has many submitters and one consumer, so that the order is
// plain; queue "jobs" has everything at once. Every job and every taking has a
// name that never comes again.

// namedPayload gives a payload from its name: its size differs, and it is known.
func namedPayload(name string) string {
	size := 20
	switch name[len(name)-1] {
	case '3':
		size = 9 << 10 // above what travels in a small journal
	case '7':
		size = 3000
	}
	return strings.Repeat(name+";", size/(len(name)+1)+1)
}

type crashClient struct {
	name string
	n    int
	say  func(format string, args ...any)
	rng  *rand.Rand
}

func (c *crashClient) submit(q *queuefs.Queue, names ...string) error {
	s := q.Begin()
	defer s.Discard()
	for _, n := range names {
		c.say("begin submit %s %s", q.ID(), n)
		d, err := s.Add(job.Meta{Filename: n, Sidecar: "of " + n, Batch: names[0]})
		if err != nil {
			return err
		}
		if _, err := io.WriteString(d, namedPayload(n)); err != nil {
			return err
		}
	}
	jobs, err := s.Commit(ctx)
	for _, j := range jobs {
		c.say("done submit %s %s %v", q.ID(), j.Filename, j.ID)
	}
	return err
}

func (c *crashClient) take(q *queuefs.Queue, max int) error {
	c.n++
	by := fmt.Sprintf("%s-take-%d", c.name, c.n)
	c.say("begin take %s %s %d", q.ID(), by, max)
	wait, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	jobs, err := q.NextWait(wait, by, max)
	for _, j := range jobs {
		c.say("done take %s %s %v", q.ID(), by, j.ID)
	}
	if errors.Is(err, ledger.ErrEmpty) {
		return nil
	}
	return err
}

// mixed does one thing at random.
func (c *crashClient) mixed(q *queuefs.Queue) error {
	some := func(st job.Status) job.ID {
		ids := q.IDs(index.Filter{Status: st, Limit: 50})
		if len(ids) == 0 {
			return 0
		}
		return ids[c.rng.IntN(len(ids))]
	}
	var err error
	switch k := c.rng.IntN(12); {
	case k >= 10:
		return c.work(q)
	case k < 4:
		var names []string
		for range 1 + c.rng.IntN(3) {
			c.n++
			names = append(names, fmt.Sprintf("%s-job-%d", c.name, c.n))
		}
		return c.submit(q, names...)
	case k < 7:
		return c.take(q, 1+c.rng.IntN(3))
	case k < 8:
		if id := some(job.Pending); id != 0 {
			c.say("begin delete %s %v", q.ID(), id)
			if _, err = q.Delete(ctx, id); err == nil {
				c.say("done delete %s %v", q.ID(), id)
			}
		}
	default:
		if id := some(job.Consumed + job.Status(k-8)); id != 0 {
			c.say("begin requeue %s %v", q.ID(), id)
			if _, err = q.Requeue(ctx, id); err == nil {
				c.say("done requeue %s %v", q.ID(), id)
			}
		}
	}
	if errors.Is(err, job.ErrNotPending) {
		return nil
	}
	return err
}

// work takes a job with a lease, gives a result and tells the outcome, holds,
// describes and releases another.
func (c *crashClient) work(q *queuefs.Queue) error {
	c.n++
	by := fmt.Sprintf("%s-take-%d", c.name, c.n)
	c.say("begin take %s %s 1", q.ID(), by)
	taken, err := q.Take(ctx, queuefs.Take{By: by, Lease: time.Hour})
	if errors.Is(err, ledger.ErrEmpty) {
		return nil
	}
	if err != nil {
		return err
	}
	j := taken[0]
	c.say("done take %s %s %v", q.ID(), by, j.ID)
	if err = putResult(q, j.ID, j.Token, "out", by); err == nil {
		c.say("done result %s %v %s", q.ID(), j.ID, by)
		_, err = q.Conclude(ctx, j.ID, j.Token, job.Conclusion{Outcome: job.Failed, Message: by})
	}
	if errors.Is(err, queuefs.ErrLease) {
		return nil // another has requeued it meanwhile
	}
	if err != nil {
		return err
	}
	c.say("done conclude %s %v %s", q.ID(), j.ID, by)
	ids := q.IDs(index.Filter{Status: job.Pending, Limit: 50})
	if len(ids) == 0 {
		return nil
	}
	id := ids[c.rng.IntN(len(ids))]
	if held, e := q.Hold(ctx, id, by); e == nil {
		c.say("begin describe %s %v %s", q.ID(), id, by)
		if _, err = describe(q, id, "=", "of "+held.Filename+" by "+by); err == nil {
			c.say("done describe %s %v %s", q.ID(), id, by)
			_, err = q.Release(ctx, id)
		}
	} else {
		err = e
	}
	if errors.Is(err, job.ErrNotPending) {
		return nil
	}
	return err
}

// crashClients is the child: it goes on until it is killed.
func crashClients(dir string) {
	var mu sync.Mutex
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		if _, err := fmt.Fprintf(os.Stdout, format+"\n", args...); err != nil {
			os.Exit(0) // nobody listens any more
		}
	}
	must := func(err error) {
		if err != nil {
			say("error %v", err)
			os.Exit(1)
		}
	}
	s, err := queuefs.Open(dir, queuefs.Options{Segment: segmentSize, Behind: 256 << 10,
		Report: func(p durable.Finding) { say("error %v", p) }})
	must(err)
	queues := map[string]*queuefs.Queue{}
	for _, name := range []string{"line", "jobs"} {
		if queues[name], err = s.Queue(name); err != nil {
			must(err)
		}
	}
	say("ready")
	life := filepath.Base(os.Args[1]) + fmt.Sprint(os.Getpid())
	for i := range 64 {
		c := &crashClient{name: fmt.Sprintf("%s-%d", life, i), say: say, rng: rand.New(rand.NewPCG(uint64(os.Getpid()), uint64(i)))}
		go func() {
			for {
				switch {
				case i == 0:
					must(c.take(queues["line"], 1+c.rng.IntN(4)))
				case i < 8:
					c.n++
					must(c.submit(queues["line"], fmt.Sprintf("%s-job-%d", c.name, c.n)))
				default:
					must(c.mixed(queues["jobs"]))
				}
			}
		}()
	}
	for n := 0; ; n++ {
		must(s.Maintain(ctx))
		if n%40 == 39 {
			must(s.Checkpoint(ctx))
		}
	}
}

// keyedClients is a process whose clients submit, and take, with keys until it is killed.
// Client C goes on with request N of the file C of the directory of the home, and says
// "submit C N JOBS" or "take C N JOBS" for each answer.
func keyedClients(dir string) {
	s, err := queuefs.Open(dir, queuefs.Options{Segment: segmentSize})
	if err != nil {
		fmt.Println("error", err)
		return
	}
	q, err := s.Queue("jobs")
	if err != nil {
		fmt.Println("error", err)
		return
	}
	var out sync.Mutex
	say := func(words ...any) {
		out.Lock()
		defer out.Unlock()
		fmt.Println(words...)
	}
	errs := make(chan error)
	for c := range keyedCrowd {
		go func() {
			text, _ := os.ReadFile(filepath.Join(filepath.Dir(dir), fmt.Sprint(c)))
			n := 0
			fmt.Sscan(string(text), &n)
			for ; ; n++ {
				key := fmt.Sprintf("%d-%d", c, n)
				if n%3 == 2 {
					wait, cancel := context.WithTimeout(ctx, time.Second)
					taken, err := q.TakeWait(wait, queuefs.Take{Key: key, Max: 1 + c%3, Lease: time.Duration(c%2) * time.Hour})
					if cancel(); err != nil {
						errs <- err
						return
					}
					say("take", c, n, strings.TrimSuffix(takenIDs(taken), " again"))
					continue
				}
				payloads := []string{key, key, key, key}[:1+2*(c%2)]
				if n%40 == 0 {
					payloads[0] = strings.Repeat(key, 5000)
				}
				got, _, err := send(q, key, nil, payloads...)
				if err != nil {
					errs <- err
					return
				}
				say("submit", c, n, got)
			}
		}()
	}
	fmt.Println("error", <-errs)
}

const keyedCrowd = 8

// TestKilledKeyedRequestsHappenOnce kills a process again and again. Its clients send what
// was not answered once more: each key has its jobs once, and no job has two takers.
func TestKilledKeyedRequestsHappenOnce(t *testing.T) {
	dir := filepath.Join(fastDir(t), "home")
	s, _ := openHome(t, dir, queuefs.Options{})
	closeHome(t, s)
	next := [keyedCrowd]int{}
	submitted, taken := map[string]string{}, map[string]string{} // by key
	for range long.N(6, 60) {
		for c, n := range next {
			must(t, os.WriteFile(filepath.Join(filepath.Dir(dir), fmt.Sprint(c)), []byte(fmt.Sprint(n)), 0o600))
		}
		cmd := child(t, "keyed", dir)
		cmd.Stderr = os.Stderr
		pipe := sure(cmd.StdoutPipe())(t)
		must(t, processes.Start(cmd))
		most := 5 + rand.IntN(600)
		for sc := bufio.NewScanner(pipe); sc.Scan(); most-- {
			var what string
			var c, n int
			if k, _ := fmt.Sscan(sc.Text(), &what, &c, &n); k < 3 {
				t.Fatalf("the clients say %q", sc.Text())
			}
			if most == 0 {
				cmd.Process.Kill() // what is in the pipe is read to its end
			}
			key, jobs := fmt.Sprintf("%d-%d", c, n), strings.Join(strings.Fields(sc.Text())[3:], " ")
			if next[c] = n + 1; what == "take" {
				taken[key] = jobs
			} else {
				submitted[key] = jobs
			}
		}
		cmd.Process.Kill()
		cmd.Wait()
	}
	_, q := openHome(t, dir, queuefs.Options{})
	list := sure(q.List(index.Filter{Limit: 1 << 20}))(t)
	found, consumers := map[string]string{}, map[string]int{}
	for _, j := range list {
		key, _, _ := strings.Cut(j.Key, "#")
		found[key] = strings.TrimSpace(found[key] + " " + strings.TrimLeft(j.ID.String(), "j0"))
		if j.Status == job.Consumed {
			consumers[j.ConsumerKey]++
		}
	}
	unanswered := 0
	for key, jobs := range found {
		if want, answered := submitted[key]; !answered {
			unanswered++
		} else if jobs != want {
			t.Errorf("key %s has the jobs %s, and was answered %s", key, jobs, want)
		}
		delete(submitted, key)
	}
	if len(submitted) > 0 || unanswered > keyedCrowd {
		t.Errorf("keys without jobs: %v, with jobs and not answered: %d", submitted, unanswered)
	}
	takers := map[string]string{}
	for key, jobs := range taken {
		for id := range strings.FieldsSeq(jobs) {
			if takers[id] != "" {
				t.Errorf("job %s went to %s and %s", id, takers[id], key)
			}
			takers[id] = key
		}
	}
	if over := len(consumers) - len(taken); over < 0 || over > keyedCrowd {
		t.Errorf("%d keys have jobs in work, %d were answered", len(consumers), len(taken))
	}
	t.Logf("%d jobs of %d keys, %d takes, %d jobs taken", len(list), len(found), len(taken), len(takers))
}

// cullClients is a process that submits, consumes and culls until it is
// killed. It says what was acknowledged: "there ID" and "culled ID".
func cullClients(dir string) {
	s, err := queuefs.Open(dir, queuefs.Options{Segment: smallSegment})
	if err == nil {
		err = func() error {
			q, err := s.Queue("jobs")
			if err != nil {
				return err
			}
			var out sync.Mutex
			say := func(what string, id job.ID) {
				out.Lock()
				defer out.Unlock()
				fmt.Println(what, id)
			}
			errs := make(chan error)
			for range 3 {
				go func() {
					for {
						id, err := trySubmit(q, "x")
						if err != nil {
							errs <- err
							return
						}
						say("there", id)
						if id%5 == 0 {
							continue // some stay
						}
						if _, err := q.Next(ctx, "w"); err != nil && !errors.Is(err, ledger.ErrEmpty) {
							errs <- err
							return
						}
					}
				}()
			}
			go func() {
				for n := 0; ; n++ {
					for c, err := range s.Cull(ctx, queuefs.CullOptions{}) {
						if err != nil {
							errs <- err
							return
						}
						say("culled", c.Job)
					}
					if n%7 == 0 {
						if err := s.Checkpoint(ctx); err != nil {
							errs <- err
							return
						}
					}
				}
			}()
			return <-errs
		}()
	}
	fmt.Println("error", err)
	os.Exit(1)
}

// TestCullingSurvivesKills kills a process that culls, again and again: no job
// is lost but those culled, what was culled stays so, and each has one
// tombstone.
func TestCullingSurvivesKills(t *testing.T) {
	dir := fastDir(t)
	s, _ := openHome(t, dir, queuefs.Options{})
	cullQueue(t, s, "jobs")
	closeHome(t, s)
	there, gone := map[job.ID]bool{}, map[job.ID]bool{}
	for round := range 6 {
		cmd := child(t, "cull", dir)
		cmd.Stderr = os.Stderr
		pipe := sure(cmd.StdoutPipe())(t)
		must(t, processes.Start(cmd))
		lines := 0
		for sc := bufio.NewScanner(pipe); sc.Scan(); {
			what, name, _ := strings.Cut(sc.Text(), " ")
			id, err := job.ParseID(name)
			if err != nil {
				t.Errorf("the clients say %q", sc.Text())
				break
			}
			if there[id] = true; what == "culled" {
				gone[id] = true
			}
			if lines++; lines == 40+97*round {
				cmd.Process.Kill() // what is in the pipe is read to its end
			}
		}
		cmd.Process.Kill()
		cmd.Wait()
	}
	var problems []durable.Finding
	s, q := openHome(t, dir, queuefs.Options{Segment: smallSegment, Report: notBrokenOff(&problems)})
	buried := map[job.ID]bool{}
	for _, stone := range stones(t, q, time.Time{}, 100) {
		if buried[stone.Job] {
			t.Errorf("%v has two tombstones", stone.Job)
		}
		buried[stone.Job] = true
		wantErr(t, errOf(q.Job(stone.Job)), ledger.ErrNoJob, "%v has a tombstone", stone.Job)
	}
	for id := range gone {
		if !buried[id] {
			t.Errorf("%v was culled, and has no tombstone", id)
		}
	}
	for id := range there {
		if st, _ := q.Status(id); st == 0 && !buried[id] {
			t.Errorf("%v is lost", id)
		}
	}
	if len(gone) < 50 || len(there) < 2*50 {
		t.Errorf("only %d jobs, %d culled", len(there), len(gone))
	}
	closeHome(t, s)
	r, err := check.Home(dir, check.Options{Segment: smallSegment})
	if err != nil || len(r.Problems)+len(r.Mended)+len(problems) > 0 {
		t.Errorf("check: %v, problems %v, mended %v, reported %v", err, r.Problems, r.Mended, problems)
	}
}

// TestACrashBeforeTheFirstCheckpoint opens a home whose index has nothing of the
// queue yet, although the jobs have files. The journal has all of them, so no
// file is read: there may be a million. Where it does not, the files count.
func TestACrashBeforeTheFirstCheckpoint(t *testing.T) {
	dir := filepath.Join(fastDir(t), "home")
	now := time.Now()
	s, q := openHome(t, dir, queuefs.Options{Segment: smallSegment, Now: func() time.Time { return now }})
	submitN(t, q, 3, job.Meta{Filename: "f"}, "payload")
	must(t, errOf(q.Next(ctx, "w")))
	must(t, s.Maintain(ctx)) // it is calm: files are written
	want := observe(t, s)
	crashed := copyHome(t, dir)
	closeHome(t, s)
	pending := filepath.Join(crashed, "queues/jobs/pending")
	if names, err := os.ReadDir(pending); err != nil || len(names) != 2 {
		t.Fatalf("%d files are pending: %v", len(names), err)
	}
	for name, c := range map[string]struct {
		damage  func(dir string)
		rebuild bool
		report  string // what each problem has, if there is to be one
	}{
		"as it is": {func(string) {}, false, ""},
		"a file nobody reads": {func(dir string) {
			must(t, os.WriteFile(filepath.Join(dir, "queues/jobs/pending/j000000000002"), []byte("not a job file"), 0o666))
		}, false, ""},
		"no journal": {func(dir string) { must(t, os.RemoveAll(filepath.Join(dir, "log/journal"))) }, false, "brought by other hands"},
		"rebuilt":    {func(dir string) { must(t, os.RemoveAll(filepath.Join(dir, "log/journal"))) }, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyHome(t, crashed)
			c.damage(dir)
			if c.rebuild {
				r, err := check.Home(dir, check.Options{Rebuild: true, AcceptLoss: true, Segment: smallSegment})
				if err != nil || len(r.Problems) > 0 || r.Jobs != 3 {
					t.Fatalf("rebuild: %+v, %v", r, err)
				}
			}
			told := 0
			s, q := openHome(t, dir, queuefs.Options{Segment: smallSegment, AcceptLoss: c.report != "", Report: func(p durable.Finding) {
				if p.Path == "log/journal" && c.report != "" {
					return
				}
				if told++; c.report == "" || !strings.Contains(p.Text, c.report) {
					t.Errorf("reported: %v", p)
				}
			}})
			want.expect(t, s)
			if c.report != "" && told != 3 {
				t.Errorf("%d problems, want one for each job", told)
			}
			submitAs(t, q, 4, job.Meta{}, "next")
			closeHome(t, s)
			if r := checkHome(t, dir, check.Options{Segment: smallSegment}); r.Jobs != 4 {
				t.Errorf("%d jobs", r.Jobs)
			}
		})
	}
}
