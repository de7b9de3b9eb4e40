package state_test

import (
	"reflect"
	"testing"

	"cutie/queuefs/state"
	"cutie/queuefs/state/statetest"
)

func FuzzDecodeANVL(f *testing.F) { fuzzDecode(f, state.ANVL) }
func FuzzDecodeJSON(f *testing.F) { fuzzDecode(f, state.JSON) }

// fuzzDecode holds a form to this: what it reads, all forms write and read back
// the same.
func fuzzDecode(f *testing.F, form state.Form) {
	for _, d := range documents() {
		f.Add(form.Append(nil, &d))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, c := range classes {
			d, err := statetest.Read(form, c, data)
			if err != nil {
				continue
			}
			switch c {
			case state.JobClass:
				d.Job()
			case state.QueueClass:
				d.Queue()
			case state.BatchClass:
				d.Batch()
			case state.ServiceClass:
				d.Service()
			case state.ExceptionClass:
				d.Exception()
			}
			for _, other := range forms {
				if other == state.Turtle {
					continue // read by another process, hence slow
				}
				text := other.Append(nil, &d)
				again, err := statetest.Read(other, c, text)
				if err != nil {
					t.Fatalf("%s written as %s: %v\n%s", form, other, err, text)
				}
				if !reflect.DeepEqual(again, d) {
					t.Fatalf("%s by way of %s: got %+v, want %+v", form, other, again, d)
				}
			}
		}
	})
}
