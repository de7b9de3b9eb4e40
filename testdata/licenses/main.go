// Licenses writes the licences of all modules linked into the program.
//
//	go run ./testdata/licenses > cmd/cutie/licenses.txt
//
// A module without a licence, or with one that is not permissive, is an error. First
// comes a table of modules, versions and SPDX identifiers, then each text, once for all
// modules with the same.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

const identify = "github.com/google/licenseclassifier/v2/tools/identify_license@v2.0.0"

// permissive licences ask for their text and the names of authors, no more.
var permissive = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"}

var (
	// texts are the names of files to print, licences of the others are told by them.
	texts    = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)`)
	licences = regexp.MustCompile(`(?i)^(licen[cs]e|copying)`)
)

type module struct {
	path, version, dir string
	spdx               []string
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

func run() error {
	modules, err := linked()
	if err != nil {
		return err
	}
	var texts []string // in the order of their first module
	of := map[string][]string{}
	var told []string // files to identify
	for _, m := range modules {
		files, err := m.files()
		if err != nil {
			return err
		}
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				return err
			}
			text := strings.TrimSpace(string(bytes.ReplaceAll(data, []byte("\r"), nil)))
			if of[text] == nil {
				texts = append(texts, text)
			}
			of[text] = append(of[text], m.path+" "+filepath.Base(f))
			if licences.MatchString(filepath.Base(f)) {
				told = append(told, f)
			}
		}
	}
	names, err := identified(told)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, m := range modules {
		for f, spdx := range names {
			if filepath.Dir(f) == m.dir {
				m.spdx = append(m.spdx, spdx...)
			}
		}
		slices.Sort(m.spdx)
		m.spdx = slices.Compact(m.spdx)
		if len(m.spdx) == 0 {
			return fmt.Errorf("%s %s: no known licence in %s", m.path, m.version, m.dir)
		}
		for _, s := range m.spdx {
			if !slices.Contains(permissive, s) {
				return fmt.Errorf("%s %s: licence %s may not be linked in", m.path, m.version, s)
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", m.path, m.version, strings.Join(m.spdx, ", "))
	}
	table.Flush()
	for _, text := range texts {
		fmt.Fprintf(out, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 72), strings.Join(of[text], "\n"), text)
	}
	return out.Flush()
}

// linked returns the modules of the program for all its platforms, Go itself first.
func linked() ([]*module, error) {
	goroot, err := command(nil, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	root := strings.TrimSpace(goroot)
	modules := []*module{{path: "go", version: "-", dir: root}} // any version has the same
	seen := map[string]bool{}
	for _, arch := range []string{"amd64", "arm64"} {
		list, err := command([]string{"GOOS=linux", "GOARCH=" + arch, "CGO_ENABLED=0"}, "go", "list", "-deps",
			"-f", "{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Version}}\t{{.Dir}}{{end}}{{end}}", "./cmd/cutie")
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(list) {
			f := strings.Split(strings.TrimSpace(line), "\t")
			if len(f) == 3 && !seen[f[0]] {
				seen[f[0]] = true
				modules = append(modules, &module{path: f[0], version: f[1], dir: f[2]})
			}
		}
	}
	slices.SortFunc(modules[1:], func(a, b *module) int { return strings.Compare(a.path, b.path) })
	return modules, nil
}

// files returns the files with texts about the licence of a module.
func (m *module) files() (paths []string, err error) {
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Type().IsRegular() && texts.MatchString(e.Name()) && filepath.Ext(e.Name()) != ".go" {
			paths = append(paths, filepath.Join(m.dir, e.Name()))
		}
	}
	return paths, nil
}

// identified returns the SPDX identifiers of the licences in each file.
func identified(files []string) (map[string][]string, error) {
	out, err := command(nil, "go", append([]string{"run", identify}, files...)...)
	if err != nil {
		return nil, err
	}
	names := map[string][]string{}
	for line := range strings.Lines(out) {
		file, rest, _ := strings.Cut(line, " ")
		spdx, _, ok := strings.Cut(rest, " (")
		if ok && spdx != "Copyright:Copyright" {
			names[file] = append(names[file], spdx)
		}
	}
	return names, nil
}

func command(env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args[:2], " "), err, stderr.Bytes())
	}
	return string(out), nil
}
