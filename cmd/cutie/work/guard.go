package work

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// guard makes a process to kill a process group when this one dies, even by SIGKILL:
// the parent-death signal reaches the command alone, and not its children. It returns
// an end of the guard. Without a shell there is no guard.
func guard(group int) (end func()) {
	from, to, err := os.Pipe()
	if err != nil {
		return func() {}
	}
	defer from.Close()
	// The pipe gives a line in the end, or none if this process has died.
	cmd := exec.Command("/bin/sh", "-c", `trap "" HUP INT TERM; read -r line || kill -s KILL -- "-$0"`, strconv.Itoa(group))
	cmd.Stdin, cmd.Dir, cmd.Env = from, "/", []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		to.Close()
		return func() {}
	}
	return func() {
		to.WriteString("\n")
		to.Close()
		cmd.Wait()
	}
}
