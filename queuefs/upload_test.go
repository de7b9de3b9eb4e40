package queuefs

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"cutie/queuefs/digest"
	"cutie/queuefs/durable"
)

func budgetOf(t *testing.T, inline, free int) (*durable.Dir, *budget) {
	t.Helper()
	dir, err := durable.OpenDir(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	return dir, &budget{inline: inline, free: free, spool: dir.Spool}
}

// isPayload compares an upload with the payload it should have.
func isPayload(t *testing.T, u *payload, data string, inFile bool) {
	t.Helper()
	r, err := u.Reader()
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err != nil || string(got) != data || u.Size() != int64(len(data)) {
		t.Errorf("got %d octets of %d, %v", len(got), u.Size(), err)
	}
	if (u.temp() != "") != inFile || inFile && len(u.buf) > 0 || !inFile && string(u.buf) != data {
		t.Errorf("file %q, %d octets in memory", u.temp(), len(u.buf))
	}
	want := []digest.Value{digest.Sum(digest.SHA256, []byte(data)), digest.Sum(digest.MD5, []byte(data)), digest.Sum(digest.SHA1, []byte(data))}
	all, err := u.digests([]digest.Type{digest.MD5, digest.SHA1}, want[:2])
	if err != nil || len(all) != 3 || all[0] != want[0] || all[1] != want[1] || all[2] != want[2] {
		t.Errorf("digests %v, %v, want %v", all, err, want)
	}
	other := []digest.Value{digest.Sum(digest.MD5, []byte(data+"x"))}
	if _, err := u.digests([]digest.Type{digest.MD5}, other); !errors.Is(err, digest.ErrMismatch) {
		t.Errorf("another digest: %v", err)
	}
}

func md5() []digest.Type { return []digest.Type{digest.MD5} }

func TestMemoryUpToTheLimits(t *testing.T) {
	data := strings.Repeat("0123456789", 1000)
	for _, c := range []struct {
		inline, free, size int
		inFile             bool
	}{
		{100, 1000, 0, false}, {100, 1000, 100, false}, {100, 1000, 101, true}, {100, 50, 50, false}, {100, 50, 51, true}, {100, 1000, 10_000, true},
	} {
		for _, written := range []int{0, c.size / 2, c.size} {
			dir, b := budgetOf(t, c.inline, c.free)
			u := new(payload)
			u.begin(b)
			u.hash(md5())
			if _, err := io.WriteString(u, data[:written]); err != nil {
				t.Fatal(err)
			}
			if n, err := u.ReadFrom(iotest.HalfReader(strings.NewReader(data[written:c.size]))); err != nil || n != int64(c.size-written) {
				t.Fatalf("read %d, %v", n, err)
			}
			isPayload(t, u, data[:c.size], c.inFile)
			if want := c.free; b.free != want && c.inFile || b.free != want-c.size && !c.inFile {
				t.Errorf("%+v: %d bytes left", c, b.free)
			}
			if err := u.end(); err != nil {
				t.Fatal(err)
			}
			name := u.temp()
			if c.inFile {
				if err := u.file.Sync(); err != nil {
					t.Fatal(err)
				}
			}
			u.close()
			if c.inFile {
				if got, err := os.ReadFile(dir.Path() + "/" + name); err != nil || string(got) != data[:c.size] {
					t.Errorf("%+v: file has %d octets, %v", c, len(got), err)
				}
			}
		}
	}
}

func TestMoveKeepsThePayload(t *testing.T) {
	for _, c := range []struct {
		size, free int
		inFile     bool
	}{{50, 50, false}, {50, 49, true}, {200, 1000, true}} {
		_, from := budgetOf(t, 100, 1000)
		_, to := budgetOf(t, 100, c.free)
		data := strings.Repeat("x", c.size)
		u := new(payload)
		u.begin(from)
		u.hash(md5())
		io.WriteString(u, data)
		if err := u.move(to); err != nil {
			t.Fatal(err)
		}
		if c.inFile && to.free != c.free || !c.inFile && to.free != c.free-c.size {
			t.Errorf("%+v: %d bytes left", c, to.free)
		}
		isPayload(t, u, data, c.inFile)
		u.close()
	}
}

func TestErrorsOfTheSourceEndNothing(t *testing.T) {
	_, b := budgetOf(t, 100, 1000)
	u := new(payload)
	u.begin(b)
	defer u.close()
	u.hash(md5())
	cut := errors.New("cut off")
	for _, part := range []string{"short", strings.Repeat("y", 500)} {
		if n, err := u.ReadFrom(io.MultiReader(strings.NewReader(part), iotest.ErrReader(cut))); err != cut || n != int64(len(part)) || u.err != nil {
			t.Errorf("got %d, %v and %v", n, err, u.err)
		}
	}
	isPayload(t, u, "short"+strings.Repeat("y", 500), true)
}

func TestErrorsOfStorageAreFinal(t *testing.T) {
	full := errors.New("no space")
	b := &budget{inline: 10, free: 100, spool: func() (*durable.Spool, error) { return nil, full }}
	u := new(payload)
	u.begin(b)
	defer u.close()
	if _, err := u.Write(bytes.Repeat([]byte("z"), 11)); err != full || u.err != full {
		t.Errorf("got %v and %v", err, u.err)
	}
	if _, err := u.Write([]byte("z")); err != full {
		t.Errorf("then %v", err)
	}
	if _, err := u.ReadFrom(strings.NewReader("z")); err != full {
		t.Errorf("then %v", err)
	}
	if _, err := u.Reader(); err != full {
		t.Errorf("then %v", err)
	}
}

func TestUploadsStraightToAFile(t *testing.T) {
	dir, _ := budgetOf(t, 0, 0)
	for _, data := range []string{"", "small", strings.Repeat("large", 100_000)} {
		u := new(payload)
		u.begin(&budget{spool: dir.Spool})
		if err := u.spill(); err != nil {
			t.Fatal(err)
		}
		u.hash(md5())
		if _, err := io.WriteString(u, data); err != nil {
			t.Fatal(err)
		}
		isPayload(t, u, data, true)
		u.close()
	}
}
