package queuefs_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"cutie/queuefs"
	"cutie/queuefs/check"
	"cutie/queuefs/digest"
)

// spoil changes the payload of a job behind the back of the engine.
func spoil(t testing.TB, dir string, id queuefs.JobID, how string) {
	t.Helper()
	path := filepath.Join(dir, "queues/jobs/payload", id.String())
	switch how {
	case "one octet":
		data, err := os.ReadFile(path)
		must(t, err)
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
			o := queuefs.Options{Now: clock(), Report: func(p queuefs.Problem) { told = append(told, p.String()) }}
			large := size >= 1<<20
			s, q := openWith(t, dir, o, func(i *queuefs.QueueInfo) { i.VerifyOnRead = large })
			submitN(t, q, 7, queuefs.Meta{}, strings.Repeat("x", size))
			must(t, s.Maintain(ctx))
			for i, how := range []string{"one octet", "cut", "gone"} {
				spoil(t, dir, queuefs.JobID(i+1), how)
			}
			spoil(t, dir, 5, "cut")
			taken, err := q.Take(ctx, queuefs.Take{By: "w", Max: 2})
			if err != nil || !slices.Equal(idsOfTaken(taken), []queuefs.JobID{4}) && !slices.Equal(idsOfTaken(taken), []queuefs.JobID{4, 6}) {
				t.Errorf("got %v, %v", idsOfTaken(taken), err)
			}
			taken, err = q.Take(ctx, queuefs.Take{By: "w", Max: 9})
			if err != nil || !slices.Equal(idsOfTaken(taken), []queuefs.JobID{6, 7}) {
				t.Errorf("got %v, %v", idsOfTaken(taken), err)
			}
			wantErr(t, errOf(q.Next(ctx, "w")), queuefs.ErrEmpty, "")
			if got := q.IDs(queuefs.ListOptions{Held: true}); !slices.Equal(got, []queuefs.JobID{1, 2, 3, 5}) {
				t.Errorf("held: got %v", got)
			}
			j, err := q.Job(1)
			if err != nil || j.HeldFor != "payload of j000000000001 has not its SHA-256 digest" || j.Attempts != 0 {
				t.Errorf("got %+v, %v", j, err)
			}
			// Released without being mended they are held again, and told no more.
			for _, id := range []queuefs.JobID{1, 2, 3, 5} {
				must(t, errOf(q.Release(ctx, id)))
			}
			wantErr(t, errOf(q.Next(ctx, "w")), queuefs.ErrEmpty, "")
			if len(told) != 4 {
				t.Errorf("told %q", told)
			}
			// A large one that nobody verifies is handed out as it is.
			_, err = s.SetQueue(ctx, "jobs", func(i *queuefs.QueueInfo) error { i.VerifyOnRead = false; return nil })
			must(t, err)
			should(t, errOf(q.Release(ctx, 1)))
			if j, err := q.Next(ctx, "w"); large && (err != nil || j.ID != 1) || !large && !errors.Is(err, queuefs.ErrEmpty) {
				t.Errorf("got %v, %v", j.ID, err)
			}
			counted(t, q)
			closeHome(t, s)
		})
	}
}

func idsOfTaken(taken []queuefs.Taken) (ids []queuefs.JobID) {
	for _, j := range taken {
		ids = append(ids, j.ID)
	}
	return ids
}

// TestWaiterGetsTheSoundJob waits while only damaged jobs come.
func TestWaiterGetsTheSoundJob(t *testing.T) {
	dir := fastDir(t)
	synctest.Test(t, func(t *testing.T) {
		s, q := openWith(t, dir, queuefs.Options{Now: clock()}, func(i *queuefs.QueueInfo) { i.VerifyOnRead = true })
		j := submit(t, q, queuefs.Meta{}, "payload")
		must(t, errOf(q.Hold(ctx, j.ID, "")))
		must(t, s.Maintain(ctx))
		spoil(t, dir, j.ID, "one octet")
		back := make(chan taking, 10)
		wait(ctx, q, 0, 1, back)
		must(t, errOf(q.Release(ctx, j.ID)))
		expect(t, back)
		submit(t, q, queuefs.Meta{}, "sound")
		expect(t, back, taking{who: 0, jobs: []queuefs.JobID{2}})
		if got := q.IDs(queuefs.ListOptions{Held: true}); !slices.Equal(got, []queuefs.JobID{1}) {
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
				m := queuefs.Meta{Filename: "f", MediaType: "text/plain", Sidecar: "s", Submitter: "me", Batch: "b"}
				submit(t, q, m, data)
				submit(t, q, queuefs.Meta{}, "other")
				first, err := q.Next(ctx, "w")
				must(t, err)
				if filed {
					must(t, s.Maintain(ctx))
				}
				again, err := q.RequeueEnd(ctx, 1)
				must(t, err)
				want := first
				want.ID, want.Seq, want.Status, want.Requeues = 3, 4, queuefs.Pending, 1
				want.Submitted, want.Requeued, want.Attempts = again.Submitted, again.Submitted, 0
				want.Consumer, want.Consumed = "", want.Held
				want.Extra = again.Extra
				if got, err := q.Job(3); err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", again) || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
					t.Errorf("got %+v, %v\nand %+v\nwant %+v", got, err, again, want)
				}
				wantErr(t, errOf(q.RequeueEnd(ctx, 1)), queuefs.ErrConflict, "twice")
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

func inode(t testing.TB, dir string, id queuefs.JobID) uint64 {
	t.Helper()
	st, err := os.Stat(filepath.Join(dir, "queues/jobs/payload", id.String()))
	must(t, err)
	return st.Sys().(*syscall.Stat_t).Ino
}

// TestPayloadLostBeforeItGotItsName takes large payloads away that wait for
// their names: it is told, and nothing else is kept from its files.
func TestPayloadLostBeforeItGotItsName(t *testing.T) {
	dir := fastDir(t)
	var told []string
	o := queuefs.Options{Now: clock(), Report: func(p queuefs.Problem) { told = append(told, p.String()) }}
	s, q := openWith(t, dir, o, func(*queuefs.QueueInfo) {})
	submitN(t, q, 2, queuefs.Meta{}, strings.Repeat("x", 200<<10))
	waiting, err := filepath.Glob(filepath.Join(dir, "cutie-tmp", "cutie-tmp-*"))
	if err != nil || len(waiting) != 2 {
		t.Fatalf("%d payloads wait for their names, %v", len(waiting), err)
	}
	for _, name := range waiting {
		must(t, os.Remove(name))
	}
	submit(t, q, queuefs.Meta{}, strings.Repeat("y", 200<<10))
	must(t, s.Checkpoint(ctx))
	if len(told) != 2 || !strings.HasPrefix(told[0], "queues/jobs/payload/j000000000001: payload lost") {
		t.Errorf("told %q", told)
	}
	taken, err := q.Take(ctx, queuefs.Take{By: "w", Max: 9})
	if err != nil || !slices.Equal(idsOfTaken(taken), []queuefs.JobID{3}) {
		t.Errorf("got %v, %v", idsOfTaken(taken), err)
	}
	must(t, s.Close())
	r, err := check.Home(dir, check.Options{})
	if err != nil || len(r.Problems) != 2 {
		t.Errorf("check: %v, %v", r.Problems, err)
	}
}

// The digests of a submitter are compared with the payload as it comes in, whether or not
// the queue reads it again.
func TestDigestsOfSubmittersAreCompared(t *testing.T) {
	for _, verify := range []bool{false, true} {
		s, q := openWith(t, fastDir(t), queuefs.Options{}, func(i *queuefs.QueueInfo) { i.VerifyOnWrite = verify })
		for _, typ := range []digest.Type{digest.MD5, digest.SHA256} {
			sub := q.Begin()
			d, err := sub.Add(queuefs.Meta{Expect: []digest.Value{digest.Sum(typ, []byte("other"))}})
			must(t, err)
			must(t, errOf(d.Write([]byte("x"))))
			wantErr(t, errOf(sub.Commit(ctx)), queuefs.ErrDigest, "verify %v: %v", verify, typ)
			sub.Discard()
		}
		if n := q.State().Pending; n != 0 {
			t.Errorf("verify %v: %d jobs", verify, n)
		}
		closeHome(t, s)
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
	s, q := openWith(t, fastDir(t), queuefs.Options{Fault: fault}, func(i *queuefs.QueueInfo) { i.VerifyOnWrite = true })
	for range 3 {
		fails = 1
		submit(t, q, queuefs.Meta{}, "x")
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
				func(i *queuefs.QueueInfo) { i.VerifyOnWrite = verify })
			sub := q.Begin()
			d, err := sub.Add(queuefs.Meta{})
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
			if got, want := len(q.IDs(queuefs.ListOptions{Status: queuefs.Pending})), 1; verify && got != 0 || !verify && got != want {
				t.Errorf("%d, verify %v: %d jobs pending", size, verify, got)
			}
			if verify && size == 1000 && !errors.Is(err, queuefs.ErrFailed) {
				t.Errorf("%d: got %v, want the journal to fail", size, err)
			}
			s.Close()
		}
	}
}
