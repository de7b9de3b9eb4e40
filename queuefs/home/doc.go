// Package home has the files of a Cutie home beside its jobs (Cutie 0.3, 6): the
// names in it, its tag and lock, the properties of the service and of each queue,
// and the list of queues. Operators may edit these files at any time; a [File]
// watches one of them. A change keeps comments, order and unknown elements.
package home

import (
	"errors"
	"io/fs"

	"cutie/queuefs/durable"
)

// Names in a home. Names with cutie at the beginning are reserved for the program.
const (
	InfoName      = "cutie-info.txt"
	ListName      = "queues.txt"
	QueueInfoName = "queue-info.txt" // in the directory of a queue
	LockName      = "cutie-lock"
	ReserveName   = "cutie-reserve" // space for a full disk
	MakingName    = "cutie-making"  // while a home is made of a copy

	TempDir      = "cutie-tmp"
	QueuesDir    = "queues"
	LogDir       = "log"
	JournalDir   = "journal"      // in log
	IndexDir     = "index"        // in log
	PublishedDir = "resourcesync" // published documents, with a directory for each queue

	LostFound = "lost+found" // at the root of a volume; the file system has made it

	tagName     = "cutie"
	specVersion = "0.3"
	queuesOld   = "queue" // as one heading of the specification has it
)

// Version is the version of this implementation, the third part of a service
// scheme.
const Version = "0.1"

// Scheme is the service scheme: specification, its version, ours.
const Scheme = "Cutie/" + specVersion + "/" + Version

// ErrNoHome is the error for a directory without the tag of a home.
var ErrNoHome = errors.New("not a Cutie home")

// ErrMaking is the error for a home with [MakingName].
var ErrMaking = errors.New("the directory is not a whole home: it is being made one of a copy, and that was cut off")

// A Problem is damage, found and set aside, never deleted.
type Problem = durable.Finding

// QueueInfoPath returns the path of the property file of a queue.
func QueueInfoPath(id string) string { return QueuesDir + "/" + id + "/" + QueueInfoName }

// OpenQueues opens the directory of the queues, and makes it if there is none
// under either name.
func OpenQueues(home *durable.Dir) (*durable.Dir, error) {
	d, err := home.Sub(QueuesDir)
	if errors.Is(err, fs.ErrNotExist) {
		if d, err = home.Sub(queuesOld); errors.Is(err, fs.ErrNotExist) {
			d, err = home.MakeSub(QueuesDir)
		}
	}
	return d, err
}
