package main_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
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
	if err != nil {
		t.Fatal(err)
	}
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
	if err := errors.Join(os.Mkdir(there, 0o777), os.Mkdir(program, 0o777), os.WriteFile(filepath.Join(program, "main.go"), []byte(outside), 0o666)); err != nil {
		t.Fatal(err)
	}
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
