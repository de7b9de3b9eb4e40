package queuefs_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"cutie/queuefs"
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
		got, err := queuefs.CleanQueueID(in)
		if err != nil || got != want {
			t.Errorf("%q: got %q, %v want %q", in, got, err, want)
		}
		if again, err := queuefs.CleanQueueID(got); again != got || err != nil {
			t.Errorf("%q: cleaned again %q, %v", got, again, err)
		}
	}
	for _, in := range []string{
		"", ".", "..", "...", "/", "//", "./.", "a\x00b", "a\nb", "a\rb", "\xff", "a\xc3",
		"cutie", "Cutie-x", "CUT", "cutlery", "merritt", "MERRIT", "mrt", "Mrt1",
		strings.Repeat("q", 201), strings.Repeat("é", 34), strings.Repeat("x", 10<<10), strings.Repeat("%", 100),
	} {
		if got, err := queuefs.CleanQueueID(in); !errors.Is(err, queuefs.ErrBadName) || got != "" || len(err.Error()) > 400 {
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
		id, err := queuefs.CleanQueueID(in)
		if err != nil {
			if id != "" || !errors.Is(err, queuefs.ErrBadName) {
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
		if again, err := queuefs.CleanQueueID(id); again != id || err != nil {
			t.Fatalf("%q: cleaned %q, again %q, %v", in, id, again, err)
		}
	})
}

func TestParseJobID(t *testing.T) {
	for id, want := range map[queuefs.JobID]string{1: "j000000000001", 42: "j000000000042", 999_999_999_999: "j999999999999"} {
		if got := id.String(); got != want {
			t.Errorf("%d: got %s want %s", uint64(id), got, want)
		}
		if got, err := queuefs.ParseJobID(want); got != id || err != nil {
			t.Errorf("%s: got %v, %v", want, got, err)
		}
	}
	for _, in := range []string{
		"", "j", "j1", "j000000000000", "j00000000001", "j0000000000001", "J000000000001", "000000000001", "j00000000000a",
		"j-00000000001", "j+00000000001", " j000000000001", "j000000000001 ", "j000000000001\n", "j00000000000\x00", "j00000000000\u0661", "../../etc/passw",
		"j000000000001/", "%6a000000000001", strings.Repeat("j000000000001", 1000),
	} {
		if got, err := queuefs.ParseJobID(in); !errors.Is(err, queuefs.ErrBadName) || got != 0 || len(err.Error()) > 400 {
			t.Errorf("%.40q: got %v, %v", in, got, err)
		}
	}
}

func FuzzParseJobID(f *testing.F) {
	f.Add("j000000000001")
	f.Add("j00000000000\u0661")
	f.Fuzz(func(t *testing.T, in string) {
		id, err := queuefs.ParseJobID(in)
		if err == nil && (id.String() != in || id == 0) || err != nil && id != 0 {
			t.Fatalf("%q: got %v, %v", in, id, err)
		}
	})
}

func TestNamesOfStatusAndKind(t *testing.T) {
	for st := queuefs.Pending; st <= queuefs.Deleted; st++ {
		if got, err := queuefs.ParseStatus(st.String()); got != st || err != nil {
			t.Errorf("%v: got %v, %v", st, got, err)
		}
	}
	for _, in := range []string{"", "Pending", "PENDING", "all", "pending ", "Status(4)"} {
		if got, err := queuefs.ParseStatus(in); !errors.Is(err, queuefs.ErrBadName) || got != 0 {
			t.Errorf("%q: got %v, %v", in, got, err)
		}
	}
	if queuefs.Status(9).String() != "Status(9)" || queuefs.Kind(99).String() != "Kind(99)" || queuefs.Requeue.String() != "requeue" {
		t.Error("names of numbers without one")
	}
}
