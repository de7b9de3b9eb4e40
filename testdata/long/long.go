// Package long decides how far tests go that could go on for ever: processes killed at
// random, a fault at every step, random damage, crowds of clients. By default they do
// a part. With CUTIE_LONG=1, as in "make long", they do all.
package long

import "os"

// On reports whether tests do all they can.
func On() bool { return os.Getenv("CUTIE_LONG") != "" }

// N returns how often a test does something: few times by default, else many.
func N(few, many int) int {
	if On() {
		return many
	}
	return few
}
