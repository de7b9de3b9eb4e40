package namaste

import "unicode/utf8"

// A Side is the part of a string that is left out.
type Side int

// The letters after the length in the arguments of File::Namaste.
const (
	End    Side = iota // "e", the default there
	Middle             // "m"
	Start              // "s"
)

// Elide cuts s to limit characters, if it has more, by leaving out the given side.
// The ellipsis stands for what is left out and counts too; it stands alone if
// there is no room for more. From the middle the longer half that stays is the
// second.
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
