package indexfile

import (
	"bytes"
	"fmt"
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

// Unseal reads a state file from before [durable.Sealed], with a line "crc: "
// at its end, and returns the text above this line.
func Unseal(data []byte) ([]byte, error) {
	i := max(0, bytes.LastIndex(data, []byte("crc: ")))
	if fmt.Sprintf("crc: %08x\n", crc32.Checksum(data[:i], castagnoli)) != string(data[i:]) {
		return nil, index.ErrPage
	}
	return data[:i], nil
}
