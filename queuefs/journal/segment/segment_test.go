package segment_test

import (
	"testing"

	"cutie/queuefs/durable"
	"cutie/queuefs/journal"
	"cutie/queuefs/journal/journaltest"
	"cutie/queuefs/journal/segment"
)

func TestLogIsAJournal(t *testing.T) {
	journaltest.Run(t, func(t *testing.T) journaltest.Open {
		d, err := durable.OpenDir(tempDir(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		return func(from journal.LSN) (journal.Journal, error) {
			return segment.Open(d, segment.Options{From: from, Size: small})
		}
	})
}
