package work

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"cutie/queuefs/job"
	"cutie/queuefs/rest/client"
)

// LeaseVariable is the environment variable for the token of a lease.
const LeaseVariable = "CUTIE_LEASE"

// tokenVariable is the environment variable with the token of the worker. It may do
// far more than the command has to: the lease is enough for the job.
const tokenVariable = "CUTIE_TOKEN"

// environment is that of this process for the command.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, tokenVariable+"=") })
}

// command runs the command to its end. When ctx or held ends, the command and
// its children get SIGTERM, and SIGKILL after the grace. They do not outlive this
// process: another consumer gets the job then.
func (w *Worker) command(ctx, held context.Context, dir string, d *client.Delivery) (message string, err error) {
	in, err := os.Open(filepath.Join(dir, payloadFile))
	if err != nil {
		return "", err
	}
	defer in.Close()
	out, err := os.OpenFile(filepath.Join(dir, outputFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	run, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(held, cancel)()

	// With a pipe of our own, nobody waits for children holding it open.
	from, to, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer from.Close()
	defer to.Close()
	cmd := exec.CommandContext(run, w.Program, w.Args[1:]...)
	cmd.Args[0] = w.Args[0]
	cmd.Dir = filepath.Join(dir, workDir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, to
	cmd.Env = append(environment(), "CUTIE_QUEUE="+d.Queue, "CUTIE_JOB="+d.Job, "CUTIE_ATTEMPT="+strconv.Itoa(d.Attempt),
		"CUTIE_FILENAME="+d.Filename, "CUTIE_MEDIA_TYPE="+d.MediaType, "CUTIE_RESULTS="+filepath.Join(dir, resultsDir),
		"CUTIE_PAYLOAD="+filepath.Join(dir, payloadFile), LeaseVariable+"="+d.Lease)
	if d.Trace[0] != "" {
		cmd.Env = append(cmd.Env, "TRACEPARENT="+d.Trace[0], "TRACESTATE="+d.Trace[1])
	}
	if uploads := filepath.Join(dir, uploadsDir); isDir(uploads) {
		cmd.Env = append(cmd.Env, "CUTIE_UPLOADS="+uploads)
	}
	if d.HasSidecar {
		cmd.Env = append(cmd.Env, "CUTIE_SIDECAR="+filepath.Join(dir, sidecarFile))
	}
	// The signal comes when the thread ends that has started the command.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	group := func(s syscall.Signal) error {
		err := syscall.Kill(-cmd.Process.Pid, s)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
	cmd.Cancel = func() error { return group(syscall.SIGTERM) }
	cmd.WaitDelay = w.Grace + time.Millisecond
	watch, end := guard()
	defer end()
	if err := cmd.Start(); err != nil {
		return "", &startError{err}
	}
	watch(cmd.Process.Pid)
	to.Close()
	said, ended := tail{pass: w.Stderr}, make(chan struct{})
	go func() {
		io.Copy(&said, from)
		close(ended)
	}()
	err = cmd.Wait()
	// Children must not go on with a job of another consumer.
	group(syscall.SIGKILL)
	from.SetReadDeadline(time.Now().Add(time.Second)) // for children outside the group
	<-ended
	return said.text(), err
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// A startError means the command cannot run for any job.
type startError struct{ err error }

func (e *startError) Error() string { return "the command could not be started: " + e.err.Error() }
func (e *startError) Unwrap() error { return e.err }

// A tail keeps the end of the standard error of a command, and passes all of it on.
type tail struct {
	pass io.Writer
	buf  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	if t.pass != nil {
		t.pass.Write(p)
	}
	t.buf = append(t.buf, p...)
	if n := len(t.buf) - job.MaxMessage/2; n > 0 {
		t.buf = append(t.buf[:0], t.buf[n:]...)
	}
	return len(p), nil
}

// text is the tail as a message; other octets than text become "?".
func (t *tail) text() string {
	s := string(bytes.TrimSpace(bytes.ToValidUTF8(t.buf, []byte("?"))))
	return strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\n' && r != '\t' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
}
