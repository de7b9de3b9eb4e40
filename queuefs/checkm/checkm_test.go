package checkm_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"cutie/queuefs/checkm"
)

func TestManifestsThatCannotBeRead(t *testing.T) {
	for _, tt := range []struct {
		in   string
		good int // entries
		want []string
	}{
		{"", 0, nil},
		{"\ufeff\r\n# x\n \t\n", 0, nil},
		{"a\n#%EOF\n \n\t\n", 1, nil},
		{"a\n#%eof  ", 1, nil},
		{"#%Checkm_0.7\na\n#%eof", 1, nil},
		{"#%checkm_0.7\r\na\r\n", 1, []string{"line 2: truncated manifest: #%eof is missing"}},
		{"#%checkm_0.7", 0, []string{"line 1: truncated manifest: #%eof is missing"}},
		{"#%checkm_0.7\na\n#%eo", 1, []string{"line 3: truncated manifest: #%eof is missing"}},
		{"a\n#%eof\n\nb\nc\n", 1, []string{"line 4: text behind #%eof"}},
		{"a\n#%eof\n# comment\n", 1, []string{"line 3: text behind #%eof"}},
		{"- md5 00\n@\n| a\nb\n", 1, []string{"line 1: no URL", "line 2: no URL", "line 3: no URL"}},
		{"a b c 1 d e f\ng\n", 1, []string{"line 1: 7 columns instead of 6; a blank in a name is written %20"}},
		{"a|b|c|1|d|e|f\ng|||||||||\n", 1, []string{"line 1: 7 columns instead of 6; #%fields names more"}},
		{"a - - 1x\n", 1, nil}, // the short form, with a name
		{"a - b 1x\na x y +1\na x y 9999999999999999999\n", 0, []string{
			`line 1: length "1x" is not a number of octets`,
			`line 2: length "+1" is not a number of octets`,
			`line 3: length "9999999999999999999" is not a number of octets`}},
		{"a\x00\nb\rc\nd - - - - x%0Ay\n\xff\n", 0, []string{
			"line 1: text has the control character 0x00",
			"line 2: text has the control character 0x0d",
			"line 3: text has the control character 0x0a",
			"line 4: text is not UTF-8"}},
		{"#%fields | nfo:fileName\na\n", 0, []string{"line 1: #%fields has no column nfo:fileUrl"}},
		{"#%columns | fileUrl | FILEURL\na\n", 0, []string{`line 1: #%columns has the column "FILEURL" twice or without a name`}},
		{"#%fields | fileUrl | SOURCE\na\n", 0, []string{`line 1: #%fields has the column "SOURCE" twice or without a name`}},
		{"#%fields | fileUrl | x:a | y:A\na\n", 0, []string{`line 1: #%fields has the column "y:A" twice or without a name`}},
		{"#%fields | fileUrl | | a\na\n", 0, []string{`line 1: #%fields has the column "" twice or without a name`}},
		{"#%fields\na\n", 0, []string{"line 1: #%fields has no column nfo:fileUrl"}},
		{"#%fields fileUrl\n#%columns fileUrl\na\n", 0, []string{"line 2: #%columns is repeated"}},
		{"a\n#%fields fileUrl\nb\n", 1, []string{"line 2: #%fields behind the first entry"}},
		{"#%fields|fileUrl|2|mrt:title|\na|x|y|z\nb|x\n", 1, []string{"line 2: 4 columns instead of 3; #%fields names more"}},
	} {
		entries, complaints := parse(t, tt.in)
		if len(entries) != tt.good || !slices.Equal(complaints, tt.want) {
			t.Errorf("%q: got %+v, %q, want %d entries, %q", tt.in, entries, complaints, tt.good, tt.want)
		}
	}
}

func TestOrderOfColumnsIsHonoured(t *testing.T) {
	want := checkm.Entry{Line: 2, Include: true, Source: "u", Alg: "md5", Digest: "00", Length: 7, Modified: "2010", Target: "a b",
		Extra: []checkm.Column{{"mrt:title", "T"}}}
	for _, in := range []string{
		"#%fields | nfo:fileName | mrt:title | filesize | X:FILEURL | nfo:fileLastModified | nfo:hashValue | hashAlgorithm\na%20b | T | 7 | @u | 2010 | 00 | md5\n",
		"#%COLUMNS nfo:fileName mrt:title filesize X:FILEURL nfo:fileLastModified nfo:hashValue hashAlgorithm\na%20b T 7 @u 2010 00 md5\n",
		"#%fields Target mrt:title Length SourceFileOrURL ModTime Digest Alg\na b | T | 7 | @u | 2010 | 00 | md5\n",
	} {
		entries, complaints := parse(t, in)
		if len(entries) != 1 || complaints != nil || !reflect.DeepEqual(entries[0], want) {
			t.Errorf("%q: got %+v, %q, want %+v", in, entries, complaints, want)
		} else if got := entries[0].Value("nfo:TITLE"); got != "T" {
			t.Errorf("title: got %q", got)
		}
	}
}

func TestNameIsALabel(t *testing.T) {
	for _, tt := range []struct{ source, target, want string }{
		{"http://a/b/c.bin?x=/y#z", "", "c.bin"},
		{"http://a/b/c%20d%2Fe", "", "c d_e"},
		{"http://a/b/", "", "b"},
		{"http://a", "", ""},
		{"http://a/", "", ""},
		{"http://a/..", "", ""},
		{"http://a/%2e%2E", "", ""},
		{"http://a/%zz", "", "%zz"},
		{"http://a/x%0Ay", "", "x%0Ay"},
		{"dir/x", "", "x"},
		{"http://a/b", "../../etc/passwd", "passwd"},
		{"http://a/b", "c/", "c"},
		{"http://a/b", "..", "b"},
		{"http://a/b", "/", "b"},
	} {
		e := checkm.Entry{Source: tt.source, Target: tt.target}
		if got := e.Name(); got != tt.want {
			t.Errorf("%q, %q: got %q, want %q", tt.source, tt.target, got, tt.want)
		}
	}
}

func TestManifestsHaveLimits(t *testing.T) {
	r := checkm.NewReader(strings.NewReader("a\n# x\n@\nb\nc\n"))
	r.MaxEntries = 2
	if entries, complaints := readAll(t, r); len(entries) != 1 || !slices.Equal(complaints, []string{"line 3: no URL", "line 4: manifest too large: more than 2 entries"}) {
		t.Errorf("got %+v, %q", entries, complaints)
	}
	for in, want := range map[string]string{
		"12345678\n":               "",
		"12345678\r\n":             "",
		"12345678":                 "",
		"x\n123456789\ny\n":        "line 2: manifest too large",
		"x\n#" + long + "\ny\n":    "line 2: manifest too large",
		"x\n" + long:               "line 2: manifest too large",
		"#%eof\n" + long + "\n\ny": "line 2: manifest too large",
	} {
		r := checkm.NewReader(strings.NewReader(in))
		r.MaxLine = 8
		if _, complaints := readAll(t, r); strings.Join(complaints, "; ") != want {
			t.Errorf("%.20q: got %q, want %q", in, complaints, want)
		}
	}
	r = checkm.NewReader(strings.NewReader(strings.Repeat("x", checkm.DefaultMaxLine+1)))
	if _, err := r.Read(); !errors.Is(err, checkm.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
}

var long = strings.Repeat("0123456789", 10)

// What a broken input leaves at its end is no line.
func TestErrorOfTheInputIsFinal(t *testing.T) {
	broken := errors.New("broken")
	for _, in := range []string{"", "a\n", "a\nb - - - - x\x00", "#%checkm_0.7\na\n", "#%fields x"} {
		r := checkm.NewReader(io.MultiReader(strings.NewReader(in), iotest.ErrReader(broken)))
		var err error
		for err == nil {
			_, err = r.Read()
		}
		if _, again := r.Read(); err != broken || again != broken {
			t.Errorf("%q: got %v, then %v, want %v", in, err, again, broken)
		}
	}
}

var full = []checkm.Entry{
	{Source: "http://a/b|c", Length: -1},
	{Source: "http://a/b", Alg: "md5", Digest: "00", Length: 0, Modified: "2010-04-20T16:00:00Z", Target: "a b|c%20"},
	{Source: "http://a/b", Length: -1, Target: "-"},
	{Include: true, Source: "#x", Length: -1},
	{Source: "http://a/b", Length: 12, Target: " a b|c "},
	{Source: "a b", Length: -1},
	{Source: "#x", Length: -1},
	{Source: "x", Length: -1, Alg: "md5 x"},
	{Source: "x", Length: -1, Target: "a\nb"},
	{Source: "x", Length: -1, Extra: []checkm.Column{{"mrt:title", "T|t"}}},
	{Source: "-", Length: -1},
	{Length: -1},
}

func TestWrites(t *testing.T) {
	for _, tt := range []struct {
		w    checkm.Writer
		want string
		errs []string
	}{
		{checkm.Writer{}, `#%checkm_0.7
http://a/b md5 00 0 2010-04-20T16:00:00Z a%20b%7Cc%2520
http://a/b - - - - %2D
@#x
http://a/b - - 12 - %20a%20b%7Cc%20
#%eof
`, []string{
			`checkm: entry "http://a/b|c": source has a bar or a blank`,
			`checkm: entry "a b": source has a bar or a blank`,
			`checkm: entry "#x": source begins with # or @; write ./ before it`,
			`checkm: entry "x": "md5 x" needs bars`,
			`checkm: entry "x": text has the control character 0x0a`,
			`checkm: entry "x": column "mrt:title" is not among those of the manifest, or repeated`,
			`checkm: entry "-": no source`,
			`checkm: entry "": no source`}},
		{checkm.Writer{Bars: true, Profile: "http://p/", Extra: []string{"mrt:title"}}, `#%checkm_0.7
#%profile | http://p/
#%prefix | nfo: | http://www.semanticdesktop.org/ontologies/2007/03/22/nfo#
#%fields | nfo:fileUrl | nfo:hashAlgorithm | nfo:hashValue | nfo:fileSize | nfo:fileLastModified | nfo:fileName | mrt:title
@#x |  |  |  |  |  | 
http://a/b |  |  | 12 |  | %20a b%7cc%20 | 
a b |  |  |  |  |  | 
x | md5 x |  |  |  |  | 
x |  |  |  |  |  | T%7ct
#%eof
`, []string{
			`checkm: entry "http://a/b|c": source has a bar or a blank`,
			`checkm: entry "http://a/b": "a b|c%20" cannot be written between bars`,
			`checkm: entry "http://a/b": "-" cannot be written between bars`,
			`checkm: entry "#x": source begins with # or @; write ./ before it`,
			`checkm: entry "x": text has the control character 0x0a`,
			`checkm: entry "-": no source`,
			`checkm: entry "": no source`}},
	} {
		var b strings.Builder
		w := checkm.NewWriter(&b)
		w.Bars, w.Profile, w.Extra = tt.w.Bars, tt.w.Profile, tt.w.Extra
		var errs []string
		for _, e := range full {
			if err := w.Write(e); err != nil {
				errs = append(errs, err.Error())
			}
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if b.String() != tt.want || !slices.Equal(errs, tt.errs) {
			t.Errorf("got %s\n%q\nwant %s\n%q", b.String(), errs, tt.want, tt.errs)
		}
	}
	for _, extra := range [][]string{{""}, {"a|b"}, {"x:a", "y:A"}, {"fileurl"}, {" a"}, {"a\n"}} {
		w := checkm.NewWriter(io.Discard)
		w.Bars, w.Extra = true, extra
		if err := w.Close(); err == nil {
			t.Errorf("columns %q were accepted", extra)
		}
	}
	w := checkm.NewWriter(io.Discard)
	if w.Extra = []string{"x"}; w.Close() == nil {
		t.Error("further columns without bars were accepted")
	}
}

// What is read prints back as it was, or is refused.
func FuzzRead(f *testing.F) {
	f.Add("#%checkm_0.7\n#%fields | fileUrl | fileName | x:y\n@a b | %20c%7cd | e\n#%eof\n")
	f.Add("\ufeffa md5 00 1 2010 x%20y\r\nb - - c\n@d\n")
	f.Add("a | %2%200 | - | 1 | | %7%7cc\nb - - - - %2D%\n")
	f.Fuzz(func(t *testing.T, in string) {
		r := checkm.NewReader(strings.NewReader(in))
		var columns []string
		for {
			e, err := r.Read()
			if err == io.EOF {
				return
			}
			if err != nil {
				var pe *checkm.ParseError
				if !errors.As(err, &pe) || pe.Line < 1 {
					t.Fatalf("got %v", err)
				}
				continue
			}
			columns = columns[:0]
			for _, x := range e.Extra {
				columns = append(columns, x.Name)
			}
			written := false
			for _, bars := range []bool{false, true} {
				written = roundTrip(t, e, bars, columns) || written
			}
			if !written && e.Extra == nil { // those need bars, which cannot have all texts
				t.Errorf("%+v cannot be written at all", e)
			}
		}
	})
}

// roundTrip reports whether an entry could be written.
func roundTrip(t *testing.T, e checkm.Entry, bars bool, columns []string) bool {
	t.Helper()
	var b strings.Builder
	w := checkm.NewWriter(&b)
	w.Bars = bars
	if bars {
		w.Extra = columns
	}
	if err := w.Write(e); err != nil {
		if b.Len() > 0 {
			t.Errorf("refused, but written: %q", b.String())
		}
		return false
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := checkm.NewReader(strings.NewReader(b.String()))
	r.MaxLine = 1 << 20
	got, complaints := readAll(t, r)
	if len(got) == 1 {
		got[0].Line = e.Line
	}
	if len(got) != 1 || complaints != nil || !reflect.DeepEqual(got[0], e) {
		t.Errorf("%q: got %+v, %q, want %+v", b.String(), got, complaints, e)
	}
	return true
}

// vectorsDir returns the directory of test vectors, or skips the test.
func vectorsDir(t *testing.T) string {
	t.Helper()
	shared := os.Getenv("CUTIE_SHARED")
	if shared == "" {
		shared = "../../../shared"
	}
	dir := filepath.Join(shared, "vectors", "checkm")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("shared vectors not found; set CUTIE_SHARED")
	}
	return dir
}

func readVector(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(vectorsDir(t), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// readAll returns the entries of a manifest, and what is wrong with it.
func readAll(t testing.TB, r *checkm.Reader) (entries []checkm.Entry, complaints []string) {
	t.Helper()
	for {
		e, err := r.Read()
		var pe *checkm.ParseError
		switch {
		case err == io.EOF:
			if _, err := r.Read(); err != io.EOF {
				t.Errorf("behind the end: got %v", err)
			}
			return entries, complaints
		case errors.As(err, &pe):
			complaints = append(complaints, err.Error())
		case err != nil:
			t.Fatal(err)
		default:
			entries = append(entries, e)
		}
	}
}

func parse(t testing.TB, s string) ([]checkm.Entry, []string) {
	t.Helper()
	return readAll(t, checkm.NewReader(strings.NewReader(s)))
}

// A vector is an entry as the vectors have it.
type vector struct {
	Include             bool
	Source, Alg, Digest string
	Length              *int64
	Modtime, Target     string
}

func (v vector) entry() checkm.Entry {
	e := checkm.Entry{Include: v.Include, Source: v.Source, Alg: v.Alg, Digest: v.Digest, Length: -1, Modified: v.Modtime, Target: v.Target}
	if v.Length != nil {
		e.Length = *v.Length
	}
	return e
}

func TestReadsTheManifestsOfCheckmAndCutie(t *testing.T) {
	for _, dir := range []string{"checkm-spec-2009", "cutie-proposed"} {
		var vectors struct{ Expect, Files map[string][]vector }
		if err := json.Unmarshal([]byte(readVector(t, dir+"/expect.json")), &vectors); err != nil {
			t.Fatal(err)
		}
		for name, list := range vectors.Files {
			if vectors.Expect == nil {
				vectors.Expect = map[string][]vector{}
			}
			vectors.Expect[name] = list
		}
		if len(vectors.Expect) < 4 {
			t.Errorf("%s: %d manifests", dir, len(vectors.Expect))
		}
		for name, list := range vectors.Expect {
			entries, complaints := parse(t, readVector(t, dir+"/"+name))
			if len(entries) != len(list) || complaints != nil {
				t.Errorf("%s: got %d entries, %q, want %d", name, len(entries), complaints, len(list))
				continue
			}
			for i, got := range entries {
				want := list[i].entry()
				want.Line = got.Line
				// The vectors have names of digests without case and hyphens.
				got.Alg = strings.ReplaceAll(strings.ToLower(got.Alg), "-", "")
				if dir == "cutie-proposed" {
					got.Target = got.Name() // which has a default
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%s: got %+v, want %+v", name, got, want)
				}
			}
		}
	}
	_, complaints := parse(t, readVector(t, "cutie-proposed/batch-bad.checkm"))
	if want := []string{`line 5: length "-1" is not a number of octets`}; !reflect.DeepEqual(complaints, want) {
		t.Errorf("batch-bad: got %q, want %q", complaints, want)
	}
}

func TestReadsTheManifestsOfMerritt(t *testing.T) {
	bad := map[string]string{
		"4blocks_encoding.checkm":           "line 7: text is not UTF-8",
		"4blocks_incorrect_filesize.checkm": `line 7: length "111xxx" is not a number of octets`,
		"4blocks_missing_url.checkm":        "line 6: no URL",
		"4blocks_noeof.checkm":              "line 7: truncated manifest: #%eof is missing",
		"mrt-dataone-manifest.txt":          "line 5: #%fields has no column nfo:fileUrl",
	}
	names, err := filepath.Glob(filepath.Join(vectorsDir(t), "mrt-doc-test-cases", "*"))
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob(filepath.Join(vectorsDir(t), "merritt-manifest-spec", "*"))
	if err != nil || len(names) < 30 || len(more) < 4 {
		t.Fatalf("%d and %d manifests, %v", len(names), len(more), err)
	}
	for _, name := range append(names, more...) {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		entries, complaints := parse(t, string(data))
		if got, want := strings.Join(complaints, "; "), bad[filepath.Base(name)]; got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
		for _, e := range entries {
			if !strings.Contains(e.Source, "://") {
				t.Errorf("%s: got source %q", name, e.Source)
			}
		}
	}
	entries, _ := parse(t, readVector(t, "merritt-manifest-spec/sampleBatchOfFiles.checkm"))
	want := checkm.Entry{Line: 6, Source: "http://merritt.cdlib.org/samples/goldenDragon.jpg", Alg: "md5",
		Digest: "aa59e145dfb2237ecd8cb5ce4f4953ea", Length: -1, Target: "goldenDragon.jpg",
		Extra: []checkm.Column{{"mrt:creator", "Tracy Seneca"}, {"mrt:title", "Golden Dragon Restaurant Sign"}, {"mrt:date", "2009-09-01T00:00:00"}}}
	if len(entries) != 3 || !reflect.DeepEqual(entries[0], want) {
		t.Errorf("got %+v, want %+v first", entries, want)
	}
}

func TestEscapesAsMerrittDoes(t *testing.T) {
	var vectors struct {
		Enc, Dec []struct{ In, Out string }
	}
	if err := json.Unmarshal([]byte(readVector(t, "merritt-escaping.json")), &vectors); err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors.Enc {
		var b strings.Builder
		w := checkm.NewWriter(&b)
		w.Bars = true
		if err := w.Write(checkm.Entry{Source: "x", Length: -1, Target: v.In}); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(b.String(), "\nx |  |  |  |  | "+v.Out+"\n") {
			t.Errorf("%q: got %q, want %q at its end", v.In, b.String(), v.Out)
		}
	}
	for _, v := range vectors.Dec {
		entries, complaints := parse(t, "x%20y | | | | | "+v.In)
		if len(entries) != 1 || entries[0].Target != v.Out || entries[0].Source != "x%20y" {
			t.Errorf("%q: got %+v, %q, want %q", v.In, entries, complaints, v.Out)
		}
	}
}

func TestReadsWhatRubyReads(t *testing.T) {
	var vectors struct {
		Ruby []struct {
			In    string
			Entry struct{ SourceFileOrURL, Alg, Digest string }
		}
	}
	if err := json.Unmarshal([]byte(readVector(t, "ruby-python/vectors.json")), &vectors); err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors.Ruby {
		entries, complaints := parse(t, v.In)
		if len(entries) != 1 || complaints != nil {
			t.Errorf("%q: got %+v, %q", v.In, entries, complaints)
			continue
		}
		got := entries[0]
		if want := v.Entry; want.SourceFileOrURL != "" && (got.Source != want.SourceFileOrURL || got.Alg != want.Alg || got.Digest != want.Digest) {
			t.Errorf("%q: got %+v, want %+v", v.In, got, want)
		}
	}
}
