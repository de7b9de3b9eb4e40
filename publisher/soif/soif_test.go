package soif_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"cutie/publisher/soif"
)

// shared returns a file of the published test material, and skips the test
// where that is absent.
func shared(t *testing.T, name string) []byte {
	t.Helper()
	dir := os.Getenv("CUTIE_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared")
	}
	b, err := os.ReadFile(filepath.Join(dir, "vectors", filepath.FromSlash(name)))
	if err != nil {
		t.Skipf("no published test material: %v (set CUTIE_SHARED)", err)
	}
	return b
}

func readAll(r *soif.Reader) (list []soif.Object, err error) {
	for {
		o, err := r.Read()
		if err != nil {
			return list, err
		}
		list = append(list, o)
	}
}

// index is what the files of the vectors hold.
func index(t *testing.T) map[string][]soif.Object {
	var entries map[string]struct {
		Objects [][3]json.RawMessage
	}
	if err := json.Unmarshal(shared(t, "soif-rdm-index.json"), &entries); err != nil {
		t.Fatal(err)
	}
	all := map[string][]soif.Object{}
	for name, e := range entries {
		for _, raw := range e.Objects {
			var o soif.Object
			var attributes [][2]string
			for i, into := range []any{&o.Type, &o.URL, &attributes} {
				if err := json.Unmarshal(raw[i], into); err != nil {
					t.Fatal(name, err)
				}
			}
			if o.URL == "-" {
				o.URL = ""
			}
			for _, a := range attributes {
				if name == "soif/good/edge-binary.soif" && a[0] == "Bin" { // its octets are given as characters
					var b []byte
					for _, c := range a[1] {
						b = append(b, byte(c))
					}
					a[1] = string(b)
				}
				o.Add(a[0], a[1])
			}
			all[name] = append(all[name], o)
		}
	}
	return all
}

func TestPublishedFiles(t *testing.T) {
	// As the format allows, but not as it is written.
	loose := []string{"edge-crlf", "edge-leading-junk", "edge-one-line", "rfc2655-cip-hint", "rfc2655-documents"}
	for name, want := range index(t) {
		if want == nil {
			continue
		}
		text := shared(t, name)
		for _, in := range []io.Reader{bytes.NewReader(text), iotest.OneByteReader(bytes.NewReader(text))} {
			got, err := readAll(soif.NewReader(in))
			if err != io.EOF || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got %+v, %v, want %+v", name, got, err, want)
			}
		}
		var out bytes.Buffer
		for _, o := range want {
			if err := o.Write(&out); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		canonical := !slices.ContainsFunc(loose, func(s string) bool { return strings.Contains(name, s) })
		if same := bytes.Equal(out.Bytes(), text); same != canonical {
			t.Errorf("%s: written as\n%s", name, out.Bytes())
		}
	}
}

func TestReaderRefuses(t *testing.T) {
	for _, tt := range []struct{ in, err string }{
		{"@", `line 1: unexpected EOF`},
		{"@ { -\n}", `line 1: a template type is wanted behind @, there is " { -\n}"`},
		{"@X\n-", `line 2: { is wanted behind the template type, there is "-"`},
		{"@X { }\n", `line 1: a URL or - is wanted, there is "}\n"`},
		{"@X { @Y { -", `line 1: a URL or - is wanted, there is "@Y { -"`},
		{"@X { -\nA{1}:\t1\n", `line 3: attribute "A": unexpected EOF`},
		{"@X { -\nA{-1}:\t1\n}", `line 2: attribute "A": the size is not a number that } ends, there is "-1}:\t1\n}"`},
		{"@X { -\nA{9}:\t1\n", `line 3: attribute "A": unexpected EOF`},
		{"@X { -\nA{x}:\tone", `line 2: attribute "A": unexpected EOF`},
		{"@X { -\nA{1}:1\n}", `line 2: attribute "A": a TAB is wanted behind the colon, there is "1\n}"`},
		{"@X { -\nA{1 }:\t1\n}", `line 2: attribute "A": the size is not a number that } ends, there is " }:\t1\n}"`},
		{"@X { -\nA:{1}\t1\n}", `line 2: attribute "A:": : is wanted behind the size, there is "\t1\n}"`},
		{"@X { -\nA{1000000000000000000}:\t1\n}", `line 2: attribute "A": object too large: more than 166 bytes, there is "1\n}"`},
		{"@X { -\nA{99999999999999999999}:\t1\n}", `line 2: attribute "A": object too large: more than 166 bytes, there is "1\n}"`},
		{"@X { -\nA{0}:\tB{0}:\tC{0}:\t\n}", `line 2: attribute "C": object too large: more than 166 bytes, there is "{0}:\t\n}"`},
		{"@X { -\n" + strings.Repeat("n", 9000), `line 2: object too large: a word of more than 8192 bytes, there is "nnnnnnnnnnnnnnnnnnnnnnnn"`},
	} {
		r := soif.NewReader(strings.NewReader(tt.in))
		r.Limit = 166
		got, err := r.Read()
		var at *soif.ParseError
		if !errors.As(err, &at) || err.Error() != tt.err || !reflect.DeepEqual(got, soif.Object{}) {
			t.Errorf("%.60q: got %+v, %v, want %s", tt.in, got, err, tt.err)
		}
		if strings.Contains(tt.err, "too large") != errors.Is(err, soif.ErrTooLarge) {
			t.Errorf("%.60q: %v is or is not ErrTooLarge", tt.in, err)
		}
		if _, again := r.Read(); again != err {
			t.Errorf("%.60q: got %v after %v", tt.in, again, err)
		}
	}
}

// What people write, and what the specifications print, is mended and named.
func TestReaderMends(t *testing.T) {
	one := func(pairs ...string) soif.Object {
		o := soif.Object{Type: "X"}
		for i := 0; i < len(pairs); i += 2 {
			o.Add(pairs[i], pairs[i+1])
		}
		return o
	}
	long := strings.Repeat("line\n", 5000) + "end"
	for _, tt := range []struct {
		in   string
		want soif.Object
		said string
	}{
		{"@X { -\nA{1}:\t1\n}\n", one("A", "1"), ""},
		{"@X { -\nA{x}:\tone\n}\n", one("A", "one"), `line 2: attribute "A": size is no number, now 3`},
		{"@X { -\nA{}: one\ntwo \nB{x}:\t\n}\n", one("A", "one\ntwo", "B", ""), `line 2: attribute "A": size is no number, now 7; line 4: attribute "B": size is no number, now 0`},
		{"@X { -\nA{2}:\tthree\nB{5}:\tone\n}\n", one("A", "three", "B", "one"), `line 2: attribute "A": size is 2, now 5; line 3: attribute "B": size is 5, now 3`},
		{"@X { -\nA{99}:\tone\n}\n", one("A", "one"), `line 2: attribute "A": size is 99, now 3`},
		{"@X { - A{3}: one B{3}:   two }", one("A", "one", "B", "two"), `line 1: attribute "A": a blank in place of the TAB; line 1: attribute "B": a blank in place of the TAB`},
		{"@X { -\nA{12}:\t} and } more\n}\n", one("A", "} and } more"), ""},
		{"@X { -\nA{0}:\n}\n", one("A", ""), ""},
		{"@X { -\nA{x}:\t" + long + "\nB{1}:\tb\n}", one("A", long, "B", "b"), `line 2: attribute "A": size is no number, now 25003`},
		{"\ufeff@X { -\n}\n", one(), "line 1: a byte order mark is skipped"},
		{"\xef\xbb@X { -\n}\n\n@X { -\n}\nend", one(), "line 1: text outside of objects is skipped; line 2: text outside of objects is skipped"},
		{"From: x\n" + strings.Repeat("x", 100_000) + "\n\n@X { -\n}", one(), "line 1: text outside of objects is skipped; line 2: text outside of objects is skipped"},
		// A value that has an object in it is taken by its size.
		{"@X { -\nA{12}:\t@Y { -\nB{1}:\n}\n", one("A", "@Y { -\nB{1}:"), ""},
	} {
		for _, in := range []io.Reader{strings.NewReader(tt.in), iotest.OneByteReader(strings.NewReader(tt.in))} {
			r := soif.NewReader(in)
			got, err := r.Read()
			said, n := r.Mended()
			if err != nil || !reflect.DeepEqual(got, tt.want) || strings.Join(said, "; ") != tt.said || n != len(said) {
				t.Errorf("%.60q: got %.200q, %v, %q, want %.200q, %q", tt.in, got, err, said, tt.want, tt.said)
			}
			if _, err := r.Read(); err != io.EOF {
				t.Errorf("%.60q: got %v behind the object", tt.in, err)
			}
		}
	}
	r := soif.NewReader(strings.NewReader("@X { -\n" + strings.Repeat("A{x}:\t1\n", 50) + "}\n"))
	if _, err := r.Read(); err != nil {
		t.Fatal(err)
	}
	if said, n := r.Mended(); len(said) != 20 || n != 50 {
		t.Errorf("got %d of %d mends", len(said), n)
	}
}

// An object comes without waiting for what follows it.
func TestObjectComesAtItsEnd(t *testing.T) {
	in, out := io.Pipe()
	defer out.Close()
	go io.WriteString(out, "@X { -\nA{1}:\t1\n}")
	if o, err := soif.NewReader(in).Read(); err != nil || o.Value("A") != "1" {
		t.Errorf("got %+v, %v", o, err)
	}
}

func TestReaderPassesInputErrors(t *testing.T) {
	broken := errors.New("broken")
	for _, in := range []string{"", "@", "@X", "@X { -\nA{4", "@X { -\nA{4}:\t12"} {
		if _, err := soif.NewReader(io.MultiReader(strings.NewReader(in), iotest.ErrReader(broken))).Read(); err != broken {
			t.Errorf("%q: got %v", in, err)
		}
	}
}

func TestLargeValuesCross(t *testing.T) {
	want := soif.Object{Type: "X", URL: "http://a"}
	for n := 65_400; n < 65_600; n += 7 {
		want.Add("A", strings.Repeat("x", n))
	}
	text := want.Append(nil)
	r := soif.NewReader(iotest.HalfReader(bytes.NewReader(text)))
	got, err := r.Read()
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %d attributes, %v", len(got.Attributes), err)
	}
}

func TestWriterRefuses(t *testing.T) {
	var out bytes.Buffer
	for _, o := range []soif.Object{
		{}, {Type: "a b"}, {Type: "a{"}, {Type: "@a"}, {Type: strings.Repeat("x", 9000)},
		{Type: "X", URL: "-"}, {Type: "X", URL: "a b"}, {Type: "X", URL: "}"}, {Type: "X", URL: "@Y"}, {Type: "X", URL: "a\n"},
		{Type: "X", Attributes: []soif.Attribute{{"", "a"}}}, {Type: "X", Attributes: []soif.Attribute{{"a b", "a"}}}, {Type: "X", Attributes: []soif.Attribute{{"a}", "a"}}},
	} {
		if err := o.Write(&out); err == nil || out.Len() > 0 {
			t.Errorf("%.60q: written as %.60q, %v", o, out.String(), err)
		}
	}
	o := soif.Object{Type: "X"}
	if err := o.Write(&out); err != nil || out.String() != "@X { -\n}\n" {
		t.Errorf("got %q, %v", out.String(), err)
	}
}

func TestValues(t *testing.T) {
	o := soif.Object{Type: "X", Attributes: []soif.Attribute{{"title-3", "c"}, {"Title-1", "a"}, {"TITLE-10", "j"},
		{"view-2x", "x"}, {"Title", "plain"}, {"title-02", "y"}, {"title-0", "z"}, {"title-9999999999", "w"}, {"title", "again"}}}
	if got, want := o.Values("title"), []string{"plain", "again", "a", "c", "j"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := o.Value("TITLE"); got != "plain" {
		t.Errorf("got %q", got)
	}
	if got, ok := o.Lookup("view"); ok || len(o.Values("view")) > 0 {
		t.Errorf("got %q", got)
	}
}

func TestReaderAsksForTheMemoryOfAnObject(t *testing.T) {
	const size = 3 << 20
	o := soif.Object{Type: "A", Attributes: []soif.Attribute{{"Long", strings.Repeat("x", size)}, {"Short", "y"}}}
	held, most := 0, 0
	r := soif.NewReader(bytes.NewReader(o.Append(nil)))
	r.Memory = func(n int) error {
		held += n
		most = max(most, held)
		return nil
	}
	if _, err := r.Read(); err != nil {
		t.Fatal(err)
	}
	if held < size || held > size+1024 || most > 2*size+1024 {
		t.Errorf("got %d held, %d at most, for a value of %d", held, most, size)
	}
	full := errors.New("full")
	r = soif.NewReader(bytes.NewReader(o.Append(nil)))
	held = 0
	r.Memory = func(n int) error {
		if held += n; held >= 1<<20 {
			return full
		}
		return nil
	}
	if _, err := r.Read(); !errors.Is(err, full) {
		t.Errorf("got %v, want the error of Memory", err)
	}
}

var seeds = []string{
	"@X { -\nA{1}:\t1\r\nB{0}:\t\r\n}\r\n",
	"junk\n@X{ http://a\nA{1}:\t1B{2}:\t22}@Y { -\n}",
	"@X { -\nText{23}:\t} \n@FAKE { -\nA{1}:\tz\n}\n\n}\n",
	"@X { -\nA{1000000000000000000}:\t1\n}",
	"@X { -\nA{x}: one\ntwo\nB:{3}\t1\n}",
	"\ufefftext @X { -\nA{9}:\tone\ntwo } @Y {http://a B{ 1 }: 2\n}\n}\n",
}

// What is read is written so that it reads the same, and written again is the
// same octets.
func FuzzRead(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := soif.NewReader(bytes.NewReader(b))
		r.Limit = 1 << 20
		objects, _ := readAll(r)
		stable(t, objects)
	})
}

func stable(t *testing.T, objects []soif.Object) {
	t.Helper()
	var out bytes.Buffer
	for _, o := range objects {
		if err := o.Write(&out); err != nil {
			t.Fatalf("%+v was read and cannot be written: %v", o, err)
		}
	}
	r := soif.NewReader(bytes.NewReader(out.Bytes()))
	r.Limit = 16 << 20
	again, err := readAll(r)
	if _, mends := r.Mended(); mends > 0 {
		t.Fatalf("%q: mended", out.Bytes())
	}
	if err != io.EOF || !reflect.DeepEqual(again, objects) {
		t.Fatalf("%q: got %+v, %v, want %+v", out.Bytes(), again, err, objects)
	}
}

// A size that is not there takes no memory.
func TestDeclaredSizeTakesNoMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := soif.NewReader(strings.NewReader("@X { -\nA{16000000}:\t1")).Read(); err == nil {
		t.Error("it was read")
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
		t.Errorf("got %d bytes", got)
	}
}
