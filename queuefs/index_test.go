package queuefs_test

import (
	"testing"

	"cutie/queuefs/catalog"
	"cutie/queuefs/durable"
)

// loseIndex takes a small queue out of the index.
func loseIndex(t testing.TB, dir, queue string) {
	t.Helper()
	d, err := durable.OpenDir(dir+"/log/index", nil)
	must(t, err)
	defer d.Close()
	f, _, err := catalog.Open(d, "small", "index of small queues", 0)
	must(t, err)
	defer f.Close()
	if !f.Has(queue) {
		t.Fatalf("queue %s is not in the index", queue)
	}
	must(t, f.Append(catalog.Entry{Name: queue}))
}
