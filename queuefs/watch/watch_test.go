package watch_test

import (
	"sync"
	"testing"

	"cutie/queuefs/watch"
)

func woken(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestAnEventWakesTheQueueAndItsJob(t *testing.T) {
	var w watch.Watch
	w.Wake(1)
	one, _ := w.Job(1)
	again, _ := w.Job(1)
	two, _ := w.Job(2)
	any := w.Any()
	if one != again || any != w.Any() {
		t.Error("one channel for all is enough")
	}
	w.Wake(1)
	if !woken(one) || !woken(any) || woken(two) {
		t.Errorf("woken: job %v, queue %v, another job %v", woken(one), woken(any), woken(two))
	}
	if next, _ := w.Job(1); woken(next) || woken(w.Any()) {
		t.Error("woken by an event of before")
	}
	next, _ := w.Job(1)
	w.WakeAll()
	if !woken(two) || !woken(next) || woken(w.Any()) {
		t.Error("not all are woken, or one too many")
	}
}

func TestLeavingKeepsOthersWaiting(t *testing.T) {
	var w watch.Watch
	first, leaveFirst := w.Job(7)
	second, leaveSecond := w.Job(7)
	leaveFirst()
	w.Wake(7)
	if !woken(first) || !woken(second) {
		t.Error("the second one sleeps on")
	}
	third, leaveThird := w.Job(7)
	leaveSecond() // too late: it was woken
	w.Wake(7)
	if !woken(third) {
		t.Error("the third one sleeps on")
	}
	leaveThird()
	fourth, leaveFourth := w.Job(7)
	leaveFourth()
	if fifth, _ := w.Job(7); fifth == fourth {
		t.Error("the channel stays after the last one has left")
	}
}

func TestSignalMissesNothing(t *testing.T) {
	var g watch.Signal
	const events = 1000
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for seen := uint64(0); seen < events; {
				wake := g.Next()
				if n := g.Count(); n > seen {
					seen = n
					continue
				}
				<-wake
			}
		})
	}
	for range events {
		g.Raise()
	}
	wg.Wait()
	if got := g.Count(); got != events {
		t.Errorf("got %d events, want %d", got, events)
	}
}
