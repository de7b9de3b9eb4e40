package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/rest"
)

// exitTransient is the exit code of a command that may do better at another
// time (EX_TEMPFAIL of sysexits.h).
const exitTransient = 75

// do does one job and reports what became of it. Its errors are of this job
// alone, and are told.
func (w *worker) do(ctx context.Context, d *rest.Delivery) {
	w.sayf("%s: %s: taken", w.queue, d.Job)
	what, err := w.attempt(ctx, d)
	switch {
	case errors.Is(err, queuefs.ErrLease):
		w.warnf("%s: %s: the lease is gone, the command was ended", w.queue, d.Job)
	case err != nil:
		w.warnf("%s: %s: %v", w.queue, d.Job, err)
	default:
		w.sayf("%s: %s: %s", w.queue, d.Job, what)
	}
}

// attempt runs the command and reports; what is the outcome.
func (w *worker) attempt(ctx context.Context, d *rest.Delivery) (what string, err error) {
	// What is reported is reported also when this program is to end.
	held, gone := context.WithCancelCause(context.WithoutCancel(ctx))
	defer gone(nil)
	var beat sync.WaitGroup
	defer beat.Wait()
	beating, end := context.WithCancel(held)
	defer end()
	beat.Go(func() { w.keepLease(beating, d, gone) })

	dir, err := os.MkdirTemp("", "cutie-work-")
	if err != nil {
		d.Body.Close()
		return "", errors.Join(err, w.giveBack(held, d, "no room to work in"))
	}
	defer os.RemoveAll(dir)
	if err := unpack(dir, d); err != nil {
		return "", errors.Join(err, w.giveBack(held, d, "the payload could not be read"))
	}
	message, runErr := w.command(ctx, held, dir, d)
	if cause := context.Cause(held); cause != nil {
		return "", cause
	}
	if ctx.Err() != nil {
		return "given back", w.giveBack(held, d, "the worker was ended")
	}
	c := queuefs.Conclusion{Outcome: queuefs.Completed}
	if runErr == nil {
		runErr = w.putResults(held, dir, d)
		if cause := context.Cause(held); cause != nil {
			return "", cause
		}
		message = ""
	}
	if runErr != nil {
		if errors.Is(runErr, queuefs.ErrLease) {
			return "", runErr
		}
		var exit *exec.ExitError
		c.Outcome = queuefs.Failed
		c.Transient = errors.As(runErr, &exit) && exit.ExitCode() == exitTransient
		if c.Message = message; strings.TrimSpace(message) == "" {
			c.Message = runErr.Error()
		}
	}
	return c.Outcome.String(), w.insist(held, func() error {
		_, err := w.target.Conclude(held, d.Queue, d.Job, d.Lease, c)
		return err
	}, queuefs.ErrLease)
}

func (w *worker) giveBack(ctx context.Context, d *rest.Delivery, why string) error {
	return w.insist(ctx, func() error {
		_, err := w.target.Return(ctx, d.Queue, d.Job, d.Lease, why)
		return err
	}, queuefs.ErrLease)
}

// keepLease extends the lease until ctx ends. When it is gone, or was over
// before the daemon could be reached, the work is in vain.
func (w *worker) keepLease(ctx context.Context, d *rest.Delivery, gone context.CancelCauseFunc) {
	over := time.Now().Add(w.lease)
	every := w.lease / 3
	if every > 5*time.Second {
		every = 5 * time.Second // so soon an abort is heard of
	}
	for pause(ctx, every); ctx.Err() == nil; pause(ctx, every) {
		asked := time.Now()
		to, cancel := context.WithDeadline(ctx, over)
		_, err := w.target.Extend(to, d.Queue, d.Job, d.Lease, w.lease)
		cancel()
		switch {
		case ctx.Err() != nil:
		case err == nil:
			over = asked.Add(w.lease)
		case errors.Is(err, queuefs.ErrLease), final(err), !time.Now().Before(over):
			gone(fmt.Errorf("%w: %w", queuefs.ErrLease, err))
			return
		}
	}
}

// Files in the directory of a job.
const (
	payloadFile = "payload"
	sidecarFile = "sidecar"
	outputFile  = "output"
	resultsDir  = "results"
	workDir     = "work"
)

// unpack puts a job into files.
func unpack(dir string, d *rest.Delivery) (err error) {
	defer func() { err = errors.Join(err, d.Body.Close()) }()
	for _, sub := range []string{resultsDir, workDir} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			return err
		}
	}
	if d.Sidecar != "" {
		if err := os.WriteFile(filepath.Join(dir, sidecarFile), []byte(d.Sidecar), 0o600); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(filepath.Join(dir, payloadFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, d.Body)
	return errors.Join(err, f.Close())
}

// command runs the command to its end, or until the work on the job is to end:
// then it gets SIGTERM, and SIGKILL later, with all it has started.
func (w *worker) command(ctx, held context.Context, dir string, d *rest.Delivery) (message string, err error) {
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

	said := tail{w: w}
	cmd := exec.CommandContext(run, w.args[1], w.args[2:]...)
	cmd.Dir = filepath.Join(dir, workDir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, &said
	cmd.Env = append(os.Environ(), "CUTIE_QUEUE="+d.Queue, "CUTIE_JOB="+d.Job, "CUTIE_ATTEMPT="+strconv.Itoa(d.Attempt),
		"CUTIE_FILENAME="+d.Filename, "CUTIE_MEDIA_TYPE="+d.MediaType, "CUTIE_RESULTS="+filepath.Join(dir, resultsDir),
		"CUTIE_PAYLOAD="+filepath.Join(dir, payloadFile), leaseVariable+"="+d.Lease)
	if d.Sidecar != "" {
		cmd.Env = append(cmd.Env, "CUTIE_SIDECAR="+filepath.Join(dir, sidecarFile))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	group := func(s syscall.Signal) error {
		err := syscall.Kill(-cmd.Process.Pid, s)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
	cmd.Cancel = func() error { return group(syscall.SIGTERM) }
	cmd.WaitDelay = w.grace + time.Millisecond
	if err := cmd.Start(); err != nil {
		return "", err
	}
	err = cmd.Wait()
	// What it left behind must not go on with a job that somebody else may get.
	group(syscall.SIGKILL)
	return said.text(), err
}

// A tail keeps the end of what a command says, and passes it on to those who
// want to know.
type tail struct {
	w   *worker
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	if t.w.verbose {
		t.w.stderr.Write(p)
	}
	t.buf = append(t.buf, p...)
	if n := len(t.buf) - queuefs.MaxMessage/2; n > 0 {
		t.buf = append(t.buf[:0], t.buf[n:]...)
	}
	return len(p), nil
}

// text fits into a message, also when its octets are no text.
func (t *tail) text() string {
	s := string(bytes.TrimSpace(bytes.ToValidUTF8(t.buf, []byte("?"))))
	return strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\n' && r != '\t' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
}

// putResults gives back what the command has made.
func (w *worker) putResults(ctx context.Context, dir string, d *rest.Delivery) error {
	entries, err := os.ReadDir(filepath.Join(dir, resultsDir))
	if err != nil {
		return err
	}
	named := false
	for _, e := range entries {
		if err := queuefs.CheckResultName(e.Name()); err != nil {
			return err
		}
		if !e.Type().IsRegular() {
			return fmt.Errorf("result %s is not a file", e.Name())
		}
		if err := w.putResult(ctx, d, e.Name(), filepath.Join(dir, resultsDir, e.Name()), mime.TypeByExtension(filepath.Ext(e.Name()))); err != nil {
			return err
		}
		named = named || e.Name() == "result"
	}
	output := filepath.Join(dir, outputFile)
	info, err := os.Lstat(output)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 || named {
		return nil
	}
	if err != nil {
		return err
	}
	return w.putResult(ctx, d, "result", output, w.mediaType)
}

func (w *worker) putResult(ctx context.Context, d *rest.Delivery, name, path, mediaType string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	u := rest.Upload{Size: info.Size(), Open: func() (io.ReadCloser, error) { return os.Open(path) }}
	u.Filename, u.MediaType = name, mediaType
	err = w.insist(ctx, func() error { return w.target.PutResult(ctx, d.Queue, d.Job, d.Lease, u) }, queuefs.ErrResultExists)
	if err != nil {
		return fmt.Errorf("result %s: %w", name, err)
	}
	return nil
}
