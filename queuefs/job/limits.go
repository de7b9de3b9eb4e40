package job

import (
	"fmt"
	"strconv"
	"strings"
)

// Unlimited is a limit set to none.
const Unlimited = -1

// Limits are those of a user in a queue. 0 is not set, [Unlimited] no limit. As
// text they are a list such as
//
//	pending=100,active=1000,upload=1000000000,run=3600,life=720
//
// with 0 for no limit.
type Limits struct {
	Pending int64 // jobs made and not started (UWS 1.1, 2.1.3)
	Active  int64 // jobs waiting for a consumer or in work
	Upload  int64 // bytes of the payloads of all these jobs together
	Run     int64 // seconds that a job may run
	Life    int64 // hours from the creation of a job to its destruction
}

// maxLimit is the largest number in the text of Limits, so that products of
// units fit.
const maxLimit = 1 << 50

// mostOf are the largest values; run fits the document of a job, and life a time
// before the year 9999.
var mostOf = map[string]int64{"pending": maxLimit, "active": maxLimit, "upload": maxLimit, "run": 1<<31 - 1, "life": 1_000_000}

// names returns the limits by their names, in the order of the text.
func (l *Limits) names() []struct {
	name string
	n    *int64
} {
	return []struct {
		name string
		n    *int64
	}{{"pending", &l.Pending}, {"active", &l.Active}, {"upload", &l.Upload}, {"run", &l.Run}, {"life", &l.Life}}
}

// ParseLimits reads the text of [Limits.String], in any order; "" sets none.
func ParseLimits(text string) (l Limits, err error) {
	if text == "" {
		return l, nil
	}
parts:
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		for _, one := range l.names() {
			if one.name != name {
				continue
			}
			n, err := strconv.ParseInt(value, 10, 64)
			switch {
			case err != nil || n < 0 || n > mostOf[name]:
				return Limits{}, fmt.Errorf("%w: limit %.40q is not a number from 0 to %d", ErrBadName, part, mostOf[name])
			case *one.n != 0:
				return Limits{}, fmt.Errorf("%w: limit %s is repeated", ErrBadName, name)
			case n == 0:
				n = Unlimited
			}
			*one.n = n
			continue parts
		}
		return Limits{}, fmt.Errorf("%w: limit %.40q is none of pending, active, upload, run, life, each with = and a number", ErrBadName, part)
	}
	return l, nil
}

// String returns the limits that are set.
func (l Limits) String() string {
	var b strings.Builder
	for _, one := range l.names() {
		if *one.n == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(one.name + "=" + strconv.FormatInt(max(*one.n, 0), 10))
	}
	return b.String()
}

// Over returns l, completed by under where l sets nothing.
func (l Limits) Over(under Limits) Limits {
	to, from := l.names(), under.names()
	for i := range to {
		if *to[i].n == 0 {
			*to[i].n = *from[i].n
		}
	}
	return l
}
