package anvl_test

import (
	"slices"
	"testing"

	"cutie/queuefs/anvl"
)

func TestDocumentSet(t *testing.T) {
	tests := []struct{ name, in, set, value, want string }{
		{"empty file", "", "a", "1", "a: 1\n"},
		{"new element", "a: 1\n", "b", "2", "a: 1\nb: 2\n"},
		{"changed element", "# head\nA :  1\nb:2\n", "a", "9", "# head\nA: 9\nb:2\n"},
		{"same value", "A :  1\n", "a", "1", "A :  1\n"},
		{"repeats", "a: 1\nb: 2\nA: 3\n# x\na: 4", "a", "9", "a: 9\nb: 2\n# x\n"},
		{"repeats of the same value", "a: 1\na:  1\n", "a", "1", "a: 1\n"},
		{"folded value", "a: 1\n# in\n 2\n# behind\nb: 3\n", "a", "9", "a: 9\n# in\n# behind\nb: 3\n"},
		{"repeat with a comment", "a: 1\na: 2\n# in\n 3\n", "a", "9", "a: 9\n# in\n"},
		{"comment at the end", "a: 1\n# tail\n", "b", "2", "a: 1\n# tail\nb: 2\n"},
		{"second record", "a: 1\n\na: 2\nno colon", "b", "3", "a: 1\nb: 3\n\na: 2\nno colon"},
		{"first record after comments", "# x\n\na: 1\n\n", "b", "2", "# x\n\na: 1\nb: 2\n\n"},
		{"comments only", "# x\n\n# y", "a", "1", "# x\n\n# y\na: 1\n"},
		{"no final line end", "a: 1", "b", "2", "a: 1\nb: 2\n"},
		{"byte order mark", "\ufeffa: 1", "a", "2", "\ufeffa: 2\n"},
		{"foreign line ends", "a: 1\r\nb: 2\r\n\r\n", "a", "9", "a: 9\nb: 2\r\n\r\n"},
		{"CR before an empty line", "a: 1\ra: 2\r\n\nb: 3", "a", "1", "a: 1\r\n\nb: 3"},
		{"value that needs escapes", "a: 1\n", "a", " x\ny", "a: %20x%0Ay\n"},
	}
	for _, tt := range tests {
		d, err := anvl.ParseDocument([]byte(tt.in))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got := string(d.Bytes()); got != tt.in {
			t.Errorf("%s: untouched: got %q, want %q", tt.name, got, tt.in)
		}
		d.Set(tt.set, tt.value)
		if got := string(d.Bytes()); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		if got, ok := d.Lookup(tt.set); got != tt.value || !ok {
			t.Errorf("%s: Lookup: got %q, %v", tt.name, got, ok)
		}
	}
}

func TestDocumentAdd(t *testing.T) {
	var d anvl.Document
	d.Add("a", "1")
	d.Add("a", "2")
	if got, want := string(d.Bytes()), "a: 1\na: 2\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := d.Record().Values("A"); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("got %q", got)
	}
}

func TestParseDocumentFails(t *testing.T) {
	_, err := anvl.ParseDocument([]byte("a: 1\nb\n"))
	if err == nil || err.Error() != "line 2: no colon in line" {
		t.Errorf("got %v", err)
	}
}
