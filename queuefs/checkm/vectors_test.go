package checkm_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"cutie/queuefs/checkm"
)

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
