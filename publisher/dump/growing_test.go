package dump

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cutie/sitemap"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// grown returns a growing package with n files. Every seventh number has none.
func grown(t *testing.T, n int) (data []byte, want map[string]string) {
	t.Helper()
	var tool Compressor
	want = map[string]string{}
	for number := 1; len(want) < n; number++ {
		if number%7 == 0 {
			continue
		}
		text := strings.Repeat(fmt.Sprint("file ", number, " "), number%60)
		c, err := tool.Content([]byte(text), map[bool]string{true: "text/plain"}[number%3 > 0])
		must(t, err)
		data = c.Append(data, number)
		want[memberName(number)] = text
	}
	return data, want
}

// completed completes a growing package in a file.
func completed(t *testing.T, file *os.File, size int64, in io.ReaderAt) {
	t.Helper()
	g, err := OpenGrowing(in, size)
	must(t, err)
	sum := sha256.New()
	_, err = io.Copy(sum, io.NewSectionReader(in, 0, size))
	must(t, err)
	c := g.Close(file, sum)
	late := strings.Repeat("late ", 300_000)
	f := File{Length: int64(len(late)), SHA256: sha256.Sum256([]byte(late)), Type: "text/plain"}
	must(t, c.Add(1_000_000, f, strings.NewReader(late), func() bool { return true }))
	m, err := NewManifest(sitemap.V11, sitemap.Head{Capability: sitemap.ChangeDumpManifest})
	must(t, err)
	length, got, err := c.End(m)
	must(t, err)
	st, err := file.Stat()
	must(t, err)
	whole := sha256.New()
	_, err = io.Copy(whole, io.NewSectionReader(file, 0, st.Size()))
	must(t, err)
	if want := hex.EncodeToString(whole.Sum(nil)); length != st.Size() || got != want {
		t.Errorf("got %d octets with %s, want %d with %s", length, got, st.Size(), want)
	}
}

// TestCompletedPackagesAreRead has another program read packages: without files, with few,
// and with more than the directory of an old ZIP can count.
func TestCompletedPackagesAreRead(t *testing.T) {
	for _, n := range []int{0, 1, 100, 70_000} {
		data, want := grown(t, n)
		file, err := os.Create(filepath.Join(t.TempDir(), "zip"))
		must(t, err)
		defer file.Close()
		_, err = file.Write(data)
		must(t, err)
		completed(t, file, int64(len(data)), file)
		st, err := file.Stat()
		must(t, err)
		z, err := zip.NewReader(file, st.Size())
		must(t, err)
		if len(z.File) != n+2 || z.File[0].Name != ManifestName {
			t.Fatalf("%d files, the first is %s", len(z.File), z.File[0].Name)
		}
		for i, f := range z.File[1 : n+1] {
			if i%97 > 0 && n > 1000 {
				continue
			}
			r, err := f.Open()
			must(t, err)
			text, err := io.ReadAll(r)
			must(t, err)
			if string(text) != want[f.Name] {
				t.Errorf("%s is %.40q", f.Name, text)
			}
		}
		if _, entries, err := Whole(file); err != nil || entries != 0 {
			t.Errorf("%d entries, %v", entries, err)
		}
		r, err := OpenManifest(file)
		must(t, err)
		text, err := io.ReadAll(r)
		must(t, err)
		must(t, r.Close())
		if !bytes.Contains(text, []byte(`capability="changedump-manifest"`)) {
			t.Errorf("manifest %q", text)
		}
	}
}

// A package may be longer than the numbers of an old ZIP. The file is sparse.
func TestALongPackageIsRead(t *testing.T) {
	const long = 5 << 30
	file, err := os.Create(filepath.Join(t.TempDir(), "zip"))
	must(t, err)
	defer file.Close()
	must(t, file.Truncate(long))
	_, err = file.Seek(long, io.SeekStart)
	must(t, err)
	a := archive{w: file, size: long}
	var tool Compressor
	c, err := tool.Content([]byte("text"), "")
	must(t, err)
	must(t, a.add(&c, 1))
	m, err := NewManifest(sitemap.V11, sitemap.Head{Capability: sitemap.ChangeDumpManifest})
	must(t, err)
	must(t, a.end(m))
	st, err := file.Stat()
	must(t, err)
	z, err := zip.NewReader(file, st.Size())
	must(t, err)
	if len(z.File) != 2 {
		t.Fatalf("%d files", len(z.File))
	}
	r, err := z.File[1].Open()
	must(t, err)
	if text, err := io.ReadAll(r); err != nil || string(text) != "text" {
		t.Errorf("got %q, %v", text, err)
	}
}

// TestGrowingPackagesAreCut cuts a growing package everywhere: what is before the cut is
// found, and nothing else.
func TestGrowingPackagesAreCut(t *testing.T) {
	data, want := grown(t, 30)
	for n := range data {
		g, err := OpenGrowing(bytes.NewReader(data[:n]), int64(n))
		if (err == nil) != (g.size == int64(n)) {
			t.Fatalf("cut to %d octets: %v, whole up to %d", n, err, g.size)
		}
		must(t, g.Check())
		if last := len(g.dir); last > 0 {
			number := g.dir[last-1].file
			if text, ok := g.Read(number); !ok || string(text) != want[memberName(number)] {
				t.Errorf("cut to %d octets: file %d is %.40q", n, number, text)
			}
			if _, ok := g.Read(number + 1); ok {
				t.Errorf("cut to %d octets: there is a file %d", n, number+1)
			}
		}
	}
}

// FuzzGrowing reads whatever it gets, without falling, and each file it finds has its check.
func FuzzGrowing(f *testing.F) {
	var tool Compressor
	var data []byte
	for n, text := range []string{"", "short", strings.Repeat("long ", 200)} {
		c, err := tool.Content([]byte(text), "text/plain")
		if err != nil {
			f.Fatal(err)
		}
		data = c.Append(data, n+1)
	}
	f.Add(data)
	f.Add(data[:len(data)-3])
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := OpenGrowing(bytes.NewReader(b), int64(len(b)))
		if err == nil && g.size != int64(len(b)) {
			t.Errorf("whole up to %d of %d", g.size, len(b))
		}
		for i := range g.dir {
			r := &g.dir[i]
			if text, ok := g.Read(r.file); ok && int64(len(text)) != r.length {
				t.Errorf("%s has %d octets of %d", r.name(), len(text), r.length)
			}
		}
	})
}
