package durable_test

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"cutie/queuefs/durable"
)

func sealedIn(t *testing.T, fault durable.Fault) (durable.Sealed, string) {
	t.Helper()
	path := t.TempDir()
	d, err := durable.OpenDir(path, fault)
	must(t, err)
	t.Cleanup(func() { d.Close() })
	return durable.Sealed{Dir: d, Name: "state", Kind: "state of tests", Max: 100}, path
}

func TestSealedReadsWhatItWrote(t *testing.T) {
	s, _ := sealedIn(t, nil)
	if _, err := s.Read(); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, durable.ErrDamaged) {
		t.Fatalf("without a file: %v", err)
	}
	for _, contents := range []string{"", "a: 1\n", "no end of line", "seal: x\n", strings.Repeat("\x00", 100)} {
		must(t, s.Write([]byte(contents)))
		if got, err := s.Read(); err != nil || string(got) != contents {
			t.Errorf("got %q, %v; want %q", got, err, contents)
		}
	}
	if err := s.Write(make([]byte, 101)); err == nil {
		t.Error("more than Max was written")
	}
}

// Each octet of a file is flipped and each prefix of it is tried.
func TestSealedTellsEveryDamage(t *testing.T) {
	s, path := sealedIn(t, nil)
	must(t, s.Write([]byte("job: 7\nsequence: 12\n")))
	whole, err := os.ReadFile(filepath.Join(path, "state"))
	must(t, err)
	damaged := [][]byte{append(slices.Clone(whole), whole...), append(slices.Clone(whole), 1), make([]byte, 300)}
	for i := range whole {
		flipped := slices.Clone(whole)
		flipped[i] ^= 1
		damaged = append(damaged, flipped, whole[:i])
	}
	for _, data := range damaged {
		must(t, os.WriteFile(filepath.Join(path, "state"), data, 0o666))
		if got, err := s.Read(); !errors.Is(err, durable.ErrDamaged) {
			t.Errorf("%q reads as %q, %v", data, got, err)
		}
	}
	must(t, os.WriteFile(filepath.Join(path, "state"), whole, 0o666))
	s.Kind = "state of others"
	if got, err := s.Read(); !errors.Is(err, durable.ErrDamaged) {
		t.Errorf("a file of another kind reads as %q, %v", got, err)
	}
}

func TestSetAsideKeepsEveryFile(t *testing.T) {
	s, path := sealedIn(t, nil)
	if _, err := s.SetAside(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	for i, want := range []string{"corrupt/state", "corrupt/state.1", "corrupt/state.2"} {
		data := strings.Repeat("x", i)
		must(t, os.WriteFile(filepath.Join(path, "state"), []byte(data), 0o666))
		got, err := s.SetAside()
		if err != nil || got != want {
			t.Fatalf("got %q, %v; want %q", got, err, want)
		}
		if text, err := os.ReadFile(filepath.Join(path, got)); err != nil || string(text) != data {
			t.Errorf("%s has %q, %v; want %q", got, text, err, data)
		}
		if _, err := os.Stat(filepath.Join(path, "state")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("it stands still: %v", err)
		}
	}
}

func TestSweepRemovesWhatIsUnfinished(t *testing.T) {
	s, path := sealedIn(t, nil)
	for _, name := range []string{"a", durable.TempPrefix + "1", durable.TempPrefix + "2"} {
		must(t, os.WriteFile(filepath.Join(path, name), nil, 0o666))
	}
	if err := s.Dir.Sweep(func(name string) bool { return strings.HasSuffix(name, "2") }); err != nil {
		t.Fatal(err)
	}
	var names []string
	if err := s.Dir.Names(func(name string) { names = append(names, name) }); err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	if want := []string{"a", durable.TempPrefix + "2"}; !slices.Equal(names, want) {
		t.Errorf("left %q, want %q", names, want)
	}
}

// Every step of a Write fails in turn, as failed and as failed but done: the
// file holds the old contents or the new.
func TestSealedHoldsOldOrNewAfterFaults(t *testing.T) {
	for _, done := range []bool{false, true} {
		for fail := 1; ; fail++ {
			count, on := 0, false
			s, _ := sealedIn(t, func(step string, do func() error) error {
				if !on {
					return do()
				}
				if count++; count != fail {
					return do()
				}
				if done {
					do()
				}
				return errors.New("injected")
			})
			must(t, s.Write([]byte("old")))
			on = true
			err := s.Write([]byte("new"))
			on = false
			got, readErr := s.Read()
			if readErr != nil || string(got) != "new" && (err == nil || string(got) != "old") {
				t.Errorf("step %d (done %v) fails: %v; then %q, %v", fail, done, err, got, readErr)
			}
			if count < fail {
				break
			}
		}
	}
}

// An error of damage is one line, as each problem of a home is.
func TestDamageIsToldInOneLine(t *testing.T) {
	dir, err := durable.OpenDir(t.TempDir(), nil)
	must(t, err)
	defer dir.Close()
	for _, s := range []durable.Sealed{{Dir: dir, Name: "a", Kind: "k", Max: 10}, {Dir: dir, Name: "long", Kind: "k", Max: 10}} {
		must(t, errors.Join(dir.Replace("a", []byte("garbage")), dir.Replace("long", make([]byte, 1000))))
		if _, err := s.Read(); !errors.Is(err, durable.ErrDamaged) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %q", err)
		}
	}
}

func TestAFileIsVerifiedAgainAfterEveryChange(t *testing.T) {
	var v durable.Verified
	name := filepath.Join(t.TempDir(), "file")
	text := []byte("some text")
	sum := sha256.Sum256(text)
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
	must(t, os.WriteFile(name, []byte("some text"), 0o600))
	f, err := os.Open(name)
	must(t, err)
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
