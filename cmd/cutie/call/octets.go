package call

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Octets is an option for a number of octets, written with or without one of
// the units K, M, G and T, powers of 1,024.
type Octets int64

const octetUnits = "KMGT"

func (o *Octets) String() string {
	n, unit := int64(*o), ""
	for i := 0; i < len(octetUnits) && n != 0 && n%1024 == 0; i++ {
		n, unit = n/1024, octetUnits[i:i+1]
	}
	return strconv.FormatInt(n, 10) + unit
}

// Set reads a number with or without a unit.
func (o *Octets) Set(text string) error {
	number, shift := text, 0
	if i := strings.IndexAny(text, octetUnits); i >= 0 && i == len(text)-1 {
		number, shift = text[:i], 10*(1+strings.IndexByte(octetUnits, text[i]))
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64>>shift {
		return fmt.Errorf("%.40q is no number of octets such as 512, 64K or 16G", text)
	}
	*o = Octets(n << shift)
	return nil
}

// Type is the name of the type in help.
func (o *Octets) Type() string { return "octets" }
