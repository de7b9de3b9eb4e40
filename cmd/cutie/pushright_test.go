package main_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// denied waits until the hub has said that a subscription has ended.
func (s *subscriber) denied() {
	s.t.Helper()
	s.until("told that it may no longer", func() bool {
		for _, args := range s.asked {
			if args.Get("hub.mode") == "denied" && args.Get("hub.reason") != "" {
				return true
			}
		}
		return false
	})
}

func TestASubscriptionEndsWithTheRightToRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	users, home := filepath.Join(dir, "users.txt"), filepath.Join(dir, "home")
	run := func(args ...string) string {
		t.Helper()
		text, err := cutie(t, append(args, "--users", users)...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(text)
	}
	var all []*subscriber
	as := map[string]string{}
	for _, name := range []string{"ann", "bob", "eve"} {
		run("user", "add", name, "--rights", "read,submit", "--no-password")
		as[name] = "Bearer " + run("token", "add", name, "--name", name+"-token")
		all = append(all, newSubscriber(t))
	}
	ann, bob, eve := all[0], all[1], all[2]
	args := []string{"--users", users, "--allow-fetch", loopback,
		"--listen", fmt.Sprintf("127.%d.%d.%d:8094", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))}
	d := serveHome(t, home, args...)
	topic := d.url + ".well-known/resourcesync/jobs/pending/change-notification.xml"
	again := func(more ...string) {
		t.Helper()
		if err := d.stop(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		d = serveHome(t, home, append(args, more...)...)
	}
	for i, name := range []string{"ann", "bob", "eve"} {
		if status, text := all[i].ask(d.url+"hub", "subscribe", topic, "Authorization", as[name]); status != http.StatusAccepted {
			t.Fatalf("%s: got %d %s", name, status, text)
		}
		all[i].until("asked whether it did", func() bool { return len(all[i].asked) > 0 })
	}
	submit := func(n int, to ...*subscriber) {
		t.Helper()
		if resp, text := send(t, http.DefaultClient, "POST", d.url+"content/jobs", "x", "Authorization", as["eve"]); resp.StatusCode != http.StatusCreated {
			t.Fatalf("got %s: %s", resp.Status, text)
		}
		for _, s := range to {
			s.until("the change", func() bool { return len(s.changes) == n })
		}
	}
	submit(1, ann, bob, eve)
	run("token", "rm", "ann-token")
	submit(2, bob, eve)
	ann.denied()
	run("user", "set", "bob", "--rights", "submit")
	again()
	submit(3, eve)
	bob.denied()
	if ann.known() != 1 || bob.known() != 2 {
		t.Errorf("got %d and %d changes, want 1 and 2", ann.known(), bob.known())
	}
	// What everybody may they may too, and who has no name is asked about as well.
	run("user", "rm", "eve")
	stranger := newSubscriber(t)
	again("--anonymous", "read,submit")
	if status, text := stranger.ask(d.url+"hub", "subscribe", topic); status != http.StatusAccepted {
		t.Fatalf("got %d %s", status, text)
	}
	stranger.until("asked whether it did", func() bool { return len(stranger.asked) > 0 })
	as["eve"] = ""
	submit(4, eve)
	stranger.until("the change", func() bool { return len(stranger.changes) == 1 })
}
