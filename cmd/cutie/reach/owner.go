package reach

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// AsOwner makes files that root writes from now on belong to the owner of the directory:
// else the daemon of that user could not open them. It does nothing for other users, nor
// without the directory.
//
// The file system identity of all threads changes, and they keep the capabilities of root,
// so that files of root alone can be read as before. Programs started get the identity of
// root.
func AsOwner(dir string) error {
	info, err := os.Stat(dir)
	if err != nil || os.Geteuid() != 0 {
		return nil // whoever opens it reports the error
	}
	of, ok := info.Sys().(*syscall.Stat_t)
	if !ok || of.Uid == 0 {
		return nil
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&head, &caps[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	for i := range caps {
		caps[i].Effective = caps[i].Permitted
	}
	for _, c := range [][3]uintptr{
		{unix.SYS_SETFSGID, uintptr(of.Gid)},
		{unix.SYS_SETFSUID, uintptr(of.Uid)}, // takes the capabilities for files away
		{unix.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&caps[0]))},
	} {
		_, _, errno := syscall.AllThreadsSyscall(c[0], c[1], c[2], 0)
		if errno == syscall.ENOTSUP { // a build with cgo: without the capabilities of root
			return errors.Join(syscall.Setegid(int(of.Gid)), syscall.Seteuid(int(of.Uid)))
		}
		if errno != 0 {
			return fmt.Errorf("write as the owner of %s: %w", dir, errno)
		}
	}
	return nil
}
