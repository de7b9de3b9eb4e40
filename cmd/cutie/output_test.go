package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

// files returns the names and contents in a directory.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	all := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		must(t, err)
		all[e.Name()] = string(text)
	}
	return all
}

func TestFileAppearsWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	s := sink{Name: filepath.Join(dir, "out")}
	bad := errors.New("bad")
	err := s.Text(func(w io.Writer) error {
		io.WriteString(w, "half")
		return bad
	})
	if got := files(t, dir); err != bad || len(got) > 0 {
		t.Errorf("got %v, %q, want no file", err, got)
	}
	for _, text := range []string{"first\n", "second\n"} {
		must(t, s.Emit([]byte(text)))
		if got := files(t, dir); len(got) != 1 || got["out"] != text {
			t.Errorf("got %q, want %q alone", got, text)
		}
	}
}

func TestFileBehindALinkIsWrittenInPlace(t *testing.T) {
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
	link := filepath.Join(dir, "link")
	must(t, errors.Join(os.WriteFile(other, []byte("longer than before"), 0o666), os.Symlink(other, link)))
	s := sink{Name: link}
	must(t, s.Emit([]byte("new")))
	if got, err := os.ReadFile(other); err != nil || string(got) != "new" {
		t.Errorf("got %q, %v, want new", got, err)
	}
}

func TestTableInAFile(t *testing.T) {
	dir := t.TempDir()
	s := sink{Name: filepath.Join(dir, "out")}
	unfinished := s.Table("NUMBER", "TEXT")
	table := s.Table("NUMBER", "TEXT")
	var want strings.Builder
	for i := range 2500 {
		must(t, errors.Join(table.Row(i, "a\tb\x1b"), unfinished.Row(i, "")))
		fmt.Fprintf(&want, "%d\ta?b?\n", i)
	}
	unfinished.Discard()
	must(t, table.End())
	if got := files(t, dir); len(got) != 1 || got["out"] != want.String() {
		t.Errorf("got %d files, %.100q, want %.100q", len(got), got["out"], want.String())
	}
}

func TestOctets(t *testing.T) {
	for text, want := range map[string]string{"0": "0", "512": "512", "64K": "64K", "1024": "1K", "16G": "16G", "1536K": "1536K", "8388607T": "8388607T"} {
		var o octets
		if err := o.Set(text); err != nil || o.String() != want {
			t.Errorf("%s: got %s, %v, want %s", text, o.String(), err, want)
		}
	}
	for _, text := range []string{"", "K", "-1", "1k", "1KK", "K1", "1.5G", "8388608T", "1 K", "+"} {
		var o octets
		if err := o.Set(text); err == nil {
			t.Errorf("%q: got %s, want an error", text, o.String())
		}
	}
}

func freshSettings() *settings {
	home, fs := "home", pflag.NewFlagSet("serve", pflag.ContinueOnError)
	fs.StringVar(&home, "home", home, "")
	return newSettings(fs, &home)
}

func TestErrorsNameFileLineAndCure(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "cutie.toml")
	for _, c := range []struct{ text, variable, want, hint string }{
		{"listen = ':80'\n\nlissten = ':81'\n", "", name + `:3: there is no setting "lissten"`, "did you mean listen? cutie config default lists them"},
		{"# settings\n[serve]\nlisten = ':80'\n", "", name + `:2: there is no setting "serve"`, "cutie config default lists them"},
		{"yes = true\n", "", name + `:1: there is no setting "yes"`, "cutie config default lists them"},
		{"listen = ':80'\nmax-conns = 'many'\n", "", name + `:2: --max-conns "many" is not a whole number in range`, ""},
		{"\n\"max-conns\" = 1.5\n", "", name + `:2: max-conns: 1.5 is neither a string, a whole number, true nor false`, ""},
		{"listen = [':80',\n':81']\n", "", name + `:1: listen takes one value, not a list`, ""},
		{"a.listen = 1\n", "", name + `:1: there is no setting "a"`, "cutie config default lists them"},
		{"listen = ':80'\nlisten = ':81'\n", "", name + `:2:1: key listen is already defined`, ""},
		{"listen = ':80\n", "", name + `:1:`, ""},
		{"max-conns = 1\n", "many", `CUTIE_MAX_CONNS: --max-conns "many" is not a whole number in range`, ""},
	} {
		must(t, os.WriteFile(name, []byte(c.text), 0o600))
		s := freshSettings()
		s.config = name
		err := s.fill(func(string) bool { return false }, func(name string) string { return map[string]string{"CUTIE_MAX_CONNS": c.variable}[name] })
		if err == nil {
			t.Errorf("%q: no error", c.text)
			continue
		}
		if text, hint := wordsOf(err); !strings.HasPrefix(text, c.want) || hint != c.hint {
			t.Errorf("%q: got %q, hint %q, want %q, hint %q", c.text, text, hint, c.want, c.hint)
		}
	}
}

func TestVariablesThatSetNothing(t *testing.T) {
	t.Parallel()
	got := freshSettings().strays([]string{"CUTIE_YES=1", "PATH=/bin", "CUTIE_MAX_CONNS=1", "CUTIE_TLS_=1", "CUTIE_MAX_WAIT=1", "CUTIE_CONS=", "CUTIE_MAXCONNS=a=b", "cutie_max_waits=1",
		"CUTIE_URL=u", "CUTIE_JOB=j", "CUTIE_=1", "CUTIE_OTHER"})
	want := []stray{{"CUTIE_", ""}, {"CUTIE_MAXCONNS", "CUTIE_MAX_CONNS"}, {"CUTIE_MAX_WAIT", "CUTIE_MAX_WAITS"},
		{"CUTIE_TLS_", "CUTIE_TLS_CERT or CUTIE_TLS_KEY"}, {"CUTIE_YES", ""}}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What config default prints is what holds without a file.
func TestTheFileOfDefaultsHasTheDefaults(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	must(t, freshSettings().writeDefault(&text))
	file := filepath.Join(t.TempDir(), "cutie.toml")
	must(t, os.WriteFile(file, []byte(regexp.MustCompile(`(?m)^#([a-z])`).ReplaceAllString(text.String(), "$1")), 0o600))
	filled, unset := freshSettings(), freshSettings()
	filled.config = file
	none := func(string) bool { return false }
	nothing := func(string) string { return "" }
	must(t, errors.Join(filled.fill(none, nothing), unset.fill(none, nothing)))
	for i, e := range filled.all {
		if want := unset.all[i].text; e.from != fromFile || e.text != want {
			t.Errorf("%s: got %q of %s, want %q of the file", e.name, e.text, e.from, want)
		}
		if e.why == "" {
			t.Errorf("%s does not say why one would change it", e.name)
		}
	}
}

func TestShare(t *testing.T) {
	dir := t.TempDir()
	var disk unix.Statfs_t
	must(t, unix.Statfs(dir, &disk))
	all := int64(disk.Blocks) * disk.Bsize
	for text, want := range map[string]int64{"0": 0, "64K": 64 << 10, "1%": all / 100, "50%": all / 100 * 50, "100%": all / 100 * 100} {
		s, err := parseShare(text)
		must(t, err)
		got, err := s.on(dir)
		if got != want || err != nil {
			t.Errorf("%s: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "%", "0%", "101%", "-5%", "5.5%", "5 %", "5%%", "x"} {
		if s, err := parseShare(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, s)
		}
	}
}

func TestExpires(t *testing.T) {
	now := time.Date(2026, 11, 21, 1, 2, 3, 4, time.UTC)
	for text, want := range map[string]string{
		"30d":        "2026-12-21T01:02:03Z",
		"12h":        "2026-11-21T13:02:03Z",
		"1h30m":      "2026-11-21T02:32:03Z",
		"2026-11-22": "2026-11-22T00:00:00Z",
		"never":      "0001-01-01T00:00:00Z",
	} {
		if at, err := parseExpires(text, now); err != nil || at.Format(time.RFC3339) != want {
			t.Errorf("%s: got %v, %v, want %s", text, at, err, want)
		}
	}
	for _, text := range []string{"", "d", "-1d", "0d", "-3h", "100000000d", "2026-11-21", "2026-13-01", "tomorrow"} {
		if at, err := parseExpires(text, now); err == nil {
			t.Errorf("%q: got %v, want an error", text, at)
		}
	}
}

func TestTimesToCome(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	local := func(h, m, s int) time.Time { return time.Date(2026, 11, 25, h, m, s, 0, time.Local) }
	for s, want := range map[string]time.Time{
		"":                          {},
		"2026-11-25T08:00:00Z":      time.Date(2026, 11, 25, 8, 0, 0, 0, time.UTC),
		"2026-11-25T08:00:00+02:00": time.Date(2026, 11, 25, 6, 0, 0, 0, time.UTC),
		"2026-11-25T08:00:00.5Z":    time.Date(2026, 11, 25, 8, 0, 0, 5e8, time.UTC),
		"2026-11-25T08:00Z":         time.Date(2026, 11, 25, 8, 0, 0, 0, time.UTC),
		"2026-11-25":                local(0, 0, 0),
		"2026-11-25T08:30":          local(8, 30, 0),
		"2026-11-25 08:30:15":       local(8, 30, 15),
		"90m":                       now.Add(90 * time.Minute),
		"7d":                        now.Add(7 * 24 * time.Hour),
	} {
		if got, err := parseWhen("until", s, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: got %v, %v want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"soon", "5", "-5m", "0s", "0d", "-1d", "99999d", "25.11.2026", "2026-13-01"} {
		if got, err := parseWhen("until", s, now); err == nil {
			t.Errorf("%q: got %v", s, got)
		}
	}
}

func TestBatches(t *testing.T) {
	files := func(sizes ...int64) (list []payload) {
		for _, s := range sizes {
			list = append(list, payload{size: s})
		}
		return list
	}
	small := make([]int64, batchFiles+1)
	for _, tt := range []struct {
		name  string
		sizes []int64
		want  []int // files in each batch
	}{
		{"one", []int64{1}, []int{1}},
		{"too many", small, []int{batchFiles, 1}},
		{"too much", []int64{batchOctets - 1, 1, 1}, []int{2, 1}},
		{"large alone", []int64{1, batchOctets + 1, 1}, []int{1, 1, 1}},
		{"pipes alone", []int64{-1, -1, 0, 0}, []int{1, 3}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []int
			for rest := files(tt.sizes...); len(rest) > 0; {
				var batch []payload
				batch, rest = nextBatch(rest)
				got = append(got, len(batch))
			}
			if len(got) != len(tt.want) {
				t.Fatalf("got %v, want %v", got, tt.want)
			}
			for i := range got {
				if got[i] != tt.want[i] {
					t.Fatalf("got %v, want %v", got, tt.want)
				}
			}
		})
	}
}

// The licences printed are those of the modules linked in.
func TestLicenses(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}", ".").Output()
	if err != nil {
		t.Skip("the go command lists no modules: ", err)
	}
	table, _, _ := strings.Cut(licenses, "\n\n")
	printed := map[string]bool{}
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 3 {
			t.Fatalf("a line without a licence: %q", line)
		}
		printed[f[0]+" "+f[1]] = true
	}
	delete(printed, "go -")
	linked := map[string]bool{}
	for _, m := range strings.Fields(strings.ReplaceAll(string(out), " ", "@")) {
		m = strings.ReplaceAll(m, "@", " ")
		if linked[m] = true; !printed[m] {
			t.Errorf("%s is linked in and not in licenses.txt: run make licenses", m)
		}
	}
	for m := range printed {
		if !linked[m] {
			t.Errorf("%s is in licenses.txt and not linked in: run make licenses", m)
		}
	}
}
