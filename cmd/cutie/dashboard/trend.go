package dashboard

import (
	"fmt"
	"math"
	"time"
)

// TrendTime is over how long a [Trend] is taken.
const TrendTime = 10 * time.Minute

// A Trend says whether the pending jobs of a queue grow in number. The zero Trend is unknown.
type Trend struct {
	By   float64
	In   time.Duration
	Left float64 // jobs pending at its end
}

// TrendOf returns the trend of a queue, of the service for "".
func TrendOf(h *History, queue string, now time.Time) Trend {
	if h == nil {
		return Trend{}
	}
	by, in, _ := h.Change(queue, Pending, TrendTime, now)
	return Trend{By: float64(by), In: in}
}

// Sign is the change for a column.
func (t Trend) Sign() string {
	switch n := math.Round(t.By); {
	case t.In == 0:
		return "–"
	case n > 0:
		return "+" + grouped(fmt.Sprint(int64(n)))
	case n < 0:
		return "−" + grouped(fmt.Sprint(int64(-n)))
	}
	return "0"
}

// String is the change as a sentence, "" for an unknown one.
func (t Trend) String() string {
	n := int64(math.Round(t.By))
	ago := lasting(t.In.Seconds())
	switch {
	case t.In == 0:
		return ""
	case n > 0:
		return fmt.Sprintf("It grows: %s more pending than %s ago.", grouped(fmt.Sprint(n)), ago)
	case n < 0:
		s := fmt.Sprintf("It shrinks: %s fewer pending than %s ago.", grouped(fmt.Sprint(-n)), ago)
		if t.Left > 0 {
			s += " At this pace none is left in " + lasting(t.Left/-t.By*t.In.Seconds()) + "."
		}
		return s
	}
	return fmt.Sprintf("As many pending as %s ago.", ago)
}
