// Package tmpfs has the homes of tests in memory: they are made, filled and synced
// thousands of times. A test of durability does not need a disk: no test stops the power,
// and faults of a disk are made by the tests.
package tmpfs

import (
	"os"

	"golang.org/x/sys/unix"
)

const (
	dir   = "/dev/shm"
	least = 4 << 30 // bytes free, for the homes of all packages that run at a time
)

// Use lets temporary directories be in memory where the system has a place for them,
// unless TMPDIR says where they are to be. It is called by TestMain.
func Use() {
	var fs unix.Statfs_t
	if os.Getenv("TMPDIR") == "" && unix.Statfs(dir, &fs) == nil && fs.Bavail*uint64(fs.Bsize) >= least {
		os.Setenv("TMPDIR", dir)
	}
}
