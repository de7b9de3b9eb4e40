package anvl_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"cutie/queuefs/anvl"
)

func TestRecord(t *testing.T) {
	base := anvl.Record{{"a", "1"}, {"B", "2"}, {"A", "3"}, {"c", "4"}}
	if got, ok := base.Lookup("b"); got != "2" || !ok {
		t.Errorf("Lookup: got %q, %v", got, ok)
	}
	if got, ok := base.Lookup("d"); got != "" || ok {
		t.Errorf("Lookup of nothing: got %q, %v", got, ok)
	}
	if got := base.Value("A"); got != "1" {
		t.Errorf("Value: got %q", got)
	}
	if got := base.Values("a"); !slices.Equal(got, []string{"1", "3"}) {
		t.Errorf("Values: got %q", got)
	}
	tests := []struct {
		name   string
		change func(*anvl.Record)
		want   anvl.Record
	}{
		{"set drops repeats", func(r *anvl.Record) { r.Set("A", "9") }, anvl.Record{{"a", "9"}, {"B", "2"}, {"c", "4"}}},
		{"set appends", func(r *anvl.Record) { r.Set("d", "9") }, append(slices.Clone(base), anvl.Element{Name: "d", Value: "9"})},
		{"add repeats", func(r *anvl.Record) { r.Add("a", "9") }, append(slices.Clone(base), anvl.Element{Name: "a", Value: "9"})},
		{"del drops all", func(r *anvl.Record) { r.Del("a") }, anvl.Record{{"B", "2"}, {"c", "4"}}},
		{"del of nothing", func(r *anvl.Record) { r.Del("d") }, base},
	}
	for _, tt := range tests {
		got := slices.Clone(base)
		tt.change(&got)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestAppendElement(t *testing.T) {
	tests := []struct{ name, value, want string }{
		{"a", "b", "a: b\n"},
		{"a", "", "a:\n"},
		{"a", " ", "a: %20\n"},
		{"a", "  b\t\t", "a: %20 b\t%09\n"},
		{"a", "x\ty:z #%", "a: x\ty:z #%25\n"},
		{"a", "1\r\n2\x00\x7f", "a: 1%0D%0A2%00%7F\n"},
		{"a", "na\u00efve \u4e2d \ufffd", "a: na\u00efve \u4e2d \ufffd\n"},
		{"a", "\xffx\xc3", "a: %FFx%C3\n"},
		{"#a#", "b", "%23a#: b\n"},
		{"a b\tc", "d", "a%20b%09c: d\n"},
		{"a:b%", "c", "a%3Ab%25: c\n"},
		{"\ufeffa\ufeff", "b", "%EF%BB%BFa\ufeff: b\n"},
		{"", "b", "%_: b\n"},
		{"", "", "%_:\n"},
	}
	for _, tt := range tests {
		got := string(anvl.AppendElement([]byte("x"), tt.name, tt.value))
		if got != "x"+tt.want {
			t.Errorf("%q, %q: got %q, want %q", tt.name, tt.value, got, "x"+tt.want)
		}
		rec, err := anvl.ParseRecord([]byte(tt.want))
		if want := (anvl.Record{{tt.name, tt.value}}); err != nil || !slices.Equal(rec, want) {
			t.Errorf("%q: read back as %q, %v, want %q", tt.want, rec, err, want)
		}
	}
}

func TestAppendElementDoesNotAllocate(t *testing.T) {
	dst := make([]byte, 0, 256)
	if n := testing.AllocsPerRun(100, func() {
		dst = anvl.AppendElement(dst[:0], "#na me", " first\nsecond 100% ")
	}); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}

func TestReader(t *testing.T) {
	tests := []struct {
		name, in string
		want     []anvl.Record
		err      string // "" for the end of the input
	}{
		{"nothing", "", nil, ""},
		{"no record", "# a\n\n  \n#\n", nil, ""},
		{"no final line end", "a: b", []anvl.Record{{{"a", "b"}}}, ""},
		{"line ends", "a: b\rc: d\r\ne: f\n\r\r\ng: h\r", []anvl.Record{{{"a", "b"}, {"c", "d"}, {"e", "f"}}, {{"g", "h"}}}, ""},
		{"byte order mark", "\ufeffa: b\n", []anvl.Record{{{"a", "b"}}}, ""},
		{"blank line is no end", "a: b\n \n\tc\n \n", []anvl.Record{{{"a", "b c"}}}, ""},
		{"fold onto nothing", "a:\n b\n  c\nd:\n %_\n x\n", []anvl.Record{{{"a", "b c"}, {"d", "x"}}}, ""},
		{"trim before decoding", "a:  %20b%09 \n", []anvl.Record{{{"a", " b\t"}}}, ""},
		{"escapes", "a: %41%4a%4A %%41 %sc%_%SC 100% %4 %zz\n", []anvl.Record{{{"a", "AJJ %41 ;%SC 100% %4 %zz"}}}, ""},
		{"octets that are no UTF-8", "a\xff: %FE\xfd\n", []anvl.Record{{{"a\xff", "\xfe\xfd"}}}, ""},
		{"colons", "a : b : c\n", []anvl.Record{{{"a", "b : c"}}}, ""},
		{"no colon", "a: b\n\n# x\r\nc\n", []anvl.Record{{{"a", "b"}}}, "line 4: no colon in line"},
		{"empty label", "a: b\n : c\n\t: d\n: e\n", nil, "line 4: empty label"},
		{"fold across the end", "a: b\n\n c\n", []anvl.Record{{{"a", "b"}}}, "line 3: no previous label for continuation line"},
		{"limit of a line", "a: b\n\n# 345678901\n", []anvl.Record{{{"a", "b"}}}, "line 3: record too large"},
		{"limit of a record", "a: b\nc: d\ne: f\n", nil, "line 3: record too large"},
		{"limit met", "a: 4567890\r\n\r\nb: 4567890\r\n", []anvl.Record{{{"a", "4567890"}}, {{"b", "4567890"}}}, ""},
	}
	for _, tt := range tests {
		for _, in := range []io.Reader{strings.NewReader(tt.in), iotest.OneByteReader(strings.NewReader(tt.in))} {
			r := anvl.NewReader(in)
			if strings.HasPrefix(tt.name, "limit") {
				r.Limit = 10
			}
			var got []anvl.Record
			rec, err := r.Read()
			for ; err == nil; rec, err = r.Read() {
				got = append(got, rec)
			}
			if !slices.EqualFunc(got, tt.want, slices.Equal) {
				t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
			}
			var pe *anvl.ParseError
			if tt.err == "" && err != io.EOF || tt.err != "" && (!errors.As(err, &pe) || err.Error() != tt.err) {
				t.Errorf("%s: got error %v, want %q", tt.name, err, tt.err)
			}
			if _, again := r.Read(); again != err {
				t.Errorf("%s: got error %v after %v", tt.name, again, err)
			}
		}
	}
}

func TestReaderLimits(t *testing.T) {
	long := "a: " + strings.Repeat("x", anvl.DefaultLimit-3) + "\n"
	r := anvl.NewReader(strings.NewReader(long + "\n" + long + "b:\n"))
	if _, err := r.Read(); err != nil {
		t.Error(err)
	}
	if _, err := r.Read(); !errors.Is(err, anvl.ErrTooLarge) {
		t.Errorf("got %v, want %v", err, anvl.ErrTooLarge)
	}
}

func TestReaderDropsARecordCutShort(t *testing.T) {
	broken := errors.New("broken")
	for _, in := range []string{"a: b\n", "a: b\nnocol"} {
		r := anvl.NewReader(io.MultiReader(strings.NewReader(in), iotest.ErrReader(broken)))
		if rec, err := r.Read(); rec != nil || err != broken {
			t.Errorf("%q: got %q, %v, want %v", in, rec, err, broken)
		}
	}
}

func TestParseRecordReadsTheFirstRecordOnly(t *testing.T) {
	got, err := anvl.ParseRecord([]byte("# x\n\na: b\n\nnot read\n"))
	if want := (anvl.Record{{"a", "b"}}); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

var job = anvl.Record{
	{"identifier", "j000000000042"},
	{"status", "consumed"},
	{"submitter", "mrt-ingest/0.6"},
	{"size", "6"},
	{"mediaType", "application/octet-stream"},
	{"filename", "na\u00efve file.bin"},
	{"digestType", "SHA-256"},
	{"digestValue", "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"},
	{"sidecar", "profile=uc3_content; note=first\nsecond line"},
	{"submitted", "2010-04-20T16:00:00.000000Z"},
	{"consumed", "2010-04-20T16:30:00.000000Z"},
}

func BenchmarkAppendElement(b *testing.B) {
	dst := make([]byte, 0, 256)
	value := job.Value("digestValue")
	b.ReportAllocs()
	for b.Loop() {
		dst = anvl.AppendElement(dst[:0], "digestValue", value)
	}
}

func BenchmarkAppendRecord(b *testing.B) {
	dst := anvl.AppendRecord(nil, job)
	b.SetBytes(int64(len(dst)))
	b.ReportAllocs()
	for b.Loop() {
		dst = anvl.AppendRecord(dst[:0], job)
	}
}

func BenchmarkParseRecord(b *testing.B) {
	src := anvl.AppendRecord(nil, job)
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := anvl.ParseRecord(src); err != nil {
			b.Fatal(err)
		}
	}
}
