package queuefs

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"cutie/queuefs/anvl"
)

// The file of removed queues stays small, and no number is forgotten: what has
// to make room counts for every name.
func TestLinesOfFormerQueuesAreBounded(t *testing.T) {
	var r anvl.Record
	for n := range maxFormer + 50 {
		r = retired(r, fmt.Sprint("q", n), numbers{JobID(n + 1), Seq(3 * n)})
	}
	r = retired(r, "q49", numbers{7, 8}) // back, and removed again
	if len(r) != maxFormer+1 || lastOf(r, formerRest) != (numbers{51, 150}) || lastOf(r, "q49") != (numbers{7, 8}) ||
		lastOf(r, "q51") != (numbers{52, 153}) || lastOf(r, "q50") != (numbers{}) {
		t.Errorf("got %d lines, %d of the rest, %v … %v", len(r), lastOf(r, formerRest), r[:2], r[len(r)-2:])
	}
	if again, err := anvl.ParseRecord(anvl.AppendRecord(nil, r)); err != nil || len(again) != len(r) {
		t.Errorf("read back: %d lines, %v", len(again), err)
	}
}

// Opening a home writes the numbers of all queues that have gone at once, and
// none that are covered.
func TestNumbersOfManyQueuesAreWrittenOnce(t *testing.T) {
	dir := t.TempDir()
	if err := Init(dir, ServiceInfo{}); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	writes := 0
	s, err := Open(dir, Options{Fault: func(step string, do func() error) error {
		if step == "stage "+formerFile {
			writes++
		}
		return do()
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.formerFile().Write(anvl.AppendRecord(nil, retired(nil, formerRest, numbers{100, 100}))); err != nil {
		t.Fatal(err)
	}
	writes = 0
	for range 2 {
		if err := s.retire(map[string]numbers{"a": {5, 100}, "b": {200, 1}, "c": {1, 900}, "d": {}}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := s.readFormer()
	if err != nil || writes != 1 || len(r) != 3 || lastOf(r, "b") != (numbers{200, 1}) || lastOf(r, "c") != (numbers{1, 900}) {
		t.Errorf("got %v with %d writes, %v", r, writes, err)
	}
}
