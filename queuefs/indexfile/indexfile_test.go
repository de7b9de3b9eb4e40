package indexfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"cutie/queuefs/anvl"
	"cutie/queuefs/durable"
	"cutie/queuefs/index"
	"cutie/queuefs/indexfile"
	"cutie/queuefs/job"
)

func golden(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func openDir(t *testing.T) *durable.Dir {
	t.Helper()
	dir, err := durable.OpenDir(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	return dir
}

// TestQueueKeepsItsForm compares the file of a queue with golden ones.
func TestQueueKeepsItsForm(t *testing.T) {
	full := indexfile.Queue{Last: index.Numbers{Job: 5, Seq: 9, Time: 1e15}, Submitted: 11, Consumed: 12, Created: 13, Types: []string{"", "text/plain"},
		Pages: 3, At: 21, Dirs: [4]int64{1, 2, 3, 4}, Since: 22, Before: 23, Settings: []byte("a: b\n\n# c\n"), Bare: true, Empty: true}
	for i := range full.Info {
		full.Info[i] = byte(i)
	}
	for name, want := range map[string]indexfile.Queue{"queue": full, "queue-least": {Types: []string{""}}, "queue-mirror": {Types: []string{""}, Mirror: true}} {
		text := golden(t, name)
		if got := want.Text(); string(got) != string(text) {
			t.Errorf("%s: got %s\nwant %s", name, got, text)
		}
		if got, err := indexfile.ParseQueue(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v\nwant %+v", name, got, err, want)
		}
		dir := openDir(t)
		if _, err := indexfile.ReadQueue(dir, "jobs"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: no file: got %v", name, err)
		}
		if err := indexfile.QueueIn(dir, "jobs").Write(want.Text()); err != nil {
			t.Fatal(err)
		}
		if got, err := indexfile.ReadQueue(dir, "jobs"); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: read %+v, %v", name, got, err)
		}
		if err := indexfile.QueueIn(dir, "jobs").Write([]byte("type: x\n")); err != nil {
			t.Fatal(err)
		}
		if _, err := indexfile.ReadQueue(dir, "jobs"); !errors.Is(err, durable.ErrDamaged) {
			t.Errorf("%s: bad types: got %v", name, err)
		}
	}
	for _, bad := range []string{"", "job: x\ntype:\n", "type: a\n", "info: 00\ntype:\n", "no colon\n"} {
		if got, err := indexfile.ParseQueue([]byte(bad)); err == nil {
			t.Errorf("%q: got %+v", bad, got)
		}
	}
}

func TestCheckpointKeepsItsForm(t *testing.T) {
	want := indexfile.Checkpoint{Past: 7, Keep: 5, Clean: true}
	text := golden(t, "checkpoint")
	if got := want.Text(); string(got) != string(text) {
		t.Errorf("got %s\nwant %s", got, text)
	}
	for in, want := range map[string]indexfile.Checkpoint{
		string(text): want,
		"lsn: 7\nkeep: 0\nclean: false\nformat: 1\nmore: x\n":                 {Past: 7},
		"lsn: 7\nkeep: 5\nclean: false\nstopped: true\nsmall: 9\nformat: 1\n": {Past: 7, Keep: 5, Stopped: true, Small: 9},
	} {
		r, err := anvl.ParseRecord([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := indexfile.ParseCheckpoint(r); err != nil || got != want {
			t.Errorf("%q: got %+v, %v, want %+v", in, got, err, want)
		}
	}
	if _, err := indexfile.ParseCheckpoint(anvl.Record{{Name: "lsn", Value: "many"}, {Name: "format", Value: "1"}}); err == nil {
		t.Error("a bad number is read")
	}
	for _, in := range []string{"lsn: 7\nkeep: 0\nclean: false\n", "lsn: 7\nkeep: 0\nclean: false\nformat: 2\n"} {
		r, err := anvl.ParseRecord([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := indexfile.ParseCheckpoint(r); !errors.Is(err, indexfile.ErrFormat) {
			t.Errorf("%q: got %v", in, err)
		}
	}
	for c, want := range map[indexfile.Checkpoint]uint64{{Past: 7, Keep: 5}: 5, {Past: 7}: 7, {Past: 7, Keep: 9}: 7} {
		if got := c.From(); uint64(got) != want {
			t.Errorf("%+v: from %d, want %d", c, got, want)
		}
	}
}

func TestNumbersOfADamagedQueueFile(t *testing.T) {
	for text, want := range map[string]index.Numbers{
		"job: 7\nsequence: 9\ntype:\ncrc: 99999999\n": {Job: 7, Seq: 9},
		"job: 999999999999\nsequence: 9\n":            {Seq: 9},
		"no colon\njob: 8":                            {Job: 8},
	} {
		if got := indexfile.Salvage([]byte(text)); got != want {
			t.Errorf("%q: got %+v, want %+v", text, got, want)
		}
	}
}

func TestPageNames(t *testing.T) {
	for _, n := range []int{0, 1, 99_999} {
		if got, ok := indexfile.ParsePageName(index.PageName(n)); got != n || !ok {
			t.Errorf("got %d, %v, want %d", got, ok, n)
		}
	}
	for _, bad := range []string{"", "queue", "culled", "p1", "p00000000x", "q000000001", "p-00000001"} {
		if n, ok := indexfile.ParsePageName(bad); ok {
			t.Errorf("%q: got %d", bad, n)
		}
	}
}

// at is the time of a tombstone.
func at(n int) time.Time { return time.UnixMicro(int64(n) * 1e6) }

func stones(from, to int) (list []index.Tombstone) {
	for n := from; n < to; n++ {
		list = append(list, index.Tombstone{Job: job.ID(n), Seq: job.Seq(n), Culled: at(n).UnixMicro()})
	}
	return list
}

func TestTombstonesReadAsWritten(t *testing.T) {
	dir := openDir(t)
	var f indexfile.Tombstones
	if last, err := f.Load(dir); last != 0 || err != nil {
		t.Fatalf("no file: got %d, %v", last, err)
	}
	for _, part := range [][2]int{{1, 11}, {11, 31}} {
		if err := f.Append(dir, stones(part[0], part[1])); err != nil {
			t.Fatal(err)
		}
	}
	read := func(f *indexfile.Tombstones, since, limit int, want []index.Tombstone) {
		t.Helper()
		if got, err := f.Read(dir, at(since), limit); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("after %d: got %v, %v, want %v", since, got, err, want)
		}
	}
	read(&f, 0, 100, stones(1, 31))
	read(&f, 9, 5, stones(10, 15))
	read(&f, 30, 5, nil)

	// A torn end is left out, and the next ones take its place.
	name := filepath.Join(dir.Path(), indexfile.TombstonesName)
	if err := os.Truncate(name, 29*index.TombstoneSize+7); err != nil {
		t.Fatal(err)
	}
	var again indexfile.Tombstones
	if last, err := again.Load(dir); last != 29 || err != nil {
		t.Fatalf("torn: got %d, %v", last, err)
	}
	if err := again.Append(dir, stones(30, 33)); err != nil {
		t.Fatal(err)
	}
	read(&again, 0, 100, stones(1, 33))
}

func TestOldTombstonesArePruned(t *testing.T) {
	dir := openDir(t)
	var f indexfile.Tombstones
	const n = 3 * indexfile.TombstoneBatch
	for from := 1; from <= n; from += indexfile.TombstoneBatch {
		if err := f.Append(dir, stones(from, from+indexfile.TombstoneBatch)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Prune(dir, at(n-10)); err != nil {
		t.Fatal(err)
	}
	if got, err := f.Read(dir, at(0), n); err != nil || !reflect.DeepEqual(got, stones(n-9, n+1)) {
		t.Errorf("got %d tombstones, %v", len(got), err)
	}
	var again indexfile.Tombstones
	if last, err := again.Load(dir); last != n || err != nil {
		t.Errorf("loaded up to %d, %v", last, err)
	}
}

func TestTheStampOfSettingsIsKept(t *testing.T) {
	for _, x := range []indexfile.Queue{
		{Types: []string{""}, Settings: []byte("a: b\n"), Stamp: "1-2-3-4"},
		{Types: []string{""}, Settings: []byte("a: b\n")},
	} {
		got, err := indexfile.ParseQueue(x.Text())
		if err != nil || got.Stamp != x.Stamp || string(got.Settings) != "a: b\n" {
			t.Errorf("got %+v, %v", got, err)
		}
	}
}
