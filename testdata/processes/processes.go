// Package processes starts the processes of tests, so that none outlives a run that was
// cut off.
package processes

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

var (
	starts = make(chan func())
	begin  = sync.OnceFunc(func() {
		go func() {
			// The kernel sends the signal at the end of the thread that started a process,
			// so this one lasts as long as the program.
			runtime.LockOSThread()
			for start := range starts {
				start()
			}
		}()
	})
)

// Start is cmd.Start. The process is killed when this one ends, in whatever way.
func Start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	begin()
	done := make(chan error)
	starts <- func() { done <- cmd.Start() }
	return <-done
}
