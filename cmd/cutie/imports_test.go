package main_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layers is the import table of the module, top to bottom. A package imports
// packages of lower layers only.
var layers = [][]string{
	{"cmd/cutie", "cmd/bench"},
	{"cmd/cutie/doctor", "cmd/cutie/work"},
	{"cmd/cutie/reach"},
	{"cmd/cutie/daemon", "cmd/cutie/fault"},
	{"cmd/cutie/listen", "cmd/cutie/dashboard"},
	{"cmd/cutie/access", "cmd/cutie/callback", "cmd/cutie/mirror", "cmd/cutie/traces"},
	{"queuefs/rest", "queuefs/rest/client", "queuefs/uws", "publisher", "publisher/rdm", "publisher/destination", "queuefs/state/statetest", "cmd/cutie/topics"},
	{"publisher/set"},
	{"publisher/destination/source", "publisher/options", "queuefs/rest/field", "queuefs/rest/openapi"},
	{"queuefs/batch", "queuefs/bulk", "queuefs/check", "queuefs/events", "queuefs/quota", "publisher/answer", "publisher/about", "publisher/entries", "publisher/store", "publisher/websub"},
	{"publisher/destination/local", "queuefs/web", "publisher/names"},
	{"queuefs", "queuefs/state", "wellknown", "publisher/dump", "publisher/compose", "publisher/push"},
	{"queuefs/far", "queuefs/imaging"},
	{"queuefs/compare", "queuefs/properties", "queuefs/replay"},
	{"queuefs/content", "queuefs/snapshot", "queuefs/stored"},
	{"queuefs/ledger", "queuefs/packs"},
	{"queuefs/tree", "queuefs/image", "queuefs/upload", "queuefs/record", "queuefs/indexfile", "queuefs/home"},
	{"queuefs/journal/segment", "queuefs/journal/bucket", "queuefs/journal/journaltest", "queuefs/index", "queuefs/objects/s3", "queuefs/objects/objectstest"},
	{"queuefs/journal", "queuefs/watch"},
	{"queuefs/job", "queuefs/catalog"},
	{"sitemap", "queuefs/durable", "queuefs/anvl", "queuefs/checkm", "queuefs/outbound", "queuefs/digest", "queuefs/namaste", "queuefs/buffers", "queuefs/objects", "publisher/soif"},
}

// allowed are imports within a layer: state describes the types of queuefs.
var allowed = map[[2]string]bool{
	{"queuefs/state", "queuefs"}: true,
}

// banned is what a package must not reach, not even through another package of
// the module.
var banned = map[string][]string{
	"queuefs":               {"net", "net/http", "encoding/xml", "encoding/json", "sitemap", "wellknown", "publisher"},
	"publisher/destination": {"publisher", "queuefs"},
	"sitemap":               {"net/http"},
}

func TestImportsPointDown(t *testing.T) {
	imports, err := moduleImports("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, complaint := range complaints(imports) {
		t.Error(complaint)
	}
	for _, pkg := range slices.Concat(layers...) {
		if _, there := imports[pkg]; !there {
			t.Errorf("%s is in the import table, and not in the module", pkg)
		}
	}
}

// The pages about the rooms must not send readers to files that are gone.
func TestPagesNameFilesThatExist(t *testing.T) {
	paths := regexp.MustCompile("`((?:queuefs|publisher|cmd)/[A-Za-z0-9_/.]+)`")
	for _, page := range []string{"queuefs/INTERNALS.md", "publisher/INTERNALS.md", "README.md"} {
		text, err := os.ReadFile("../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		found := paths.FindAllStringSubmatch(string(text), -1)
		if len(found) == 0 {
			t.Errorf("%s names no file", page)
		}
		for _, m := range found {
			if _, err := os.Stat("../../" + m[1]); err != nil {
				t.Errorf("%s names %s, which is not there", page, m[1])
			}
		}
	}
}

// A room that no page names is a room that nobody finds.
func TestPagesNameEveryRoom(t *testing.T) {
	words := regexp.MustCompile(`[a-z0-9/]+`)
	named := func(page string) []string {
		text, err := os.ReadFile("../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		return words.FindAllString(string(text), -1)
	}
	engine, source, program := named("queuefs/INTERNALS.md"), named("publisher/INTERNALS.md"), named("cmd/cutie/main.go")
	for _, pkg := range slices.Concat(layers...) {
		rooms := source
		switch {
		case strings.HasPrefix(pkg, "queuefs"):
			rooms = engine
		case strings.HasPrefix(pkg, "cmd"):
			rooms = program
		}
		short := strings.TrimPrefix(strings.TrimPrefix(pkg, "queuefs/"), "cmd/cutie/")
		if pkg != "cmd/cutie" && !slices.Contains(rooms, pkg) && !slices.Contains(rooms, short) && !strings.HasSuffix(pkg, "test") {
			t.Errorf("no page names %s", pkg)
		}
	}
}

func TestImportTableComplains(t *testing.T) {
	for _, tt := range []struct {
		name    string
		imports map[string][]string
		want    string
	}{
		{"up", map[string][]string{"queuefs": {"queuefs/rest"}}, "queuefs imports queuefs/rest, which is not below it"},
		{"beside", map[string][]string{"publisher": {"queuefs/rest"}}, "publisher imports queuefs/rest, which is not below it"},
		{"codec", map[string][]string{"sitemap": {"queuefs/digest"}}, "sitemap imports queuefs/digest, which is not below it"},
		{"unknown", map[string][]string{"util": nil}, "util is not in the import table"},
		{"banned", map[string][]string{"queuefs": {"net/http"}}, "queuefs reaches net/http"},
		{"banned behind", map[string][]string{"queuefs": {"queuefs/anvl"}, "queuefs/anvl": {"net/http"}}, "queuefs reaches net/http"},
		{"slow", map[string][]string{"sitemap": {"compress/gzip"}}, "sitemap imports compress/gzip: github.com/klauspost/compress/gzip is faster"},
		{"mirror", map[string][]string{"publisher/destination": {"queuefs"}}, "publisher/destination reaches queuefs"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := complaints(tt.imports); !slices.Contains(got, tt.want) {
				t.Errorf("got %q, want %q among them", got, tt.want)
			}
		})
	}
	fine := map[string][]string{"cmd/cutie": {"queuefs", "net/http"}, "queuefs": {"queuefs/anvl", "os"}, "queuefs/state": {"queuefs"}, "queuefs/anvl": nil}
	if got := complaints(fine); len(got) > 0 {
		t.Errorf("got %q, want no complaint", got)
	}
}

func layerOf(pkg string) int {
	return slices.IndexFunc(layers, func(l []string) bool { return slices.Contains(l, pkg) })
}

// complaints lists what in imports, package to imported packages, breaks the
// table. Packages of the module stand without its name.
func complaints(imports map[string][]string) (list []string) {
	for _, pkg := range slices.Sorted(maps.Keys(imports)) {
		if layerOf(pkg) < 0 {
			list = append(list, pkg+" is not in the import table")
			continue
		}
		for _, dep := range imports[pkg] {
			if l := layerOf(dep); l >= 0 && l <= layerOf(pkg) && !allowed[[2]string{pkg, dep}] {
				list = append(list, fmt.Sprintf("%s imports %s, which is not below it", pkg, dep))
			}
			if strings.HasPrefix(dep, "compress/") {
				list = append(list, fmt.Sprintf("%s imports %s: github.com/klauspost/%s is faster", pkg, dep, dep))
			}
		}
		reached := map[string]bool{}
		reach(imports, pkg, reached)
		for _, b := range banned[pkg] {
			if reached[b] {
				list = append(list, fmt.Sprintf("%s reaches %s", pkg, b))
			}
		}
	}
	return list
}

func reach(imports map[string][]string, pkg string, reached map[string]bool) {
	for _, dep := range imports[pkg] {
		if !reached[dep] {
			reached[dep] = true
			reach(imports, dep, reached)
		}
	}
}

// moduleImports reads the imports of every package below root, tests left out.
func moduleImports(root string) (map[string][]string, error) {
	goMod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, err
	}
	line, _, _ := strings.Cut(string(goMod), "\n")
	module := strings.TrimPrefix(line, "module ") + "/"
	imports := map[string][]string{}
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(name))
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(dir)
		for _, spec := range file.Imports {
			dep, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			imports[pkg] = append(imports[pkg], strings.TrimPrefix(dep, module))
		}
		if imports[pkg] == nil {
			imports[pkg] = []string{}
		}
		return nil
	})
	return imports, err
}
