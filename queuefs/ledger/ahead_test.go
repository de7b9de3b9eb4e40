package ledger_test

import (
	"bytes"
	"fmt"
	"iter"
	"testing"

	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/ledger"
	"cutie/queuefs/record"
)

// A counted journal counts reads of single records, and those of many.
type counted struct {
	memory
	single, many int
}

func (c *counted) ReadAt(p []byte, at journal.LSN, off int) (int, error) {
	c.single++
	return c.memory.ReadAt(p, at, off)
}

func (c *counted) Read(from journal.LSN) iter.Seq2[journal.Record, error] {
	c.many++
	return func(yield func(journal.Record, error) bool) {
		var lent []byte // as the contract of Read has it
		for r := range c.memory.Read(0) {
			lent = append(lent[:0], r.Data...)
			if r.LSN >= from && !yield(journal.Record{LSN: r.LSN, Data: lent}, nil) {
				return
			}
			clear(lent)
		}
	}
}

func (c *counted) Stats() journal.Stats { return journal.Stats{Next: journal.LSN(len(c.records) + 1)} }

func openCounted(t *testing.T) (*ledger.Ledger, *counted) {
	l, shared, _ := open(t)
	c := &counted{}
	shared.Journal = c
	return l, c
}

// payloadOf is a payload of the size that no other job has.
func payloadOf(id job.ID, size int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%08d", id), size/8)
}

// submitMany submits n jobs with payloads of the size.
func submitMany(t *testing.T, l *ledger.Ledger, n, size int) {
	t.Helper()
	for range n {
		err := l.Commit(func(b *ledger.Batch) error {
			id, _ := b.Index().MintJob()
			seq, us := b.Next()
			r := &record.Record{Kind: job.Submit, To: job.Pending, Flags: record.Inline, Seq: seq, Time: us, Job: id,
				Payload: record.Payload{Size: int64(size), Submitted: us, Data: payloadOf(id, size)}}
			r.SetText([]byte("identifier: " + id.String() + "\n"))
			b.Add(r)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Jobs read in order have what they had, whether few or many readers are on their way,
// and take few reads of the journal if they are small.
func TestRecordsAreReadAhead(t *testing.T) {
	for _, tt := range []struct {
		name         string
		jobs, size   int
		step         int // from job to job
		single, many int // reads of the journal, at most
	}{
		{"small", 1000, 1024, 1, 20, 10},
		{"every third", 1000, 1024, 3, 20, 20},
		{"large", 200, 64 << 10, 1, 200, 10},
		{"few", 10, 1024, 1, 10, 0},
		{"far apart", 1000, 1024, 100, 10, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, c := openCounted(t)
			submitMany(t, l, tt.jobs, tt.size)
			c.single, c.many = 0, 0
			for id := job.ID(1); int(id) <= tt.jobs; id += job.ID(tt.step) {
				v, ok := l.View(id)
				if !ok {
					t.Fatalf("no %v", id)
				}
				text, payload, err := l.Parts(&v, true)
				if err != nil || string(text) != "identifier: "+id.String()+"\n" || !bytes.Equal(payload, payloadOf(id, tt.size)) {
					t.Fatalf("%v: got %q, %d bytes, %v", id, text, len(payload), err)
				}
			}
			if c.single > tt.single || c.many > tt.many {
				t.Errorf("%d and %d reads, want %d and %d at most", c.single, c.many, tt.single, tt.many)
			}
		})
	}
}

// Readers at several places of the journal do not take each other's records.
func TestReadersAtOtherPlaces(t *testing.T) {
	l, _ := openCounted(t)
	const jobs = 3000
	submitMany(t, l, jobs, 512)
	for i := range jobs / 6 {
		for reader := range 6 { // more than there are streams
			id := job.ID(1 + reader*jobs/6 + i)
			v, _ := l.View(id)
			if _, payload, err := l.Parts(&v, true); err != nil || !bytes.Equal(payload, payloadOf(id, 512)) {
				t.Fatalf("%v: got %.20q, %v", id, payload, err)
			}
		}
	}
	events, err := l.Events(0, jobs)
	if err != nil || len(events) != jobs {
		t.Fatalf("got %d events, %v", len(events), err)
	}
	for i, e := range events {
		if e.Seq != job.Seq(i+1) || e.Job != job.ID(i+1) || e.Payload.Length != 512 {
			t.Fatalf("event %d is %+v", i+1, e)
		}
	}
}
