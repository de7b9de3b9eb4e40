package namaste

import "unicode/utf8"

// A Side is the part of a string to leave out.
type Side int

// The letters after the length in the arguments of File::Namaste.
const (
	End    Side = iota // "e", the default there
	Middle             // "m"
	Start              // "s"
)

// Elide cuts s to limit characters, if it has more, by leaving out the given
// side. The ellipsis takes the place of the missing part and counts too;
// without room for more, it stands alone. Around a missing middle the second
// half is the longer one.
func Elide(s string, limit int, side Side, ellipsis string) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	left := max(0, limit-utf8.RuneCountInString(ellipsis))
	r := []rune(s)
	head := left
	switch side {
	case Middle:
		head = left / 2
	case Start:
		head = 0
	}
	return string(r[:head]) + ellipsis + string(r[len(r)-(left-head):])
}
