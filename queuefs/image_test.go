package queuefs_test

import (
	"os"
	"path/filepath"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/objects/objectstest"
)

// An image and the journal since make the same home again, in an empty directory and on
// top of all kinds of changes.
func TestAHomeIsMadeAgainFromItsImage(t *testing.T) {
	m := new(objectstest.Memory)
	s := mustStored(t, fastDir(t)+"/a", m)
	workStored(t, s, "one")
	must(t, s.Image(ctx))
	want := see(t, s)
	b := mustStored(t, fastDir(t)+"/b", m)
	want.check(t, see(t, b))
	workStored(t, b, "two")
	must(t, b.Image(ctx))
	workStored(t, b, "three")
	_, err := b.SetQueue(ctx, "qone", func(i *queuefs.QueueInfo) error {
		i.Description = "set after the image"
		return nil
	})
	must(t, err)
	q, err := b.Queue("gonetwo")
	must(t, err)
	_, err = q.Delete(ctx, 2)
	must(t, err)
	cullQueue(t, b, q.ID())
	must(t, b.RemoveQueue(ctx, q.ID()))
	createQueue(t, b, queuefs.QueueInfo{Identifier: q.ID(), Description: "the third"})
	q, err = b.Queue("goneone")
	must(t, err)
	_, err = q.Delete(ctx, 2)
	must(t, err)
	cullQueue(t, b, q.ID())
	must(t, b.RemoveQueue(ctx, q.ID()))
	want = see(t, b)
	c := mustStored(t, fastDir(t)+"/c", m)
	want.check(t, see(t, c))
	must(t, c.Image(ctx))
	must(t, c.Image(ctx))
	workStored(t, c, "four")
	want = see(t, c)
	closeHome(t, c)
	dir := fastDir(t) + "/d"
	d := mustStored(t, dir, m)
	must(t, d.Bring(ctx))
	want.check(t, see(t, d))
	must(t, d.Checkpoint(ctx))
	if _, err := os.Stat(filepath.Join(dir, "cutie-absent")); err == nil {
		t.Error("pages are absent after all were brought")
	}
	closeHome(t, d)
}
