package main_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mayReadBodies are the files that touch the body of a request to this process: the one way
// to read it, with its limits, and what passes it on unread.
var mayReadBodies = []string{
	"queuefs/web/body.go", "cmd/cutie/daemon/pace.go", "cmd/cutie/daemon/passing.go", "cmd/cutie/daemon/inprocess.go",
}

// asks are the folders and files of clients, whose requests go out.
var asks = []string{"queuefs/rest/client", "queuefs/outbound", "queuefs/batch/fetch.go", "publisher/destination", "cmd/bench"}

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
	if err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
		if got := readsOfBodies(fset, file); len(got) != want {
			t.Errorf("%s: got %q, want %d", source, got, want)
		}
	}
}
