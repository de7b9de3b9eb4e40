package compose

import (
	"net/textproto"
	"strconv"
	"strings"
)

// A Coding is a content coding (RFC 9110, 8.4.1).
type Coding uint8

const (
	Identity Coding = iota
	Gzip
	Zstd // RFC 8878
)

// String returns the name of the coding in headers.
func (c Coding) String() string { return [...]string{"identity", "gzip", "zstd"}[c] }

// Suffix ends entity tags of the form. It must change if the same text gets
// other bytes.
func (c Coding) Suffix() string { return [...]string{"", "-gzip", "-zst"}[c] }

// Accepted returns the coding a client likes best of those it names (RFC 9110,
// 12.5.3). Of equals it is Gzip, because some clients read the first frame of
// Zstandard only. A wildcard is no wish.
func Accepted(values []string) Coding {
	best, most := Identity, 0.0
	for _, v := range values {
		for item := range strings.SplitSeq(v, ",") {
			name, params, _ := strings.Cut(item, ";")
			c := parseCoding(textproto.TrimString(name))
			if c == Identity {
				continue
			}
			if q := weight(params); q > most || q == most && q > 0 && c < best {
				best, most = c, q
			}
		}
	}
	return best
}

func parseCoding(name string) Coding {
	switch {
	case strings.EqualFold(name, "gzip"), strings.EqualFold(name, "x-gzip"):
		return Gzip
	case strings.EqualFold(name, "zstd"):
		return Zstd
	}
	return Identity
}

// weight reads the parameter q: 1 without one, 0 if it is malformed.
func weight(params string) float64 {
	params = textproto.TrimString(params)
	if params == "" {
		return 1
	}
	name, value, _ := strings.Cut(params, "=")
	q, err := strconv.ParseFloat(value, 64)
	if err != nil || !strings.EqualFold(name, "q") || q < 0 || q > 1 {
		return 0
	}
	return q
}
