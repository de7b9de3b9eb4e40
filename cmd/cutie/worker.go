package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"mime/multipart"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"cutie/queuefs"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/rest/client"
)

// A worker takes the jobs of one queue with leases, runs a command for each in a directory
// of its own, keeps the lease meanwhile, and reports results and outcome. Its fields do not
// change during Run.
//
// A job is completed, failed or given back exactly once, unless the lease is lost:
// then its command is ended, and nothing is reported but the results of an aborted
// job. A crash of the worker ends its commands, and leaves the job to its lease.
type worker struct {
	Client     *client.Client
	Queue      string
	Program    string                        // path of the command; see [findProgram]
	Args       []string                      // of the command, with its name
	Jobs       int                           // at a time
	Lease      time.Duration                 // after which jobs go back if this process dies
	Grace      time.Duration                 // between SIGTERM and SIGKILL
	ResultType string                        // media type of standard output
	Drain      bool                          // end when no job is pending
	Summary    time.Duration                 // between two lines about the work; above 0
	Stderr     io.Writer                     // gets the standard error of commands; nil if nobody reads it
	Warn, Say  func(format string, a ...any) // report failures and sums, and all else

	tally tally
}

const (
	workWait  = 30 * time.Second // of one request, for a job
	workPause = time.Second      // before the next try to reach a daemon
	// maxBackoff is the longest pause after giving a job back: the next may be
	// the same one.
	maxBackoff = time.Minute
)

// findProgram finds a command. Commands run in other directories, so a relative path
// begins in the present one.
func findProgram(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return "", errors.Unwrap(err)
	}
	return filepath.Abs(path)
}

// Run works until ctx ends, or until no job is pending with Drain; then the jobs in
// work are given back and the error is nil. Other errors concern all jobs: the command
// cannot be started, or the service refuses.
func (w *worker) Run(ctx context.Context) error {
	run, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var all, told sync.WaitGroup
	done := make(chan struct{})
	told.Go(func() { w.summarize(done) })
	for range w.Jobs {
		all.Go(func() {
			if err := w.loop(run); err != nil {
				stop(err)
			}
		})
	}
	all.Wait()
	close(done)
	told.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(run)
}

// loop works on one job after another.
func (w *worker) loop(ctx context.Context) error {
	lost := false
	var backoff time.Duration
	for ctx.Err() == nil {
		wait := workWait
		if w.Drain {
			wait = 0
		}
		d, err := w.Client.NextFor(ctx, w.Queue, queuefs.Take{Lease: w.Lease}, wait)
		switch {
		case err == nil:
			lost = false
			if backoff, err = w.do(ctx, d, backoff); err != nil {
				return err
			}
			pause(ctx, backoff)
		case ctx.Err() != nil:
		case errors.Is(err, ledger.ErrEmpty):
			if lost = false; w.Drain {
				return nil
			}
		case !client.Temporary(err):
			return err
		default:
			if !lost {
				w.Warn("%s: %v; asks again", w.Queue, err)
			}
			lost = true
			pause(ctx, workPause)
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// leaseVariable is the environment variable for the token of a lease.
const leaseVariable = "CUTIE_LEASE"

// tokenVariable is the environment variable with the token for a daemon.
const tokenVariable = "CUTIE_TOKEN"

// environment is that of this process for the command, without the token of the worker. It may
// do far more than the command has to: the lease is enough for the job.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, tokenVariable+"=") })
}

// command runs the command to its end. When ctx or held ends, the command and
// its children get SIGTERM, and SIGKILL after the grace. They do not outlive this
// process: another consumer gets the job then.
func (w *worker) command(ctx, held context.Context, dir string, d *client.Delivery) (message string, err error) {
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
		"CUTIE_PAYLOAD="+filepath.Join(dir, payloadFile), leaseVariable+"="+d.Lease)
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

// Files in the directory of a job.
const (
	payloadFile = "payload"
	sidecarFile = "sidecar"
	outputFile  = "output"
	resultsDir  = "results"
	uploadsDir  = "uploads"
	workDir     = "work"
)

// unpack puts a job into files. unread is an error of the payload, err one of the
// files.
func unpack(dir string, d *client.Delivery) (unread, err error) {
	defer d.Body.Close()
	for _, sub := range []string{resultsDir, workDir} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, err
		}
	}
	if d.HasSidecar {
		if err := os.WriteFile(filepath.Join(dir, sidecarFile), []byte(d.Sidecar), 0o600); err != nil {
			return nil, err
		}
	}
	if unread, err = save(filepath.Join(dir, payloadFile), d.Body); unread != nil || err != nil {
		return unread, err
	}
	return nil, unpackUploads(dir, d.MediaType)
}

// unpackUploads makes files of the parts of a payload in multipart/form-data. It
// leaves out parts without a file name. A malformed payload, or one cut off, gives
// no files; the command sees the payload itself.
func unpackUploads(dir, mediaType string) error {
	media, attrs, _ := mime.ParseMediaType(mediaType)
	if media != "multipart/form-data" || attrs["boundary"] == "" {
		return nil
	}
	payload, err := os.Open(filepath.Join(dir, payloadFile))
	if err != nil {
		return err
	}
	defer payload.Close()
	uploads := filepath.Join(dir, uploadsDir)
	if err := os.Mkdir(uploads, 0o700); err != nil {
		return err
	}
	for parts := multipart.NewReader(payload, attrs["boundary"]); ; {
		p, err := parts.NextRawPart()
		if err == io.EOF { // wrapped, it means a missing end
			return nil
		}
		if err != nil {
			return os.RemoveAll(uploads)
		}
		if job.CheckResultName(p.FormName()) != nil {
			continue
		}
		unread, err := save(filepath.Join(uploads, p.FormName()), p)
		switch {
		case errors.Is(err, fs.ErrExist): // the first part of a name counts
		case err != nil:
			return err
		case unread != nil:
			return os.RemoveAll(uploads)
		}
	}
}

// save copies r to a new file. unread is an error of r, err one of the file.
func save(name string, r io.Reader) (unread, err error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	in := &reading{r: r}
	_, err = io.Copy(f, in)
	if in.err != nil {
		err = nil // the error of r
	}
	return in.err, errors.Join(err, f.Close())
}

// reading keeps the error of r; nil at its end.
type reading struct {
	r   io.Reader
	err error
}

func (r *reading) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err != io.EOF {
		r.err = err
	}
	return n, err
}

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

// exitTransient is the exit code of a command for a later try (EX_TEMPFAIL of
// sysexits.h).
const exitTransient = 75

// maxUnread is the attempt at which a job with an unreadable payload fails: until
// then it blocks the jobs after it.
const maxUnread = 5

// A loadError is the reason why a job was given back before its command ran.
type loadError struct{ err error }

func (e *loadError) Error() string { return e.err.Error() }
func (e *loadError) Unwrap() error { return e.err }

// do works on one job and reports its outcome. An error ends the worker; the
// failure of this job alone is a warning. wait is the pause after giving the job
// back, and backoff the pause before it.
func (w *worker) do(ctx context.Context, d *client.Delivery, backoff time.Duration) (wait time.Duration, err error) {
	w.Say("%s: %s: taken", w.Queue, d.Job)
	end, what, err := w.attempt(ctx, d)
	w.tally.add(end)
	start, load := (*startError)(nil), (*loadError)(nil)
	switch {
	case errors.As(err, &start):
		return 0, err
	case errors.As(err, &load):
		wait = min(max(2*backoff, workPause), maxBackoff)
		w.Warn("%s: %s: %v; waits %v", w.Queue, d.Job, err, wait)
	case errors.Is(err, queuefs.ErrLease):
		w.Warn("%s: %s: the lease is gone, the command was ended%s", w.Queue, d.Job, what)
	case err != nil:
		w.Warn("%s: %s: %v", w.Queue, d.Job, err)
	case end == failed || end == retried:
		w.Warn("%s: %s: %s", w.Queue, d.Job, what)
	default:
		w.Say("%s: %s: %s", w.Queue, d.Job, what)
	}
	return wait, nil
}

// attempt runs the command, and reports and returns the outcome, in words too.
func (w *worker) attempt(ctx context.Context, d *client.Delivery) (end ending, what string, err error) {
	// Reports are sent even when this program is interrupted.
	held, stop := w.Client.KeepLease(context.WithoutCancel(ctx), d, w.Lease)
	defer stop()

	dir, err := os.MkdirTemp("", "cutie-work-")
	if err != nil {
		d.Body.Close()
		return givenBack, "", &loadError{errors.Join(err, w.giveBack(held, d, "no space for its files"))}
	}
	defer os.RemoveAll(dir)
	unread, err := unpack(dir, d)
	switch {
	case ctx.Err() != nil && (unread != nil || err != nil):
		return givenBack, "given back", w.giveBack(held, d, "the worker was ended")
	case unread != nil && d.Attempt >= maxUnread:
		unread = fmt.Errorf("the payload could not be read: %w", unread)
		_, err := w.conclude(held, d, job.Conclusion{Outcome: job.Failed, Message: unread.Error()})
		return failed, "", errors.Join(unread, err)
	case unread != nil:
		return givenBack, "", &loadError{errors.Join(unread, w.giveBack(held, d, "the payload could not be read"))}
	case err != nil:
		return givenBack, "", &loadError{errors.Join(err, w.giveBack(held, d, "no space for its files"))}
	}
	message, runErr := w.command(ctx, held, dir, d)
	if cause := context.Cause(held); cause != nil {
		return lost, w.putLate(ctx, dir, d), cause
	}
	if ctx.Err() != nil {
		return givenBack, "given back", w.giveBack(held, d, "the worker was ended")
	}
	if start := (*startError)(nil); errors.As(runErr, &start) {
		return givenBack, "", errors.Join(runErr, w.giveBack(held, d, runErr.Error()))
	}
	if runErr == nil {
		runErr = w.putResults(ctx, held, dir, d)
		message = ""
	} else if err := w.putDetail(ctx, held, dir, d); err != nil {
		runErr, message = fmt.Errorf("%w; its detail: %w", runErr, err), ""
	}
	if cause := context.Cause(held); cause != nil {
		return lost, w.putLate(ctx, dir, d), cause
	}
	if errors.Is(runErr, errUntaken) {
		return givenBack, "given back, for no result was taken", w.giveBack(held, d, runErr.Error())
	}
	if errors.Is(runErr, queuefs.ErrLease) {
		return lost, w.putLate(ctx, dir, d), runErr
	}
	c := job.Conclusion{Outcome: job.Completed}
	if runErr != nil {
		c = failure(runErr, message)
	}
	after, err := w.conclude(held, d, c)
	if err != nil {
		return lost, "", err
	}
	end, what = ended(&c, &after)
	return end, what, nil
}

// failure is the report of a command that failed.
func failure(runErr error, message string) job.Conclusion {
	var exit *exec.ExitError
	c := job.Conclusion{Outcome: job.Failed, Message: message}
	c.Transient = errors.As(runErr, &exit) && exit.ExitCode() == exitTransient
	if strings.TrimSpace(message) == "" {
		c.Message = runErr.Error()
	}
	return c
}

// ended says how an attempt has ended, by its report and the job after it. That is zero
// if the answer to the report was lost.
func ended(c *job.Conclusion, after *job.Job) (end ending, what string) {
	lines := strings.Split(strings.TrimSpace(c.Message), "\n")
	message := lines[len(lines)-1]
	switch {
	case c.Outcome == job.Completed:
		return completed, "completed"
	case !c.Transient:
		return failed, "failed for good: " + message
	case after.ID == 0:
		return failed, "failed for now: " + message
	case after.Outcome == job.Failed:
		return failed, "failed for now, no attempts are left: " + message
	case after.HeldUntil.IsZero():
		return retried, "failed for now, another attempt follows: " + message
	}
	wait := after.HeldUntil.Sub(after.Requeued).Round(time.Second)
	return retried, fmt.Sprintf("failed for now, another attempt follows in %v: %s", wait, message)
}

func (w *worker) conclude(ctx context.Context, d *client.Delivery, c job.Conclusion) (after job.Job, err error) {
	err = client.Retry(ctx, func() (err error) {
		after, err = w.Client.Conclude(ctx, d.Queue, d.Job, d.Lease, c)
		return err
	}, queuefs.ErrLease)
	return after, err
}

func (w *worker) giveBack(ctx context.Context, d *client.Delivery, why string) error {
	return client.Retry(ctx, func() error {
		_, err := w.Client.Return(ctx, d.Queue, d.Job, d.Lease, why)
		return err
	}, queuefs.ErrLease)
}

// outputResult is the name of the result with the standard output.
const outputResult = "result"

// errUntaken: the worker was ended while the service did not take a result.
var errUntaken = errors.New("the worker was ended before its result was taken")

// putResults stores the results of the command. ctx ends with the lease, and run with the
// worker.
func (w *worker) putResults(run, ctx context.Context, dir string, d *client.Delivery) error {
	entries, err := os.ReadDir(filepath.Join(dir, resultsDir))
	if err != nil {
		return err
	}
	named := false
	for _, e := range entries {
		if err := job.CheckResultName(e.Name()); err != nil {
			return err
		}
		if !e.Type().IsRegular() {
			return fmt.Errorf("result %s is not a file", e.Name())
		}
		if err := w.putFile(run, ctx, dir, d, e.Name()); err != nil {
			return err
		}
		named = named || e.Name() == outputResult
	}
	if named || !hasOutput(dir) {
		return nil
	}
	return w.putOutput(run, ctx, dir, d)
}

// hasOutput reports whether the command has written to its standard output.
func hasOutput(dir string) bool {
	info, err := os.Lstat(filepath.Join(dir, outputFile))
	return err == nil && info.Size() > 0
}

// putOutput stores the standard output of the command as the result named result.
func (w *worker) putOutput(run, ctx context.Context, dir string, d *client.Delivery) error {
	return w.putResult(run, ctx, d, outputResult, filepath.Join(dir, outputFile), w.ResultType)
}

// putDetail stores the detail of an error, if the command has left one.
func (w *worker) putDetail(run, ctx context.Context, dir string, d *client.Delivery) error {
	for _, name := range results(dir) {
		if job.IsErrorDetail(name) {
			return w.putFile(run, ctx, dir, d, name)
		}
	}
	return nil
}

// putLate stores what the command of an aborted job has left, results and standard
// output, and says so. The service refuses it if the lease was lost in another way.
func (w *worker) putLate(ctx context.Context, dir string, d *client.Delivery) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), job.LateResults)
	defer cancel()
	names := results(dir)
	var puts []func() error
	for _, name := range names {
		puts = append(puts, func() error { return w.putFile(ctx, ctx, dir, d, name) })
	}
	if hasOutput(dir) && !slices.Contains(names, outputResult) {
		puts = append(puts, func() error { return w.putOutput(ctx, ctx, dir, d) })
	}
	kept := 0
	for _, put := range puts {
		switch err := put(); {
		case errors.Is(err, queuefs.ErrLease):
			return ""
		case err != nil && !errors.Is(err, queuefs.ErrResultExists):
			w.Warn("%s: %s: %v", w.Queue, d.Job, err)
		case err == nil:
			kept++
		}
	}
	if kept == 0 {
		return ""
	}
	return fmt.Sprintf("; results kept: %d", kept)
}

// results are the names of the files that can be results.
func results(dir string) (names []string) {
	entries, _ := os.ReadDir(filepath.Join(dir, resultsDir))
	for _, e := range entries {
		if e.Type().IsRegular() && job.CheckResultName(e.Name()) == nil {
			names = append(names, e.Name())
		}
	}
	return names
}

// putFile stores a file of the command under its name.
func (w *worker) putFile(run, ctx context.Context, dir string, d *client.Delivery, name string) error {
	mediaType := mime.TypeByExtension(filepath.Ext(name))
	if filepath.Ext(name) == ".vot" { // no system knows it
		mediaType = "application/x-votable+xml"
	}
	return w.putResult(run, ctx, d, name, filepath.Join(dir, resultsDir, name), mediaType)
}

// putResult sends a result until it is taken. One refused for now, as on a full disk, may
// be for long: the end of the worker is [errUntaken] then.
func (w *worker) putResult(run, ctx context.Context, d *client.Delivery, name, path, mediaType string) error {
	u, err := client.File(path)
	if err != nil {
		return err
	}
	u.Filename, u.MediaType = name, mediaType
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	told := false
	err = client.Retry(ctx, func() error {
		err := w.Client.PutResult(ctx, d.Queue, d.Job, d.Lease, u)
		if client.Temporary(err) && ctx.Err() == nil && !told {
			told = true
			w.Warn("%s: %s: result %s: %v; sends it again", d.Queue, d.Job, name, err)
			stop := context.AfterFunc(run, func() { end(errUntaken) })
			context.AfterFunc(ctx, func() { stop() })
		}
		return err
	}, queuefs.ErrResultExists)
	if errors.Is(err, queuefs.ErrResultExists) && w.stored(ctx, d, name, path) {
		return nil // a proxy lost the answer, and sent the request again
	}
	if err != nil {
		return fmt.Errorf("result %s: %w", name, err)
	}
	return nil
}

// stored reports whether the job has the file as the result of a name.
func (w *worker) stored(ctx context.Context, d *client.Delivery, name, path string) bool {
	there, err := w.Client.Result(ctx, d.Queue, d.Job, name)
	if err != nil {
		return false
	}
	defer there.Body.Close()
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	got, want := sha256.New(), sha256.New()
	_, err = io.Copy(got, there.Body)
	_, err2 := io.Copy(want, f)
	return err == nil && err2 == nil && bytes.Equal(got.Sum(nil), want.Sum(nil))
}

// An ending is how the work on a job has ended.
type ending uint8

const (
	completed ending = iota
	failed
	givenBack
	retried // another attempt follows
	lost    // the lease was gone
	endings
)

// A tally counts the attempts of a worker by their endings.
type tally struct {
	mu   sync.Mutex
	n    [endings]int
	news bool // since the last summary
}

func (t *tally) add(e ending) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n[e]++
	t.news = true
}

// summary returns the counts, and whether they have changed since the last call.
func (t *tally) summary() (text string, news bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	news, t.news = t.news, false
	text = fmt.Sprintf("%d completed, %d failed, %d given back", t.n[completed], t.n[failed], t.n[givenBack])
	if t.n[retried] > 0 {
		text += fmt.Sprintf(", %d to be tried again", t.n[retried])
	}
	if t.n[lost] > 0 {
		text += fmt.Sprintf(", %d aborted or lost", t.n[lost])
	}
	return text, news
}

// summarize prints the tally now and then, if there is news, until done is closed, and
// then once more.
func (w *worker) summarize(done <-chan struct{}) {
	tick := time.NewTicker(w.Summary)
	defer tick.Stop()
	for {
		select {
		case <-done:
			text, _ := w.tally.summary()
			w.Warn("%s: %s", w.Queue, text)
			return
		case <-tick.C:
			if text, news := w.tally.summary(); news {
				w.Warn("%s: %s so far", w.Queue, text)
			}
		}
	}
}

func workVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "work QUEUE -- COMMAND [ARGUMENT…]",
		Aliases: []string{"worker"},
		Short:   "take jobs from a daemon and run a command for each",
		Long: `
The command is looked up where the worker starts. It runs once a job, in a
directory of its own, which is removed afterwards. The payload is its standard
input and in the file CUTIE_PAYLOAD; a sidecar is in the file CUTIE_SIDECAR. More
is in CUTIE_QUEUE, CUTIE_JOB, CUTIE_ATTEMPT, CUTIE_FILENAME and CUTIE_MEDIA_TYPE.
CUTIE_LEASE is the token for cutie attach and the like. CUTIE_TOKEN is kept from the
command: it may do more than a job needs. The files of a payload in
multipart/form-data are in the directory CUTIE_UPLOADS, under the names of their
fields. Its standard output becomes the result named result, unless it is empty.
Each file in the directory CUTIE_RESULTS becomes a result of its name.

Exit code 0 means that the job is completed, 75 that it has failed for now
(transient), and any other that it has failed for good. The end of its standard
error is the message. A file error, error.vot, error.txt and the like in
CUTIE_RESULTS is the detail of the error; clients of UWS get it as it is. A job
that failed for now is tried again as the queue says; see cutie help set.

The worker keeps the lease as long as the command runs. When the lease is gone,
because the job was aborted or its time was over, the command and its children get
SIGTERM, and SIGKILL after --grace. Of an aborted job the files in CUTIE_RESULTS and
what it had written to standard output are kept as results; nothing else is reported. An interrupt ends the
commands in the same way and gives their jobs back; so it does with jobs whose results
the daemon does not take, as on a full disk. A second interrupt kills the worker. If the
worker itself is killed, its commands and their children are killed, too.

The worker prints a line for each job that fails, a summary each minute if there is news,
and one at its end; with -v also a line for each job taken and done. A daemon out of reach
is asked again. A job is given back when there is no space for its files or its payload
does not come whole; the pause before the next job grows up to a minute. At the fifth
attempt such a payload makes the job fail for good.`,
		Example: `cutie work jobs --drain -- wc -l`,
	}
	w := worker{Warn: c.Warnf, Say: c.Sayf, Summary: time.Minute}
	fs := cmd.Flags()
	fs.IntVarP(&w.Jobs, "jobs", "j", 1, "work on this `number` of jobs at a time")
	fs.DurationVar(&w.Lease, "lease", time.Minute, "`time` after which jobs go back if this program dies")
	fs.DurationVar(&w.Grace, "grace", 10*time.Second, "`time` between SIGTERM and SIGKILL")
	fs.StringVar(&w.ResultType, "result-type", job.DefaultMediaType, "media `type` of standard output as a result")
	fs.BoolVar(&w.Drain, "drain", false, "end when no job can be taken; jobs on hold, also those that wait for another attempt, stay")
	quiet := fs.BoolP("quiet", "q", false, "print nothing but the error that ends the worker")
	return c.Verb(cmd, optTarget, func(ctx context.Context) error {
		switch {
		case w.Jobs < 1 || w.Jobs > 1000:
			return usagef("-j %d is not a number from 1 to 1000", w.Jobs)
		case w.Lease < time.Second || w.Lease > 24*time.Hour:
			return usagef("--lease %v is not a time from 1s to 24h", w.Lease)
		case w.Grace < 0:
			return usagef("--grace %v is no time", w.Grace)
		case *quiet && c.Verbose:
			return usagef("--quiet and --verbose exclude each other")
		}
		if *quiet {
			w.Warn = func(string, ...any) {}
		}
		return runWorker(ctx, c, &w)
	})
}

// runWorker runs a worker until it is interrupted.
func runWorker(ctx context.Context, c *call, w *worker) (err error) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the second one kills
	if w.Queue, err = c.QueueArg(); err != nil {
		return err
	}
	w.Args = c.Args[1:]
	if w.Program, err = findProgram(w.Args[0]); err != nil {
		return usagef("%.200q cannot be run: %v", w.Args[0], err)
	}
	if c.Verbose {
		w.Stderr = c.Stderr
	}
	t, err := c.NeedDaemon(ctx)
	if err != nil {
		return err
	}
	w.Client = t.Client
	return errors.Join(nameError(w.Queue, w.Run(ctx)), t.Close())
}
