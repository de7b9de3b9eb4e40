package job

import "fmt"

// An Acknowledge is the meaning of a silent consumer for a queue.
type Acknowledge uint8

const (
	AckNone     Acknowledge = iota // consumed is done
	AckRequired                    // the job goes back when the lease ends
	AckTimeout                     // the job is completed when the lease ends
)

var acknowledgeNames = [...]string{"none", "required", "timeout"}

func (a Acknowledge) String() string {
	if int(a) < len(acknowledgeNames) {
		return acknowledgeNames[a]
	}
	return fmt.Sprintf("Acknowledge(%d)", a)
}

// ParseAcknowledge accepts "none", "required" and "timeout".
func ParseAcknowledge(s string) (Acknowledge, error) {
	for i, n := range acknowledgeNames {
		if n == s {
			return Acknowledge(i), nil
		}
	}
	return 0, fmt.Errorf("%w: acknowledge %.40q is none of none, required, timeout", ErrBadName, s)
}
