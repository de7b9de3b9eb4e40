package work

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// guard makes a process to kill a process group when this one dies, even by SIGKILL:
// the parent-death signal reaches the command alone, and not its children. It is there
// before the command is, and watch tells it the group. end is its end. Without a shell
// there is no guard.
func guard() (watch func(group int), end func()) {
	watch, end = func(int) {}, func() {}
	from, to, err := os.Pipe()
	if err != nil {
		return watch, end
	}
	defer from.Close()
	// The pipe gives a line with the group, and another one in the end, or none if this
	// process has died.
	cmd := exec.Command("/bin/sh", "-c", `trap "" HUP INT TERM; read -r group && [ "$group" ] && { read -r line || kill -s KILL -- "-$group"; }`)
	cmd.Stdin, cmd.Dir, cmd.Env = from, "/", []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		to.Close()
		return watch, end
	}
	watch = func(group int) { to.WriteString(strconv.Itoa(group) + "\n") }
	return watch, func() {
		to.WriteString("\n")
		to.Close()
		cmd.Wait()
	}
}
