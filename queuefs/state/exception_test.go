package state_test

import (
	"testing"

	"cutie/queuefs/state"
)

func TestDetailOfAnExceptionIsReadFromEveryForm(t *testing.T) {
	for _, detail := range []string{"", "no job", "a <b> & \"c\" 'd'\\ é\u2028\U0001F600", "two\nlines\tand a tab", "detail{3}:\tx"} {
		d := state.OfException(state.Exception{Status: 404, Detail: detail})
		for _, f := range forms {
			if got := state.DetailOf(f, f.Append(nil, &d)); got != detail {
				t.Errorf("%s: got %q, want %q", f, got, detail)
			}
		}
	}
}

func FuzzDetailOf(f *testing.F) {
	f.Add("no job")
	f.Fuzz(func(t *testing.T, detail string) {
		d := state.OfException(state.Exception{Status: 500, Detail: detail})
		want := ""
		if p := d.Property("detail"); p != nil {
			want = p.Text
		}
		for _, form := range forms {
			if got := state.DetailOf(form, form.Append(nil, &d)); got != want {
				t.Errorf("%s: got %q, want %q", form, got, want)
			}
		}
	})
}
