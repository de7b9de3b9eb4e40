package check_test

import (
	"os"
	"path/filepath"
	"testing"

	"cutie/queuefs/check"
)

// TestRepairSaysWhatItLeaves damages files that only Rebuild mends: Repair still has
// the problem, and its cure is Rebuild.
func TestRepairSaysWhatItLeaves(t *testing.T) {
	for name, text := range map[string]string{"queues.txt": "a\n", "0=cutie_0.3": ""} {
		t.Run(name, func(t *testing.T) {
			dir := twoQueues(t, true)
			must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			r, err := check.Home(dir, check.Options{Repair: true})
			if err != nil || len(r.Problems) != 1 || len(r.Mended) > 0 {
				t.Fatalf("got %+v, %v", r, err)
			}
			cure, ok := check.Cure(&r, nil)
			if !ok || !cure.Rebuild {
				t.Fatalf("cure: got %+v, %v", cure, ok)
			}
			for _, o := range []check.Options{cure, {}} {
				if r, err = check.Home(dir, o); err != nil || len(r.Problems) > 0 {
					t.Errorf("with %+v: got %+v, %v", o, r, err)
				}
			}
		})
	}
}
