package queuefs_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"cutie/queuefs"
	"cutie/queuefs/durable"
	"cutie/queuefs/job"
	"cutie/queuefs/table"
)

const tableFile = "log/table"

// changeRow changes the octets of a row of the table of a home that is not open; nil takes the
// row away.
func changeRow(t testing.TB, dir string, k table.Kind, key string, change func([]byte) []byte) {
	t.Helper()
	db := sure(bbolt.Open(filepath.Join(dir, tableFile), 0o600, &bbolt.Options{Timeout: time.Second}))(t)
	err := db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(k))
		if b == nil || b.Get([]byte(key)) == nil {
			return fmt.Errorf("no row %s %q", k, key)
		}
		now := change(append([]byte{}, b.Get([]byte(key))...))
		if now == nil {
			return b.Delete([]byte(key))
		}
		return b.Put([]byte(key), now)
	})
	must(t, errors.Join(err, db.Close()))
}

// moveRow gives a row of the table of a home that is not open another key.
func moveRow(t testing.TB, dir string, k table.Kind, key, to string) {
	t.Helper()
	db := sure(bbolt.Open(filepath.Join(dir, tableFile), 0o600, &bbolt.Options{Timeout: time.Second}))(t)
	err := db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(k))
		return errors.Join(b.Put([]byte(to), slices.Clone(b.Get([]byte(key)))), b.Delete([]byte(key)))
	})
	must(t, errors.Join(err, db.Close()))
}

// loseRow takes a row away.
func loseRow(t testing.TB, dir string, k table.Kind, key string) {
	t.Helper()
	changeRow(t, dir, k, key, func([]byte) []byte { return nil })
}

// contents returns the rows of a kind, of a home that may be open.
func contents(t testing.TB, dir string, k table.Kind) map[string]string {
	t.Helper()
	all := map[string]string{}
	file := filepath.Join(t.TempDir(), "table")
	must(t, os.WriteFile(file, sure(os.ReadFile(filepath.Join(dir, tableFile)))(t), 0o600))
	db := sure(bbolt.Open(file, 0o600, &bbolt.Options{Timeout: time.Second}))(t)
	must(t, db.View(func(tx *bbolt.Tx) error {
		if b := tx.Bucket([]byte(k)); b != nil {
			return b.ForEach(func(key, value []byte) error { all[string(key)] = string(value); return nil })
		}
		return nil
	}))
	must(t, db.Close())
	return all
}

// rows returns the keys of a kind, in order.
func rows(t testing.TB, dir string, k table.Kind) []string {
	t.Helper()
	return slices.Sorted(maps.Keys(contents(t, dir, k)))
}

// A table put back from an older copy of the home is not believed once the journal between has
// been released; without it all jobs are there.
func TestOlderTable(t *testing.T) {
	payload := strings.Repeat("x", 2000)
	for _, crash := range []bool{false, true} {
		dir := fastDir(t)
		o := queuefs.Options{Segment: smallSegment}
		s, q := openHome(t, dir, o)
		newFollower(t).follow(s) // else the journal stays for one
		var older []byte
		const rounds, some = 6, 40
		for n := range rounds {
			submitN(t, q, some, job.Meta{}, payload)
			must(t, s.Checkpoint(ctx))
			if n == 0 {
				older = sure(os.ReadFile(filepath.Join(dir, tableFile)))(t)
			}
		}
		if crash {
			submitN(t, q, some, job.Meta{}, payload)
		}
		want := q.Seq()
		broken := copyHome(t, dir)
		closeHome(t, s)
		if !crash {
			broken = dir
		}
		must(t, os.WriteFile(filepath.Join(broken, tableFile), older, 0o600))
		if _, err := queuefs.Open(broken, o); err == nil || !strings.Contains(err.Error(), "move it away") {
			t.Fatalf("crash %v: an older table: %v", crash, err)
		}
		var told []string
		look := queuefs.Options{Segment: smallSegment, Look: true, Report: func(p durable.Finding) { told = append(told, p.String()) }}
		closeHome(t, sure(queuefs.Open(broken, look))(t))
		if len(told) == 0 || !strings.Contains(told[0], "move it away") {
			t.Errorf("crash %v: a look at an older table: %q", crash, told)
		}
		must(t, os.Remove(filepath.Join(broken, tableFile)))
		s = openBare(t, broken, o)
		if q := sure(s.Queue("jobs"))(t); q.Seq() < want || q.State().Pending != int64(want) {
			t.Errorf("crash %v: %d jobs pending, event %d, want %d", crash, q.State().Pending, q.Seq(), want)
		}
		closeHome(t, s)
	}
}
