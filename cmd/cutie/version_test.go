package main

import (
	"os/exec"
	"strings"
	"testing"
)

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
