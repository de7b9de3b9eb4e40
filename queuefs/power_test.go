package queuefs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A disk knows what of a home is on stable storage: it looks at every step of
// the engine. What was written and not synced may be lost, in parts.
type disk struct {
	t   testing.TB
	dir string

	mu     sync.Mutex
	synced map[string]string // contents by path
}

func (d *disk) snapshot() map[string]string {
	now := map[string]string{}
	err := filepath.WalkDir(d.dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a spare segment was taken meanwhile
		}
		rel, _ := filepath.Rel(d.dir, name)
		now[rel] = string(data)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.t.Error(err)
	}
	return now
}

// hook lets steps happen up to the one that fails, and none from there on.
func (d *disk) hook(step string, failed bool, do func() error) error {
	if failed {
		return fmt.Errorf("%s: %w", step, errInjected)
	}
	if err := do(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	in := func(name string) bool { return false }
	if base, ok := strings.CutPrefix(step, "sync dir "); ok {
		in = func(name string) bool {
			return path.Base(path.Dir(name)) == base || base == path.Base(d.dir) && path.Dir(name) == "."
		}
	}
	switch step {
	case "syncfs":
		in = func(string) bool { return true }
	case "journal sync":
		in = func(name string) bool { return path.Dir(name) == "log/journal" }
	case "sync queues.txt":
		in = func(name string) bool { return name == "queues.txt" }
	}
	if strings.Contains(step, "sync") {
		now := d.snapshot()
		for name, data := range d.synced {
			if in(name) {
				delete(d.synced, name)
				// Moved away, it has its new name: a move is in both directories
				// or in neither.
				for to := range now {
					if _, stands := now[name]; !stands && path.Dir(name) == "cutie-tmp" && strings.HasPrefix(to, "queues/") && now[to] == data {
						d.synced[to] = data
					}
				}
			}
		}
		for name, data := range now {
			if in(name) {
				d.synced[name] = data
			}
		}
	}
	return nil
}

// lose brings the directory to a state that it may have after power was lost.
func (d *disk) lose(rng *rand.Rand) {
	now := d.snapshot()
	names := map[string]bool{}
	for name := range now {
		names[name] = true
	}
	for name := range d.synced {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		is, stands := now[name]
		was, stood := d.synced[name]
		if stands == stood && is == was {
			continue
		}
		switch top := strings.Split(name, "/"); {
		case path.Dir(name) == "log/journal":
			if stands && stood && len(is) == len(was) {
				d.write(name, torn(rng, was, is))
			}
		case top[0] == "cutie-tmp":
			// Synced before, it is here still or has moved as a whole.
			for to := range now {
				if !stands && (strings.Contains(to, "/payload/") || strings.Contains(to, "/result/")) && now[to] == was && d.synced[to] != was && rng.IntN(2) == 0 {
					os.Remove(filepath.Join(d.dir, to))
					d.write(name, was)
					delete(now, to)
				}
			}
			if !stood {
				d.write(name, is[:rng.IntN(len(is)+1)])
			}
		case top[0] == "queues" && (top[2] == "payload" || top[2] == "result") && stands && d.moved(is):
			// See cutie-tmp.
		case top[0] == "queues" && len(top) == 4:
			switch rng.IntN(5) {
			case 0:
				os.Remove(filepath.Join(d.dir, name))
			case 1:
				d.write(name, is[:len(is)/2])
			case 2:
				d.write(name, strings.Repeat("\x00", len(is)))
			case 3:
				if stood {
					d.write(name, was)
				}
			}
		case rng.IntN(2) == 0:
			if stood {
				d.write(name, was)
			} else {
				os.Remove(filepath.Join(d.dir, name))
			}
		}
	}
}

// moved tells whether a payload was synced before it came to its place.
func (d *disk) moved(payload string) bool {
	for name, data := range d.synced {
		if data == payload && strings.HasPrefix(name, "cutie-tmp/") {
			return true
		}
	}
	return false
}

// torn mixes the sectors of two states of a file.
func torn(rng *rand.Rand, was, is string) string {
	b := []byte(was)
	for at := 0; at < len(b); at += 512 {
		if end := min(at+512, len(b)); rng.IntN(2) == 0 {
			copy(b[at:end], is[at:end])
		}
	}
	return string(b)
}

func (d *disk) write(name, data string) {
	if err := os.MkdirAll(filepath.Join(d.dir, path.Dir(name)), 0o777); err != nil {
		d.t.Error(err)
	}
	os.Remove(filepath.Join(d.dir, name)) // another name of the file has what it had
	if err := os.WriteFile(filepath.Join(d.dir, name), []byte(data), 0o666); err != nil {
		d.t.Error(err)
	}
}

// TestPowerLoss stops the machine at each step of the scenario and loses what
// was not synced; TestPowerLossAtWork does so with that of workers.
func TestPowerLoss(t *testing.T)       { losePower(t, stride(), (*scenario).run) }
func TestPowerLossAtWork(t *testing.T) { losePower(t, 2*stride()-1, (*scenario).runWork) }

func losePower(t *testing.T, stride int, run func(*scenario)) {
	t.Parallel()
	for at := 1; ; at += stride {
		f := newFaults(at, errInjected)
		f.stops = true
		fired := false
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			c := newScenario(t, f)
			defer os.RemoveAll(c.dir)
			d := &disk{t: t, dir: c.dir}
			d.synced = d.snapshot()
			f.hook = d.hook
			run(c)
			fired = f.fired()
			d.lose(rand.New(rand.NewPCG(uint64(at), 0)))
			v := verifier{TB: t, dir: c.dir, o: c.o, f: c.f, damaged: true}
			v.verify(c.outcomes()...)
			if t.Failed() {
				t.Logf("stopped at %s", f.name)
			}
		})
		if !fired {
			break
		}
	}
}
