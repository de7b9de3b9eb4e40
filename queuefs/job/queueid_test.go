package job_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"cutie/queuefs/job"
)

func TestCleanQueueID(t *testing.T) {
	for in, want := range map[string]string{
		"jobs":                    "jobs",
		"Jobs-1_a~":               "Jobs-1_a~",
		"ark:/13030/xt12t3":       "ark+=13030=xt12t3",
		"http://n2t.info/urn:x":   "http+==n2t,info=urn+x",
		"what-the-*@?#!^!~?":      "what-the-^2a@^3f^23!^5e!~^3f", // but for #, as Pairtree has it
		"a.b":                     "a,b",
		"a,b":                     "a,b",
		"a+b":                     "a+b",
		"a+b:c":                   "a^2bb+c",
		"a b":                     "a^20b",
		"a^20b":                   "a^20b",
		"a^2":                     "a^5e2",
		"a^2F":                    "a^5e2F",
		"%2e%2e":                  "^252e^252e",
		"%2f":                     "^252f",
		"a/../b":                  "a=,,=b",
		"../b":                    ",,=b",
		"/abs":                    "=abs",
		`a\b`:                     "a^5cb",
		"tab\t":                   "tab^09",
		"日本":                      "^e6^97^a5^e6^9c^ac",
		"é":                       "^c3^a9",
		"x;y&z'":                  "x^3by^26z^27",
		"-rf":                     "-rf",
		strings.Repeat("q", 200):  strings.Repeat("q", 200),
		strings.Repeat("é", 33):   strings.Repeat("^c3^a9", 33),
		"acutie":                  "acutie",
		"CON":                     "CON",
		"\u202ecod.":              "^e2^80^aecod,",
		"queue\x01":               "queue^01",
		"<script>alert</script>":  "^3cscript^3ealert^3c=script^3e",
		"name|pipe \"quote\"":     "name^7cpipe^20^22quote^22",
		strings.Repeat("a/", 100): strings.Repeat("a=", 100),
	} {
		got, err := job.CleanQueueID(in)
		if err != nil || got != want {
			t.Errorf("%q: got %q, %v want %q", in, got, err, want)
		}
		if again, err := job.CleanQueueID(got); again != got || err != nil {
			t.Errorf("%q: cleaned again %q, %v", got, again, err)
		}
	}
	for _, in := range []string{
		"", ".", "..", "...", "/", "//", "./.", "a\x00b", "a\nb", "a\rb", "\xff", "a\xc3",
		"cutie", "Cutie-x", "CUT", "cutlery", "merritt", "MERRIT", "mrt", "Mrt1",
		strings.Repeat("q", 201), strings.Repeat("é", 34), strings.Repeat("x", 10<<10), strings.Repeat("%", 100),
	} {
		if got, err := job.CleanQueueID(in); !errors.Is(err, job.ErrBadName) || got != "" || len(err.Error()) > 400 {
			t.Errorf("%.40q: got %.40q, %v", in, got, err)
		}
	}
}

func FuzzCleanQueueID(f *testing.F) {
	for _, s := range []string{"jobs", "ark:/1/x", "a^20b", "..", "%2f", "a.b,c", "é", "^", "^c3", "cut", "\x7f", "=,", "a+b:c"} {
		f.Add(s)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, in string) {
		id, err := job.CleanQueueID(in)
		if err != nil {
			if id != "" || !errors.Is(err, job.ErrBadName) {
				t.Fatalf("%q: got %q, %v", in, id, err)
			}
			return
		}
		if len(id) > 200 || filepath.Base(id) != id || filepath.Join(dir, id) != dir+"/"+id || id == "." || id == ".." {
			t.Fatalf("%q: %q is not one element of a path", in, id)
		}
		for i := range len(id) {
			if c := id[i]; c <= 0x20 || c >= 0x7f || strings.IndexByte(`/\:*?"<>|%#&;'.`, c) >= 0 {
				t.Fatalf("%q: %q has %q", in, id, c)
			}
		}
		low := strings.ToLower(id)
		for _, p := range []string{"cut", "merrit", "mrt"} {
			if strings.HasPrefix(low, p) {
				t.Fatalf("%q: %q is reserved", in, id)
			}
		}
		if again, err := job.CleanQueueID(id); again != id || err != nil {
			t.Fatalf("%q: cleaned %q, again %q, %v", in, id, again, err)
		}
	})
}
