package main_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cutie/testdata/long"
)

// outside is a program of somebody else.
const outside = `package main

import (
	"context"
	"fmt"

	"forge.example/archive/cutie/queuefs/rest/client"
)

func main() {
	ids, err := client.New("http://127.0.0.1:8080/", nil).Submit(context.Background(), "jobs", client.Bytes([]byte("hello")))
	fmt.Println(ids, err)
}
`

// The commands of CONTRIBUTING give a copy of the module another path. Then a program of
// another module imports it.
func TestModulePathCanBeChanged(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../.github/CONTRIBUTING.md")
	must(t, err)
	blocks := blocksOf(string(text), "Where the module lives")
	if len(blocks) != 2 {
		t.Fatalf("got %d blocks of commands, want 2: %q", len(blocks), blocks)
	}
	dir := t.TempDir()
	there, program := filepath.Join(dir, "cutie"), filepath.Join(dir, "outside")
	in := func(dir, script string) string {
		t.Helper()
		cmd := exec.Command("sh", "-ec", script)
		cmd.Dir = dir
		// Everything needed is on this machine already.
		cmd.Env = append(os.Environ(), "GOPROXY=off", "GOWORK=off", "GOFLAGS=-mod=mod")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", script, err, out)
		}
		return string(out)
	}
	must(t, errors.Join(os.Mkdir(there, 0o777), os.Mkdir(program, 0o777), os.WriteFile(filepath.Join(program, "main.go"), []byte(outside), 0o666)))
	in("../..", "cp -r go.mod go.sum Makefile cmd publisher queuefs sitemap testdata wellknown "+there)
	in(there, blocks[0])
	if left := in(there, `grep -rE '^(import )?[[:space:]]*([A-Za-z_.]+ )?"cutie/[a-z0-9/]*"$' --include='*.go' . || true`); left != "" {
		t.Errorf("imports by the former path: %s", left)
	}
	in(program, "go mod init outside.example/program && cp ../cutie/go.sum . && "+blocks[1])
	if deps := in(program, "go list -deps ."); !strings.Contains(deps, "forge.example/archive/cutie/queuefs/rest/client\n") || strings.Contains(deps, "/cutie/cmd/") {
		t.Errorf("the program is made of %s", deps)
	}
	if long.On() {
		in(program, "go build -o program .")
		in(there, "go vet ./... && go test -run Import ./cmd/cutie")
	}
}

// blocksOf returns the indented blocks below a heading of a page, without the indents.
func blocksOf(page, heading string) (blocks []string) {
	_, page, _ = strings.Cut(page, "\n## "+heading+"\n")
	page, _, _ = strings.Cut(page, "\n## ")
	in := false
	for line := range strings.Lines(page) {
		text, code := strings.CutPrefix(line, "    ")
		if code && !in {
			blocks = append(blocks, "")
		}
		if code {
			blocks[len(blocks)-1] += text
		}
		in = code
	}
	return blocks
}

// layers is the import table of the module, top to bottom. A package imports
// packages of lower layers only.
var layers = [][]string{
	{"cmd/cutie", "cmd/bench"},
	{"cmd/cutie/daemon"},
	{"cmd/cutie/listen", "cmd/cutie/dashboard"},
	{"cmd/cutie/access", "cmd/cutie/mirror", "cmd/cutie/traces"},
	{"queuefs/rest", "queuefs/rest/client", "queuefs/uws", "publisher", "publisher/rdm", "publisher/destination", "queuefs/state/statetest", "cmd/cutie/topics"},
	{"publisher/set"},
	{"publisher/destination/source", "queuefs/rest/field"},
	{"queuefs/bulk", "queuefs/check", "queuefs/events", "queuefs/quota", "publisher/hub"},
	{"publisher/destination/local", "queuefs/web", "publisher/names"},
	{"queuefs", "queuefs/state", "wellknown"},
	{"queuefs/far", "queuefs/imaging"},
	{"queuefs/replay"},
	{"queuefs/content", "queuefs/snapshot", "queuefs/stored"},
	{"queuefs/dir"},
	{"queuefs/ledger", "queuefs/packs"},
	{"queuefs/image", "queuefs/record", "queuefs/table"},
	{"queuefs/home"},
	{"queuefs/journal/segment", "queuefs/journal/bucket", "queuefs/journal/journaltest", "queuefs/index", "queuefs/objects/s3", "queuefs/objects/objectstest"},
	{"queuefs/journal", "queuefs/watch"},
	{"queuefs/job"},
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
	must(t, err)
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
		must(t, err)
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
		must(t, err)
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

// mayReadBodies are the files that touch the body of a request to this process: the one way
// to read it, with its limits, and what passes it on unread.
var mayReadBodies = []string{
	"queuefs/web/body.go", "cmd/cutie/daemon/pace.go", "cmd/cutie/daemon/passing.go", "cmd/cutie/daemon/inprocess.go",
}

// asks are the folders and files of clients, whose requests go out.
var asks = []string{"queuefs/rest/client", "queuefs/outbound", "queuefs/rest/manifest.go", "publisher/destination", "cmd/bench"}

// readsOfBodies returns the places in a file that read the body of a request by another way
// than [web.NewBodyReader]: by the methods of the standard library, or by its field.
func readsOfBodies(fset *token.FileSet, file *ast.File) (found []string) {
	ways := []string{"ParseMultipartForm", "FormValue", "PostFormValue", "FormFile", "MultipartReader", "PostForm", "MultipartForm", "MaxBytesReader", "MaxBytesHandler"}
	see := func(n ast.Node, what string) {
		found = append(found, fmt.Sprintf("%s: %s", fset.Position(n.Pos()), what))
	}
	requests := map[string]bool{} // parameters of the functions around
	var visit func(n ast.Node) bool
	within := func(typ *ast.FuncType, recv *ast.FieldList, body *ast.BlockStmt) {
		if body == nil {
			return
		}
		before := requests
		requests = map[string]bool{}
		maps.Copy(requests, before)
		fields := typ.Params.List
		if recv != nil {
			fields = append(slices.Clone(fields), recv.List...)
		}
		for _, field := range fields {
			for _, name := range field.Names {
				requests[name.Name] = isRequest(field.Type)
			}
		}
		ast.Inspect(body, visit)
		requests = before
	}
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			within(n.Type, n.Recv, n.Body)
			return false
		case *ast.FuncLit:
			within(n.Type, nil, n.Body)
			return false
		case *ast.CallExpr: // a limit of what was unpacked
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "MaxBytesReader" && len(n.Args) == 3 {
				if of, ok := n.Args[1].(*ast.SelectorExpr); !ok || of.Sel.Name != "Body" {
					return false
				}
			}
		case *ast.BinaryExpr: // a comparison reads nothing
			return n.Op != token.EQL && n.Op != token.NEQ
		case *ast.SelectorExpr:
			of, plain := n.X.(*ast.Ident)
			switch {
			case slices.Contains(ways, n.Sel.Name):
				see(n, n.Sel.Name)
			case plain && requests[of.Name] && (n.Sel.Name == "Body" || n.Sel.Name == "ParseForm"):
				see(n, of.Name+"."+n.Sel.Name)
			}
		}
		return true
	}
	ast.Inspect(file, visit)
	return found
}

// isRequest reports whether a type is a request of HTTP, or one of ours around it.
func isRequest(t ast.Expr) bool {
	star, ok := t.(*ast.StarExpr)
	if !ok {
		return false
	}
	switch t := star.X.(type) {
	case *ast.SelectorExpr:
		of, ok := t.X.(*ast.Ident)
		return ok && of.Name == "http" && t.Sel.Name == "Request"
	case *ast.Ident:
		return t.Name == "request" // of package rest
	}
	return false
}

// Memory for bodies is limited for all requests together. One handler that reads its body by
// itself is enough to fill the memory of the daemon.
func TestBodiesAreReadInOneWay(t *testing.T) {
	fset := token.NewFileSet()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		name := filepath.ToSlash(strings.TrimPrefix(path, "../../"))
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2 || slices.Contains(asks, name) || strings.HasSuffix(name, "test")): // servers of tests and measurements
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || slices.Contains(mayReadBodies, name) || slices.Contains(asks, name):
			return nil
		}
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, place := range readsOfBodies(fset, file) {
			t.Errorf("%s: the body of a request is read by web.NewBodyReader or web.Form alone", place)
		}
		return nil
	})
	must(t, err)
}

func TestOtherWaysToReadBodiesAreFound(t *testing.T) {
	for source, want := range map[string]int{
		`func (h *H) a(w http.ResponseWriter, r *http.Request) { r.ParseForm() }`:                                         1,
		`func a(w http.ResponseWriter, r *http.Request) { io.ReadAll(r.Body) }`:                                           1,
		`func a(r *request) { io.ReadAll(r.Body) }`:                                                                       1,
		`func a(w http.ResponseWriter, r *http.Request) { r.Body = http.MaxBytesReader(w, r.Body, 1) }`:                   3,
		`var a = func(w http.ResponseWriter, q *http.Request) { func() { _ = q.FormValue("x"); _ = q.PostForm }() }`:      2,
		`func a(w http.ResponseWriter, r *http.Request) bool { return r.Body == http.NoBody }`:                            0,
		`func a(resp *http.Response) { io.ReadAll(resp.Body) }`:                                                           0,
		`func a(w http.ResponseWriter, r *http.Request) { web.Form(w, r, 1); state.ParseForm("x"); web.ParseForm(c, b) }`: 0,
	} {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "a.go", "package a\n"+source, parser.SkipObjectResolution)
		must(t, err)
		if got := readsOfBodies(fset, file); len(got) != want {
			t.Errorf("%s: got %q, want %d", source, got, want)
		}
	}
}

// Tests that can take longer are listed, for a long run of these only.
func TestLongTestsAreListed(t *testing.T) {
	list := filepath.Join(t.TempDir(), "list")
	t.Setenv("CUTIE_LONG_LIST", list)
	long.N(1, 2)
	t.Run("below", func(t *testing.T) { long.On() })
	done := make(chan struct{})
	go outsideOfATest(done)
	<-done
	got, err := os.ReadFile(list)
	must(t, err)
	pkg := strings.TrimSuffix(reflect.TypeFor[loader]().PkgPath(), "_test")
	want := pkg + " TestLongTestsAreListed\n" + pkg + " ?\n"
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func outsideOfATest(done chan<- struct{}) {
	long.On()
	close(done)
}
