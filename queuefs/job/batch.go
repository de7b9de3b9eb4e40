package job

import (
	"fmt"
	"strconv"
	"strings"
)

// The jobs of one submission have consecutive numbers, so the name of a batch
// tells which they are, and no index of batches is needed.

// BatchName returns the name of a batch of n jobs from first on.
func BatchName(first ID, n int) string { return fmt.Sprintf("b%012d-%d", first, n) }

// ParseBatch returns the jobs of a batch that [BatchName] named: n of
// them from first on. Any other name is [ErrBadName].
func ParseBatch(name string) (first ID, n int, err error) {
	number, count, _ := strings.Cut(name, "-")
	if strings.HasPrefix(number, "b") {
		first, err = ParseID("j" + number[1:])
		if err == nil {
			n, err = strconv.Atoi(count)
		}
	}
	if err != nil || n < 1 || BatchName(first, n) != name {
		return 0, 0, fmt.Errorf("%w: batch %.40q", ErrBadName, name)
	}
	return first, n, nil
}
