package indexfile

import (
	"hash/crc32"
	"strconv"

	"cutie/queuefs/index"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Names of files; SmallName is a catalog of queues with few jobs, tombstones are beside the
// file of a queue.
const (
	QueueName      = "queue"
	CheckpointName = "checkpoint"
	DoubtName      = "doubt"
	TombstonesName = "culled"
	SmallName      = "small"
)

// ParsePageName accepts the output of [index.PageName] only.
func ParsePageName(name string) (int, bool) {
	if len(name) != 10 || name[0] != 'p' {
		return 0, false
	}
	n, err := strconv.Atoi(name[1:])
	return n, err == nil && n >= 0 && index.PageName(n) == name
}
