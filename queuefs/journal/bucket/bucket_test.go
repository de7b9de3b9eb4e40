package bucket_test

import (
	"context"
	"testing"

	"cutie/queuefs/durable"
	"cutie/queuefs/journal"
	"cutie/queuefs/journal/bucket"
	"cutie/queuefs/journal/journaltest"
	"cutie/queuefs/objects"
	"cutie/queuefs/objects/objectstest"
)

func open(s objects.Store, o bucket.Options) (*bucket.Log, error) {
	return bucket.Open(context.Background(), s, o)
}

func TestLogIsAJournalInARealStore(t *testing.T) {
	store := realStore(t)
	journaltest.Run(t, func(*testing.T) journaltest.Open {
		s := store()
		return func(journal.LSN) (journal.Journal, error) { return open(s, bucket.Options{}) }
	})
}

func TestLogIsAJournal(t *testing.T) {
	for _, c := range []struct {
		name string
		most int64 // bytes of temporary files
	}{{"ByStore", 0}, {"BySmallFiles", 64 << 10}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			journaltest.Run(t, func(t *testing.T) journaltest.Open {
				m := new(objectstest.Memory)
				o := bucket.Options{Most: c.most}
				if c.most > 0 {
					d, err := durable.OpenDir(t.TempDir(), nil)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { d.Close() })
					o.Temp = d
				}
				return func(journal.LSN) (journal.Journal, error) { return open(m, o) }
			})
		})
	}
}
