package catalog_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"cutie/queuefs/catalog"
	"cutie/queuefs/durable"
)

func openFile(t *testing.T, path string, synced int64) (*catalog.File, int64) {
	t.Helper()
	d, err := durable.OpenDir(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, damaged, err := catalog.Open(d, "c", "kind", synced)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close(); d.Close() })
	return f, damaged
}

func contents(t *testing.T, f *catalog.File) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range f.Names() {
		text, err := f.Get(name)
		if err != nil || !f.Has(name) {
			t.Fatalf("%s: %v", name, err)
		}
		all[name] = string(text)
	}
	return all
}

func TestWhatIsAppendedIsRead(t *testing.T) {
	dir := t.TempDir()
	f, _ := openFile(t, dir, 0)
	want := map[string]string{}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		name, text := fmt.Sprint("q", rng.IntN(20)), fmt.Sprintf("%0*d", 1+rng.IntN(3000), rng.Int())
		if rng.IntN(10) == 0 {
			text = ""
			delete(want, name)
		} else {
			want[name] = text
		}
		if err := f.Append(catalog.Entry{Name: name, Contents: []byte(text)}); err != nil {
			t.Fatal(err)
		}
		if err := f.Compact(); err != nil {
			t.Fatal(err)
		}
		if got, err := f.Get(name); err != nil || string(got) != text {
			t.Fatalf("got %q, %v, want %q", got, err, text)
		}
	}
	if f.Size() > 2<<20 {
		t.Errorf("the file has %d bytes", f.Size())
	}
	if got := contents(t, f); !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	again, damaged := openFile(t, dir, f.Size())
	if got := contents(t, again); damaged != 0 || !maps.Equal(got, want) {
		t.Errorf("opened again: got %v, damaged %d", got, damaged)
	}
}

// TestDamageLosesWhatItHits damages each octet, and cuts the file everywhere.
func TestDamageLosesWhatItHits(t *testing.T) {
	dir := t.TempDir()
	f, _ := openFile(t, dir, 0)
	entry := func(name, text string) {
		if err := f.Append(catalog.Entry{Name: name, Contents: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	entry("a", "old")
	entry("b", "bbb")
	synced := f.Size()
	entry("a", "new")
	entry("c", "ccc")
	whole, err := os.ReadFile(filepath.Join(dir, "c"))
	if err != nil {
		t.Fatal(err)
	}
	try := func(what string, data []byte, hit int64) {
		path := t.TempDir()
		if err := os.WriteFile(filepath.Join(path, "c"), data, 0o666); err != nil {
			t.Fatal(err)
		}
		g, damaged := openFile(t, path, synced)
		got := contents(t, g)
		if (damaged > 0) != (hit < synced) {
			t.Errorf("%s: %d octets are damaged", what, damaged)
		}
		if a := got["a"]; a != "new" && a != "old" && hit >= synced || a == "old" && hit < synced && !g.Doubtful("a") {
			t.Errorf("%s: got %v, doubtful %v", what, got, g.Doubtful("a"))
		}
		if b := got["b"]; b != "bbb" && (b != "" || hit >= synced) {
			t.Errorf("%s: got %v", what, got)
		}
		if err := g.Append(catalog.Entry{Name: "d", Contents: []byte("ddd")}); err != nil {
			t.Fatal(err)
		}
		g, _ = openFile(t, path, synced)
		got["d"] = "ddd"
		if err := g.Compact(); err != nil || g.Wasteful() {
			t.Errorf("%s: %v, waste stays", what, err)
		}
		if after := contents(t, g); !maps.Equal(got, after) {
			t.Errorf("%s: got %v, before %v", what, after, got)
		}
	}
	for i := range whole {
		data := append([]byte{}, whole...)
		data[i] ^= 0x40
		try(fmt.Sprint("octet ", i), data, int64(i))
		try(fmt.Sprint("cut to ", i), whole[:i], int64(i))
	}
}
