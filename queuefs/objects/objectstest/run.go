package objectstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"cutie/queuefs/objects"
)

// Run tests a store without objects.
func Run(t *testing.T, s objects.Store) {
	ctx := context.Background()
	want := func(t *testing.T, name, text string) {
		t.Helper()
		data, err := objects.Read(ctx, s, name, 1<<20)
		if err != nil || string(data) != text {
			t.Errorf("%s: got %.40q, %v, want %.40q", name, data, err, text)
		}
	}
	t.Run("Probe", func(t *testing.T) {
		if err := objects.Probe(ctx, s); err != nil {
			t.Error(err)
		}
		if names, err := s.List(ctx, "", "", 10); err != nil || len(names) > 0 {
			t.Errorf("left %q, %v", names, err)
		}
	})
	t.Run("CreateAndPut", func(t *testing.T) {
		large := strings.Repeat("0123456789abcdef", 1<<16)
		for _, text := range []string{"small", large} {
			if err := s.Create(ctx, "a/one", []byte(text)); err != nil {
				t.Fatal(err)
			}
			want(t, "a/one", text)
			if err := s.Create(ctx, "a/one", []byte("other")); !errors.Is(err, objects.ErrExist) {
				t.Errorf("created again: %v", err)
			}
			want(t, "a/one", text)
			if err := s.Put(ctx, "a/one", strings.NewReader("put"), 3); err != nil {
				t.Fatal(err)
			}
			want(t, "a/one", "put")
			for range 2 {
				if err := s.Delete(ctx, "a/one"); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.Get(ctx, "a/one", 0); !errors.Is(err, objects.ErrNotExist) {
				t.Errorf("after delete: %v", err)
			}
		}
		if err := s.Put(ctx, "a/large", bytes.NewReader([]byte(large)), int64(len(large))); err != nil {
			t.Fatal(err)
		}
		want(t, "a/large", large)
		for _, c := range []struct{ from, size, want int }{{0, 10, 10}, {5, 10, 10}, {1<<20 - 3, 10, 3}, {1 << 20, 10, 0}} {
			body, err := s.Part(ctx, "a/large", int64(c.from), int64(c.size))
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(body)
			if body.Close(); err != nil || string(data) != large[c.from:c.from+c.want] {
				t.Errorf("%d from %d: got %q, %v", c.size, c.from, data, err)
			}
		}
		if _, err := s.Part(ctx, "a/none", 1, 1); !errors.Is(err, objects.ErrNotExist) {
			t.Errorf("part of nothing: %v", err)
		}
		if _, err := objects.Read(ctx, s, "a/large", 100); !errors.Is(err, objects.ErrTooLong) {
			t.Errorf("too long: %v", err)
		}
	})
	t.Run("List", func(t *testing.T) {
		var all []string
		for i := range 12 {
			name := fmt.Sprintf("list/%03d", i)
			if err := s.Create(ctx, name, []byte("x")); err != nil {
				t.Fatal(err)
			}
			all = append(all, name)
		}
		for _, c := range []struct {
			after string
			most  int
			want  []string
		}{{"", 100, all}, {"", 3, all[:3]}, {"list/004", 5, all[5:10]}, {"list/011", 5, nil}, {"list/0045", 1, all[5:6]}} {
			got, err := s.List(ctx, "list/", c.after, c.most)
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%d after %q: got %q, %v, want %q", c.most, c.after, got, err, c.want)
			}
		}
	})
	t.Run("OneOfManyCreates", func(t *testing.T) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		var won []string
		for i := range 16 {
			wg.Go(func() {
				text := fmt.Sprint("writer ", i)
				err := s.Create(ctx, "race", []byte(text))
				if err == nil {
					mu.Lock()
					won = append(won, text)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if len(won) != 1 {
			t.Fatalf("%d writers made the object", len(won))
		}
		want(t, "race", won[0])
	})
}
