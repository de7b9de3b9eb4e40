package queuefs_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.etcd.io/bbolt"

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
