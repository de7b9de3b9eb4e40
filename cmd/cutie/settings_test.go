package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"cutie/cmd/cutie/fault"
)

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
		if err := os.WriteFile(name, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		s := freshSettings()
		s.config = name
		err := s.fill(func(string) bool { return false }, func(name string) string { return map[string]string{"CUTIE_MAX_CONNS": c.variable}[name] })
		if err == nil {
			t.Errorf("%q: no error", c.text)
			continue
		}
		if text, hint := fault.Words(err); !strings.HasPrefix(text, c.want) || hint != c.hint {
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
	if err := freshSettings().writeDefault(&text); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cutie.toml")
	if err := os.WriteFile(file, []byte(regexp.MustCompile(`(?m)^#([a-z])`).ReplaceAllString(text.String(), "$1")), 0o600); err != nil {
		t.Fatal(err)
	}
	filled, unset := freshSettings(), freshSettings()
	filled.config = file
	none := func(string) bool { return false }
	nothing := func(string) string { return "" }
	if err := errors.Join(filled.fill(none, nothing), unset.fill(none, nothing)); err != nil {
		t.Fatal(err)
	}
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
	if err := unix.Statfs(dir, &disk); err != nil {
		t.Fatal(err)
	}
	all := int64(disk.Blocks) * disk.Bsize
	for text, want := range map[string]int64{"0": 0, "64K": 64 << 10, "1%": all / 100, "50%": all / 100 * 50, "100%": all / 100 * 100} {
		s, err := parseShare(text)
		if err != nil {
			t.Fatal(err)
		}
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
