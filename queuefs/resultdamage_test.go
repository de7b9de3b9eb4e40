package queuefs_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
)

// A result is served only as the worker reported it, however its file was damaged,
// and whether it was read before or not.
func TestADamagedResultIsNotServed(t *testing.T) {
	dir := fastDir(t)
	var problems []string
	s, q := openHome(t, dir, queuefs.Options{Now: clock(), Report: func(p queuefs.Problem) { problems = append(problems, p.String()) }})
	fillQueue(t, q, 1, 1)
	token := takeOne(t, q, time.Hour).Token
	content := strings.Repeat("what the worker found\n", 400)
	for _, name := range []string{"one", "two"} {
		must(t, putResult(q, 1, token, name, strings.Replace(content, "what", name, 1)))
	}
	must(t, s.Checkpoint(t.Context()))
	file := filepath.Join(dir, "queues", "jobs", "result", "j000000000001", "one")
	good, err := os.ReadFile(file)
	must(t, err)
	other, err := os.ReadFile(filepath.Join(filepath.Dir(file), "two"))
	must(t, err)
	flipped, zeroed := []byte(string(good)), []byte(string(good))
	flipped[len(good)/2] ^= 4
	clear(zeroed[4096:8192])
	for name, bad := range map[string][]byte{"flip": flipped, "zeroed block": zeroed, "cut": good[:len(good)/2], "emptied": {}, "swapped": other, "tail doubled": append(good, good[len(good)-512:]...)} {
		must(t, os.WriteFile(file, bad, 0o600))
		problems = nil
		if _, in, err := q.Result(1, "one"); !errors.Is(err, queuefs.ErrResultDamaged) {
			t.Errorf("%s: got %v", name, err)
			in.Close()
		}
		must(t, os.WriteFile(file, good, 0o600))
		if got := result(t, q, 1, "one"); got != string(good) {
			t.Errorf("%s: the good one is not served any more", name)
		}
	}
	must(t, os.Remove(file))
	if _, _, err := q.Result(1, "one"); !errors.Is(err, queuefs.ErrResultDamaged) {
		t.Errorf("deleted: got %v", err)
	}
	if len(problems) == 0 || !strings.Contains(problems[0], "result/j000000000001/one") {
		t.Errorf("problems: %q", problems)
	}
	if got := result(t, q, 1, "two"); got != string(other) {
		t.Error("the other result is not served")
	}
}
