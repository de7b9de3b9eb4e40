package main_test

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"cutie/queuefs/objects/objectstest"
)

// cutie store tells how a home in a store is, and names what is damaged there.
func TestAStoreIsLookedAt(t *testing.T) {
	t.Parallel()
	m := new(objectstest.Memory)
	options := storeOptions(t, m)
	endpoint := options[len(options)-1]
	look := func(word string) (string, int) {
		t.Helper()
		out, err := cutie(t, "store", word, "s3://bucket/home", "--store-endpoint", endpoint)
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return out, exit.ExitCode()
		}
		if err != nil {
			t.Fatal(out, err)
		}
		return out, 0
	}
	if out, code := look("status"); code != 3 {
		t.Errorf("without a home: got %d, %s", code, out)
	}
	d := serve(t, append(options, "--store-image", "1000")...)
	numbered := func(n string) bool { return m.Objects()["home/snapshot/0000000000000000000"+n] != nil }
	d.send(t, "POST", "content/jobs", strings.Repeat("large ", 50<<10))
	until(t, "a second image", func() bool {
		d.send(t, "POST", "content/jobs", "small")
		return numbered("2")
	})
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	out, code := look("status")
	for _, want := range []string{"owner      process ", "which has closed it", "journal    batches ", "image      ", "job files "} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("status: got %d, %s, want %q", code, out, want)
		}
	}
	var first int
	if at := strings.Index(out, "batches "); at < 0 {
		t.Fatal("no batches in", out)
	} else if _, err := fmt.Sscanf(out[at:], "batches %d", &first); err != nil {
		t.Fatal(err)
	}
	if out, code = look("check"); code != 0 || !strings.Contains(out, " 0 faults\n") {
		t.Errorf("check: got %d, %s", code, out)
	}
	whole := m.Objects()
	for name, data := range whole {
		if name < "home/" {
			continue
		}
		// Batches before the beginning of the journal are of no use, and go at the next image.
		if n, of := strings.CutPrefix(name, "home/journal/"); of && n < fmt.Sprintf("%020d", first) && !claimOf(name, m.Objects()) {
			continue
		}
		m.Set(name, append(data[:len(data)/2:len(data)/2], make([]byte, (len(data)+1)/2)...))
		out, code := look("check")
		m.Set(name, data)
		if strings.Contains(name, "journal/") && code == 1 {
			continue // the end of the journal cannot be told
		}
		if code != 8 && !claimOf(name, whole) || code == 8 && !strings.Contains(out, strings.TrimPrefix(name, "home/")) {
			t.Errorf("%s is damaged: got %d, %s", name, code, out)
		}
	}
}

// claimOf reports whether an object is a claim that is kept for no more than its number.
func claimOf(name string, all map[string][]byte) bool {
	last := ""
	for other := range all {
		if strings.HasPrefix(other, "home/journal/") && other > name && (last == "" || other < last) {
			last = other
		}
	}
	return name == "home/journal/00000000000000000001" && last > "home/journal/00000000000000000002"
}
