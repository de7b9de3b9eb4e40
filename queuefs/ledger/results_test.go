package ledger_test

import (
	"reflect"
	"testing"

	"cutie/queuefs/ledger"
)

// TestBacklogOfResultsGoesOnMeanwhile has results come and go while earlier ones are
// written.
func TestBacklogOfResultsGoesOnMeanwhile(t *testing.T) {
	one, two, three := ledger.Placed{Temp: "t1", Name: "a"}, ledger.Placed{Temp: "t2", Name: "b"}, ledger.Placed{Temp: "t3", Name: "a"}
	var b ledger.ResultBacklog
	b.Add(one)
	was := b
	b.Add(two)
	if !b.Done(was) || b.Work().Wipe || !reflect.DeepEqual(b.Placed(), []ledger.Placed{two}) || len(b.Work().Drop) > 0 {
		t.Errorf("after the first: %+v", b.Work())
	}
	was = b
	b.Wipe()
	b.Add(three)
	if !b.Done(was) {
		t.Error("nothing left after a wipe")
	}
	if w := b.Work(); !w.Wipe || !reflect.DeepEqual(w.Place, []ledger.Placed{three}) || !reflect.DeepEqual(w.Drop, []string{"t2"}) {
		t.Errorf("after a wipe: %+v", w)
	}
	was = b
	if b.Done(was) || len(b.Placed()) > 0 {
		t.Errorf("in the end: %+v", b.Work())
	}
}
