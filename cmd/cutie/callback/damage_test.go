package callback_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cutie/cmd/cutie/callback"
	"cutie/queuefs"
)

// urlDamages are the damages of the file with the URL of a callback.
var urlDamages = map[string]func(file string) error{
	"flipped": func(file string) error {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		b[len(b)/2] ^= 1
		return os.WriteFile(file, b, 0o600)
	},
	"empty": func(file string) error { return os.Truncate(file, 0) },
	"gone":  os.Remove,
}

// TestALostURLStopsNobodyElse damages the file with the URL of one queue, before the
// opening and while the home is open. The others are told of their changes, checkpoints
// are made, and the changes of this queue wait until its callback is set again.
func TestALostURLStopsNobodyElse(t *testing.T) {
	for name, damage := range urlDamages {
		for _, open := range []bool{true, false} {
			t.Run(name+map[bool]string{true: " while open", false: " before"}[open], func(t *testing.T) {
				r, other := newReceiver(t), newReceiver(t)
				h := newHome(t, callback.Options{})
				h.queue("filler", "")
				q, o := h.queue("jobs", r.URL+"/secret"), h.queue("other", other.URL+"/x")
				h.submit(q, "a")
				h.tick()
				r.want(t, "jobs 1 submit "+j1+" pending")
				if !open {
					h.close()
				}
				if err := damage(filepath.Join(h.dir, "callback-urls/jobs")); err != nil {
					t.Fatal(err)
				}
				if !open {
					h.open()
					q, o = h.queue("jobs", ""), h.queue("other", "")
				}
				h.submit(q, "b")
				h.submit(o, "c")
				for range 2 {
					if err := h.sender.Tick(ctx); err == nil || !strings.Contains(err.Error(), "queue jobs") || !strings.Contains(err.Error(), "set the callback of the queue again") {
						t.Errorf("tick: got %v", err)
					}
					h.sender.Wait()
				}
				other.want(t, "other 1 submit "+j1+" pending")
				h.checkpoint(q)
				h.submit(q, "d")
				h.close()
				h.open()
				r.want(t)

				h.setCallback("jobs", r.URL+"/secret")
				h.tick()
				r.want(t, "jobs 2 submit "+j2+" pending", "jobs 3 submit "+j3+" pending")
			})
		}
	}
}

// TestOtherSettingsLeaveALostURLAlone changes another property of a queue whose URL is
// lost: scheme and host, which are all that is left, do not become the callback.
func TestOtherSettingsLeaveALostURLAlone(t *testing.T) {
	for name, damage := range urlDamages {
		t.Run(name, func(t *testing.T) {
			r := newReceiver(t)
			h := newHome(t, callback.Options{})
			q := h.queue("jobs", r.URL+"/secret")
			if err := damage(filepath.Join(h.dir, "callback-urls/jobs")); err != nil {
				t.Fatal(err)
			}
			_, err := h.svc.SetQueue(ctx, "jobs", func(i *queuefs.QueueInfo) error { i.Description = "other"; return nil })
			if err != nil {
				t.Fatal(err)
			}
			if to, err := q.Callback(); err == nil {
				t.Errorf("the callback is %s now", to)
			}
			h.setCallback("jobs", r.URL+"/another")
			if to, err := q.Callback(); err != nil || to != r.URL+"/another" {
				t.Errorf("got %s, %v", to, err)
			}
		})
	}
}
