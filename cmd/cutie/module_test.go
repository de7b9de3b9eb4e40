package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cutie/testdata/long"
)

// With another path for the module, set as the Makefile does, all imports are found, and a
// program outside imports the client. Nothing is fetched.
func TestModuleHasAnotherPath(t *testing.T) {
	t.Parallel()
	if !long.On() {
		t.Skip("skipped: much is compiled once more; CUTIE_LONG=1 does it")
	}
	dir := t.TempDir()
	sh(t, dir, `mkdir tree && cd tree
for d in cmd publisher queuefs sitemap wellknown testdata go.mod go.sum Makefile README.md; do cp -r "`+root(t)+`/$d" .; done
make -s module MODULE=forge.example/storage/cutie
`)
	for name, text := range map[string]string{
		"go.mod": "module outside\n\ngo 1.26\n\nrequire forge.example/storage/cutie v0.0.0\n\nreplace forge.example/storage/cutie => ../tree\n",
		"main.go": `package main

import (
	"context"
	"fmt"

	"forge.example/storage/cutie/queuefs"
	"forge.example/storage/cutie/queuefs/rest/client"
)

func main() {
	_, err := client.New("http://127.0.0.1:1/", nil).NextFor(context.Background(), "jobs", queuefs.Take{}, 0)
	fmt.Println(err != nil)
}
`} {
		file := filepath.Join(dir, "outside", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sh(t, dir, "cp tree/go.sum outside/")
	for _, tt := range []struct{ in, args, want string }{
		{"outside", "run .", "true"},
		{"tree", "list -deps -test ./...", "forge.example/storage/cutie/queuefs"},
	} {
		cmd := exec.Command("go", strings.Fields(tt.args)...)
		cmd.Dir = filepath.Join(dir, tt.in)
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), tt.want) {
			t.Errorf("go %s: %v\n%s", tt.args, err, out)
		}
	}
}

// root is the directory of the module.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
