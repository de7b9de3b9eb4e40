package durable_test

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"cutie/queuefs/durable"
)

func TestAFileIsVerifiedAgainAfterEveryChange(t *testing.T) {
	var v durable.Verified
	name := filepath.Join(t.TempDir(), "file")
	text := []byte("some text")
	sum := sha256.Sum256(text)
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check := func() error {
		f, err := os.Open(name)
		must(t, err)
		defer f.Close()
		return v.Check(f, int64(len(text)), sum)
	}
	write := func(b []byte) { must(t, os.WriteFile(name, b, 0o600)) }
	write(text)
	for range 2 {
		must(t, check())
	}
	for what, bad := range map[string][]byte{"flip": []byte("some tExt"), "cut": text[:3], "empty": nil, "doubled": append(text, text...)} {
		write(bad)
		for range 2 {
			if err := check(); !errors.Is(err, durable.ErrDamaged) || !durable.Lost(err) {
				t.Errorf("%s: got %v", what, err)
			}
		}
		write(text)
		must(t, check())
	}
	// Another file of the same length in its place.
	other := name + "2"
	must(t, os.WriteFile(other, []byte("SOME TEXT"), 0o600))
	must(t, os.Rename(other, name))
	if err := check(); !errors.Is(err, durable.ErrDamaged) {
		t.Errorf("swapped: got %v", err)
	}
	if durable.Lost(fs.ErrPermission) || !durable.Lost(fs.ErrNotExist) {
		t.Error("a file that may not be read is not lost, one that is gone is")
	}
}

func TestCallersAtTheSameTimeShareOneVerification(t *testing.T) {
	var v durable.Verified
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte("some text"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var (
		calls   atomic.Int64
		wg      sync.WaitGroup
		entered = make(chan bool, 8)
		goOn    = make(chan bool)
	)
	once := func() {
		err := v.Once(f, [sha256.Size]byte{1}, func() error {
			calls.Add(1)
			entered <- true
			<-goOn
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	wg.Go(once)
	<-entered
	var begun sync.WaitGroup
	for range 7 {
		begun.Add(1)
		wg.Go(func() { begun.Done(); once() })
	}
	begun.Wait()
	close(goOn)
	wg.Wait()
	if n := calls.Load(); n != 1 {
		t.Errorf("%d verifications, want 1", n)
	}
}
