package sitemap

import "testing"

// Each byte at each place among plain ones is found to be special, or is not, as the
// table says.
func TestSpecialBytesAreFoundInWords(t *testing.T) {
	for c := range 256 {
		for at := range 8 {
			for _, fill := range []byte{'a', '!', '~', ' '} {
				var w uint64
				for i := range 8 {
					b := fill
					if i == at {
						b = byte(c)
					}
					w |= uint64(b) << (8 * i)
				}
				if got, want := hasSpecial(w), special[c]; got != want {
					t.Errorf("%#02x at %d among %q: got %v, want %v", c, at, fill, got, want)
				}
			}
		}
	}
}
