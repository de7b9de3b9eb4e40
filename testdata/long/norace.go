//go:build !race

package long

// Race reports whether the race detector is at work: every step takes several times as
// long, and faults at all of them are tried without it.
func Race() bool { return false }
