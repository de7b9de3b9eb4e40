// Package indexfile has the files of the index of a home, in log/index, except for the
// pages themselves:
//
//	checkpoint          where replay begins, and whether the home was closed
//	doubt               a sync of the file system has failed since the checkpoint
//	small               the queue file and page 0 of each queue with few jobs
//	queues/QID/queue    numbers and names, needed by the pages
//	queues/QID/culled   tombstones of culled jobs
//	queues/QID/pN       page N, see package index
//
// It reads and writes their forms, and decides nothing. The checkpoint names the format of
// the home, 1; another one is refused.
package indexfile
