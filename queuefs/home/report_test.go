package home_test

import (
	"os"
	"path/filepath"
	"testing"

	"cutie/queuefs/home"
)

// The same damage is told once, and again after the file was mended or found sound.
func TestTheSameDamageIsToldAgainAfterItWasMended(t *testing.T) {
	dir, told := t.TempDir(), 0
	r := home.NewReports(dir, func(home.Problem) { told++ })
	p := home.Problem{Path: "queues.txt", Text: "line 2"}
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(dir, "new"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, p.Path)); err != nil {
			t.Fatal(err)
		}
	}
	want := func(n int, when string) {
		t.Helper()
		r.Add(p)
		r.Add(p)
		if told != n {
			t.Errorf("%s: told %d times, want %d", when, told, n)
		}
	}
	write("bad")
	want(1, "at first")
	write("good")
	write("bad")
	want(2, "damaged again")
	if err := os.Remove(filepath.Join(dir, p.Path)); err != nil {
		t.Fatal(err)
	}
	p.Text = "missing"
	want(3, "lost")
	if !r.Any() {
		t.Error("nothing remembered")
	}
	r.Mended(p.Path)
	want(4, "lost again")
}
