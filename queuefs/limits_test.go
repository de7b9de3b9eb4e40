package queuefs_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/check"
)

// TestSidecars keeps the largest sidecars, which escaping makes three times as
// large, through journal, files, stop and rebuilding.
func TestSidecars(t *testing.T) {
	const size = 8 << 20
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Segment: size})
	sidecars := []string{
		strings.Repeat("\n", queuefs.MaxSidecar),
		strings.Repeat("%", queuefs.MaxSidecar),
		strings.Repeat("ü", queuefs.MaxSidecar/2),
		strings.Repeat("\x00\xff", queuefs.MaxSidecar/2), "\x7f", "a\uffff",
		" leading and trailing \t",
		"# no comment\nstatus: deleted\n\nidentifier: j000000000099\n",
		"\ufeffmark\r\nline\rline\u0085\u2028",
		"%0A%%",
	}
	for _, sc := range sidecars {
		submit(t, q, queuefs.Meta{Sidecar: sc}, "x")
	}
	inspect := func() {
		t.Helper()
		for i, want := range sidecars {
			if j, err := q.Job(queuefs.JobID(i + 1)); err != nil || j.Sidecar != want || j.Status != queuefs.Pending {
				t.Errorf("sidecar %d: got %d octets %.40q, %v, %v", i, len(j.Sidecar), j.Sidecar, j.Status, err)
			}
		}
	}
	inspect()
	if err := s.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	inspect()
	closeHome(t, s)
	if r, err := check.Home(dir, check.Options{Rebuild: true, Segment: size}); err != nil || len(r.Problems) > 0 {
		t.Errorf("rebuild: %v, %+v", err, r)
	}
	s, q = openHome(t, dir, queuefs.Options{Segment: size})
	defer closeHome(t, s)
	inspect()
}

func TestWhatASubmitterMaySay(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	defer closeHome(t, s)
	long := strings.Repeat("l", 1025)
	for name, c := range map[string]struct {
		m    queuefs.Meta
		want error
	}{
		"long sidecar":          {queuefs.Meta{Sidecar: strings.Repeat("s", queuefs.MaxSidecar+1)}, queuefs.ErrTooBig},
		"long file name":        {queuefs.Meta{Filename: long}, queuefs.ErrTooBig},
		"long media type":       {queuefs.Meta{MediaType: long}, queuefs.ErrTooBig},
		"long submitter":        {queuefs.Meta{Submitter: long}, queuefs.ErrTooBig},
		"long batch":            {queuefs.Meta{Batch: long}, queuefs.ErrTooBig},
		"path before file name": {queuefs.Meta{Filename: long + "/" + long[1:]}, nil},
	} {
		sub := q.Begin()
		_, err := sub.Add(c.m)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: got %v want %v", name, err, c.want)
		}
		d, err := sub.Add(queuefs.Meta{})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.SetMeta(c.m); !errors.Is(err, c.want) {
			t.Errorf("%s, later: got %v want %v", name, err, c.want)
		}
		sub.Discard()
	}
	for in, want := range map[string]string{
		"../../etc/passwd": "passwd", `C:\dir\a.txt`: "a.txt", "a\r\nb: c": "a\ufffd\ufffdb: c", "\xffx": "\ufffdx", "ends/": "", "näme": "näme",
	} {
		j := submit(t, q, queuefs.Meta{Filename: in}, "")
		if got, err := q.Job(j.ID); err != nil || got.Filename != want || j.Filename != want {
			t.Errorf("%q: got %q and %q, %v want %q", in, j.Filename, got.Filename, err, want)
		}
	}
	if _, err := q.Begin().Commit(ctx); err == nil {
		t.Error("a submission without jobs was taken")
	}
}

// TestTooMuchForOneSubmission asks for more than one record group may have:
// the error says so, and nothing is stored.
func TestTooMuchForOneSubmission(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	defer closeHome(t, s)
	for name, m := range map[string]struct {
		meta queuefs.Meta
		jobs int
	}{
		"many jobs":          {queuefs.Meta{}, 1000},
		"sidecars":           {queuefs.Meta{Sidecar: strings.Repeat("s", 60_000)}, 10},
		"sidecars that grow": {queuefs.Meta{Sidecar: strings.Repeat("\n", 60_000)}, 5},
		"labels that grow":   {queuefs.Meta{Filename: strings.Repeat("%", 1000), Batch: strings.Repeat("%", 1000), Submitter: strings.Repeat("%", 1000)}, 100},
	} {
		sub := q.Begin()
		var err error
		for range m.jobs {
			if _, err = sub.Add(m.meta); err != nil {
				break
			}
		}
		if err == nil {
			_, err = sub.Commit(ctx)
		}
		if !errors.Is(err, queuefs.ErrTooBig) {
			t.Errorf("%s: got %v", name, err)
		}
		sub.Discard()
	}
	if st := q.State(); st.Seq != 0 {
		t.Errorf("got %+v", st)
	}
	if j := submit(t, q, queuefs.Meta{}, "x"); j.ID != 1 {
		t.Errorf("got %v", j.ID)
	}
}

// TestTakeManyLargeJobs takes jobs whose job files together are more than one
// record group may have: it gets some of them, in order, and loses none.
func TestTakeManyLargeJobs(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	defer closeHome(t, s)
	const n = 20
	for range n {
		submit(t, q, queuefs.Meta{Sidecar: strings.Repeat("s", 100_000)}, "x")
	}
	var got []queuefs.JobID
	for range n {
		jobs, err := q.NextN(ctx, "w", n)
		if errors.Is(err, queuefs.ErrEmpty) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, idsOf(jobs)...)
	}
	if len(got) != n || got[0] != 1 || got[n-1] != n {
		t.Errorf("got %v", got)
	}
}

// TestEventsOfLongNames reads events whose records have the longest names.
func TestEventsOfLongNames(t *testing.T) {
	s, err := openQueue(t, strings.Repeat("q", 200))
	if err != nil {
		t.Fatal(err)
	}
	defer closeHome(t, s)
	q := s.Queues()[1]
	types := []string{strings.Repeat("m", 1024), strings.Repeat("a\xff", 512), strings.Repeat("\xff\xfe", 512), "text/plain"}
	n := 0
	for i := range 200 {
		sub := q.Begin()
		d, err := sub.Add(queuefs.Meta{MediaType: types[i%len(types)]})
		if errors.Is(err, queuefs.ErrTooBig) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(d, strings.Repeat("x", i))
		if _, err := sub.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		n++
	}
	events, err := q.Events(0, 1000)
	if err != nil || len(events) != n {
		t.Errorf("got %d events of %d, %v", len(events), n, err)
	}
	for i, e := range events {
		if j, err := q.Job(e.Job); err != nil || j.Type() != e.Payload.Type || j.Size != e.Payload.Length || e.Seq != queuefs.Seq(i+1) {
			t.Errorf("event %d: got %+v, %v", i, e.Payload, err)
		}
	}
}

// openQueue opens a fresh home with a second queue.
func openQueue(t *testing.T, id string) (*queuefs.Service, error) {
	t.Helper()
	s, _ := openHome(t, fastDir(t), queuefs.Options{})
	_, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: id})
	return s, err
}
