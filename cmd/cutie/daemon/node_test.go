package daemon

import (
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"cutie/queuefs"
	"cutie/queuefs/objects/objectstest"
	"cutie/queuefs/stored"
)

// openAmong opens a home in a store, as a standby if it has an owner.
func openAmong(t *testing.T, m *objectstest.Memory, name string) *queuefs.Service {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := queuefs.Init(dir, queuefs.ServiceInfo{Name: "x"}); err != nil {
		t.Fatal(err)
	}
	svc, err := queuefs.Open(dir, queuefs.Options{Stored: &stored.Options{Objects: m, Name: name, URL: "http://" + name + "/", Standby: true, Patience: 10 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { svc.Close() })
	return svc
}

// A store goes away after the claim of a takeover. Signs of life of the daemon that made it
// keep the others from taking over, so it has to go on itself.
func TestATakeoverCutOffAfterItsClaimGoesOn(t *testing.T) {
	var away atomic.Bool
	m := &objectstest.Memory{Fault: func(r objectstest.Request) objectstest.Fault {
		if away.Load() && strings.HasPrefix(r.Name, "snapshot/") {
			return objectstest.Before
		}
		return objectstest.None
	}}
	openAmong(t, m, "a")
	b := openAmong(t, m, "b")
	n := newNode(b, NodeOptions{URL: "http://b/", TakeoverAfter: time.Second}, zerolog.Nop(), func() time.Duration { return 0 }, make(chan error, 1))
	claim, _ := b.Standing()
	step := func() {
		_ = n.follow(t.Context()) // the store may be away
		if err := n.pulse.Beat(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	away.Store(true)
	for end := time.Now().Add(20 * time.Second); ; step() {
		if now, _ := b.Standing(); now.Batch > claim.Batch {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it does not try to take over")
		}
	}
	if !n.standby() {
		t.Fatal("it took over without the store")
	}
	away.Store(false)
	for end := time.Now().Add(5 * time.Second); n.standby(); step() {
		if time.Now().After(end) {
			t.Fatal("the home stays without an owner")
		}
	}
	if _, err := b.CreateQueue(t.Context(), queuefs.QueueInfo{Identifier: "q", Name: "q", CullingSize: -1, CullingAge: -1}); err != nil {
		t.Error(err)
	}
}
