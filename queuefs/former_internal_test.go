package queuefs

import (
	"fmt"
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
	if again, err := unseal(sealed(r)); err != nil || len(again) != len(r) {
		t.Errorf("read back: %d lines, %v", len(again), err)
	}
}
