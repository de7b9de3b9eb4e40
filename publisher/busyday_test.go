package publisher_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"cutie/publisher"
	"cutie/queuefs"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/sitemap"
	"cutie/testdata/long"
)

// TestABusyDay scripts a day of a queue in each version: jobs come, are taken,
// put back, held, described anew, deleted and culled, the properties of the
// queue change, Resource Dumps are made, and the process is killed twice. Every
// document there was is valid; replaying the lists, replaying the dumps, and the
// directory are the same. CUTIE_BUSY_EVENTS says how many events a day has at least, by
// default 1400 or, in a dialect of before, 900; and 3000 if tests are to be long.
func TestABusyDay(t *testing.T) {
	for d, events := range map[sitemap.Dialect]int{sitemap.V11: long.N(1000, 3000), sitemap.V10: long.N(600, 3000), sitemap.V09: long.N(600, 3000)} {
		if n, err := strconv.Atoi(os.Getenv("CUTIE_BUSY_EVENTS")); err == nil {
			events = n
		}
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			v := newValidator(t)
			v.older = d != sitemap.V11
			now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
			clock := func() time.Time { now = now.Add(time.Millisecond); return now }
			s := newSource(t, publisher.Options{Dialect: d, MaxEntries: max(long.N(200, 400), events/12), Retention: publisher.Retention{Current: 8 * time.Hour},
				Mirrors: []string{"https://mirror.test/"}, Via: "https://first.test", Now: clock}, "jobs")
			day := &busyDay{source: s, v: v, rand: rand.New(rand.NewPCG(uint64(d), 7)), seen: map[[32]byte]bool{}, kinds: map[string]int{}}
			lists := map[string]*mirror{}
			for _, set := range []string{"pending", "replica"} {
				lists[set] = newMirror(s, "jobs", set)
				lists[set].baseline()
			}
			const parts = 6
			for part := 1; part <= parts; part++ {
				day.until(job.Seq(events * part / parts))
				if part == 2 || part == 4 {
					s.crash()
				}
				if part%2 == 0 {
					s.settleFully()
					day.culled += cull(s, s.queue("jobs"))
				}
				day.look()
				for _, m := range lists {
					m.incremental(nil)
					m.compare(s.queue("jobs"))
				}
				now = now.Add(3 * time.Hour)
			}
			day.until(s.queue("jobs").Seq() + 20) // the last dump is not of now
			day.look()
			v.check()
			q := s.queue("jobs")
			for _, set := range []string{"pending", "replica"} {
				day.replayDumps(set).compare(q)
				day.replayResourceDump(set).compare(q)
				lists[set].incremental(nil)
				lists[set].compare(q)
			}
			if len(s.problems) > 0 {
				t.Errorf("problems: %.2000q", s.problems)
			}
			if day.culled == 0 || len(day.kinds) < 12 {
				t.Errorf("%d jobs culled, documents of %v", day.culled, day.kinds)
			}
			t.Logf("%d events, %d documents of %d kinds valid, %d jobs culled", q.Seq(), len(day.seen), len(day.kinds), day.culled)
		})
	}
}

type busyDay struct {
	*source
	v      *validator
	rand   *rand.Rand
	seen   map[[32]byte]bool // documents, by digest
	kinds  map[string]int    // of them
	culled int
}

// until works until there was an event.
func (d *busyDay) until(seq job.Seq) {
	d.Helper()
	ctx, q := context.Background(), d.queue("jobs")
	any := func(st job.Status) (id job.ID) {
		if ids := q.IDs(index.Filter{Status: st, Limit: 200}); len(ids) > 0 {
			id = ids[d.rand.IntN(len(ids))]
		}
		return id
	}
	for q.Seq() < seq {
		switch d.rand.IntN(12) {
		case 0, 1, 2:
			d.submitN(q, 1+d.rand.IntN(60))
		case 3, 4:
			d.consume(q, min(1+d.rand.IntN(50), int(q.State().Pending-q.State().Held)))
		case 5:
			if id := any(job.Consumed); id != 0 {
				d.requeue(q, id)
			}
		case 6:
			if id := any(job.Pending); id != 0 {
				d.remove(q, id)
			}
		case 7:
			if id := any(job.Pending); id != 0 {
				_, err := q.Hold(ctx, id, "looks odd")
				must(d, err)
				_, err = q.Release(ctx, id)
				must(d, err)
			}
		case 8:
			if taken, err := q.Take(ctx, queuefs.Take{By: "worker", Max: 3, Lease: time.Hour}); err == nil {
				for _, j := range taken {
					_, err := q.Conclude(ctx, j.ID, j.Token, job.Conclusion{Outcome: job.Completed, Message: "done & <well>"})
					must(d, err)
				}
			}
		case 9:
			must(d, d.pub.Tick(ctx))
		case 10:
			if id := any(job.Pending); id != 0 {
				name, note := fmt.Sprintf("after %d & <more>.txt", q.Seq()), strings.Repeat("a line\n", d.rand.IntN(30))
				_, err := q.Describe(ctx, id, queuefs.Description{Filename: &name, Sidecar: &note})
				must(d, err)
			}
		case 11:
			_, err := d.svc.SetQueue(ctx, "jobs", func(i *home.QueueInfo) error {
				i.Description = fmt.Sprintf("as of event %d", q.Seq())
				return nil
			})
			must(d, err)
		}
	}
}

// look takes every document that is published now, manifests in packages too.
func (d *busyDay) look() {
	d.Helper()
	take := func(doc document) {
		sum := sha256.Sum256(doc.octets)
		if d.seen[sum] {
			return
		}
		d.seen[sum] = true
		d.kinds[string(doc.head.Capability)+" "+doc.root.String()]++
		d.v.add(doc)
	}
	take(d.document(base + "/.well-known/resourcesync"))
	for _, set := range []string{"pending", "replica"} {
		for url, doc := range everything(d.source, set) {
			if strings.HasSuffix(url, ".zip") {
				doc, _ = openPackage(&mirror{source: d.source}, doc.octets)
			}
			take(doc)
		}
	}
}

// replayDumps applies all packages of changes there ever were, and the changes
// that are in none yet.
func (d *busyDay) replayDumps(set string) *mirror {
	d.Helper()
	m := newMirror(d.source, "jobs", set)
	m.since = d.queue("jobs").Info().Created
	var packages []string
	for _, e := range m.archived(sitemap.ChangeDumpArchive) {
		packages = append(packages, locs(d.document(e.Loc).entries)...)
	}
	packages = append(packages, locs(m.capability(sitemap.ChangeDump).entries)...)
	if len(packages) < 4 {
		d.Errorf("%d packages", len(packages))
	}
	for _, url := range packages {
		manifest, z := openPackage(m, m.body(url))
		if !manifest.head.From.Equal(m.since) {
			d.Errorf("%s is of changes from %v, those before end at %v", url, manifest.head.From, m.since)
		}
		for _, c := range manifest.entries {
			m.apply(&c, z[strings.TrimPrefix(c.Path, "/")])
		}
		m.since = manifest.head.Until
	}
	m.incremental(nil)
	return m
}

// replayResourceDump begins with the Resource Dump.
func (d *busyDay) replayResourceDump(set string) *mirror {
	d.Helper()
	m := newMirror(d.source, "jobs", set)
	dump := m.capability(sitemap.ResourceDump)
	m.since = dump.head.At
	for _, e := range dump.entries {
		manifest, z := openPackage(m, m.body(e.Loc))
		for _, r := range manifest.entries {
			contents := z[strings.TrimPrefix(r.Path, "/")]
			check(m, &r, contents)
			m.files[r.Loc] = contents
		}
	}
	m.incremental(nil)
	return m
}

// In a burst of five minutes a Resource Dump is made when it is due, every minute, and lists go
// when they are a minute old.
func TestABurstStarvesNeitherDumpsNorRetention(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := newSource(t, publisher.Options{MaxEntries: 6, DumpPeriod: time.Minute, Retention: publisher.Retention{Keep: time.Minute},
		Now: func() time.Time { return now }}, "jobs")
	for range 60 {
		now = now.Add(5 * time.Second)
		s.submitN(s.queue("jobs"), 13)
		s.settle()
	}
	m := newMirror(s, "jobs", "pending")
	if d := m.dump(); now.Sub(d.head.At) > 2*time.Minute {
		t.Errorf("the Resource Dump is %v old, with one due every minute", now.Sub(d.head.At))
	}
	if n := len(m.capability(sitemap.ChangeDump).entries); n > 80 {
		t.Errorf("%d packages are kept, of 5 minutes instead of one", n)
	}
}
