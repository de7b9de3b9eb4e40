package queuefs

import (
	"fmt"
	"strconv"
	"strings"
)

// The jobs of one submission have consecutive numbers, so the name of a batch
// tells which they are, and no index of batches is needed.

func batchName(first JobID, n int) string { return fmt.Sprintf("b%012d-%d", first, n) }

// ParseBatch returns the jobs of a batch that [Submission.Group] named: n of
// them from first on. Any other name is [ErrBadName].
func ParseBatch(name string) (first JobID, n int, err error) {
	number, count, _ := strings.Cut(name, "-")
	if strings.HasPrefix(number, "b") {
		first, err = ParseJobID("j" + number[1:])
		if err == nil {
			n, err = strconv.Atoi(count)
		}
	}
	if err != nil || n < 1 || batchName(first, n) != name {
		return 0, 0, fmt.Errorf("%w: batch %.40q", ErrBadName, name)
	}
	return first, n, nil
}
