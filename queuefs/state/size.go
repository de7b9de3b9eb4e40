package state

import "fmt"

// FormatSize writes a number of bytes for people: all digits below 1000, else three
// digits and a unit.
func FormatSize(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	v, unit := float64(n), 0
	for ; v >= 999.5; unit++ {
		v /= 1000
	}
	return fmt.Sprintf("%.3g %cB", v, " kMGTPE"[unit])
}
