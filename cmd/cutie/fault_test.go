package main

import (
	"errors"
	"testing"

	"cutie/queuefs/ledger"
)

// A full disk is met by what a verb does, and again by closing the home.
func TestReasonIsSaidOnce(t *testing.T) {
	space, write := ledger.ErrNoSpace, errors.New("queue jobs: index: write x: no space left on device")
	for want, err := range map[string]error{
		"jobs: no space left for the queue; " + write.Error(): errors.Join(nameError("jobs", space), errors.Join(space, write)),
		"a: b; c; b: d": errors.Join(errors.New("a: b"), errors.New("c"), errors.New("b: d"), errors.New("c")),
		"ab; b":         errors.Join(errors.New("ab"), errors.New("b")),
	} {
		if got := onOneLine(err); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
