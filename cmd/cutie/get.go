package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cutie/queuefs"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/rest/client"
	"cutie/queuefs/state"
)

// getVerb takes the job at the head of a queue (Cutie 0.3, 5.6).
func getVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "get QUEUE",
		Aliases: []string{"getNextJob", "next", "take"},
		Short:   "take the job at the head of the queue",
		Long: `
The payload goes to standard output, or to the file of -o, which appears whole or
not at all. A sidecar goes to the file of --sidecar, or to FILE.sidecar beside the
output file; without a sidecar there is no such file. Without --sidecar, standard
error says that the job has a sidecar, and where it is, unless a description of the
job has it. The job is consumed then; cutie requeue puts it back. If nothing is
pending the exit code is 4. With -v the identifier of the job is printed on standard
error.

With -t multipart the output is the job as the network carries it: a MIME message
with the payload and the sidecar as parts.

--wait waits for a job: --wait 30 for 30 seconds, --wait alone without an end.

With --lease, and always from a queue that wants reports, the job is handed out
for some time. Then it goes back, unless its outcome was reported. cutie report,
extend and attach need the token of the lease. It goes to the file of
--lease-out, or to FILE.lease beside the output file; without any file it is
printed on standard error after the identifier of the job.

With --key the same command may be given again after an answer was lost: it gets the
same job, with the same token, while its lease lasts, and without a lease for five
minutes. Take a key nobody can guess: it is as good as the token.

For scripts --meta writes a description of the job to a file, in JSON or in the
form of -t: identifier, attempt, the token and the end of its lease, and references
for reports. With -t and -o the description goes to standard output.`,
		Example: `cutie get jobs -o job
cutie get jobs --wait 30 -v
cutie get jobs --lease=10m -o job
cutie get jobs --key "$(cat /proc/sys/kernel/random/uuid)" -o job
cutie get jobs --lease=10m -o job -t json`,
	}
	var o delivery
	flags := cmd.Flags()
	flags.StringVar(&o.sidecar, "sidecar", "", "write the sidecar to `file`")
	lease := flags.String("lease", "", "hand the job out for this `time`, such as 10m, up to 24h")
	flags.StringVar(&o.token, "lease-out", "", "write the token of the lease to `file`")
	flags.StringVar(&o.meta, "meta", "", "write a description of the job to `file`")
	key := flags.String("key", "", "get the same job, however often this `name` is sent")
	wait := waiting{flags: flags}
	flags.Var(&wait, "wait", "wait for a job, this many `seconds` or without an end")
	flags.Lookup("wait").NoOptDefVal = endless
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		queue, _ := wait.split(args)
		return between(1, 1)(cmd, queue)
	}
	return c.Verb(cmd, optTarget|optForm|optOutput, func(ctx context.Context) (err error) {
		queue, seconds := wait.split(c.Args)
		c.Args = queue
		if o.limit, err = parseWait(seconds); err != nil {
			return err
		}
		length, err := parseLease(*lease)
		if err != nil {
			return err
		}
		if err := checkKey(flags, *key); err != nil {
			return err
		}
		whole := isMessage(c.Form)
		if o.form, err = o.described(c, whole); err != nil {
			return err
		}
		if whole {
			err = o.alone()
		}
		if err != nil {
			return err
		}
		o.consumes = true
		return deliver(ctx, c, o, func(t *target, queue string, left time.Duration) (*client.Delivery, error) {
			how := queuefs.Take{Lease: length, Key: *key}
			if whole {
				return t.NextMessage(ctx, queue, how, left)
			}
			return t.NextFor(ctx, queue, how, left)
		})
	})
}

// peekVerb reads a job and leaves it in the queue (Cutie 0.3, 5.7).
func peekVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "peek QUEUE [JOB]",
		Aliases: []string{"peekAtJob", "peekJob"},
		Short:   "read a job and leave it in the queue",
		Long: `
JOB may have any status; without it, the job at the head is read. The output is
that of cutie get.`,
		Example: `cutie peek jobs
cutie peek jobs j000000000001 -o copy`,
	}
	var o delivery
	cmd.Flags().StringVar(&o.sidecar, "sidecar", "", "write the sidecar to `file`")
	return c.Verb(cmd, optTarget|optReads|optForm|optOutput, func(ctx context.Context) error {
		job := ""
		if len(c.Args) > 1 {
			job = c.Args[1]
		}
		whole := isMessage(c.Form)
		switch {
		case whole:
			if err := o.alone(); err != nil {
				return err
			}
		case c.Form != "":
			return withHint(usagef("a job has no response form %.40q", c.Form), "-t multipart, or without -t the payload alone; cutie show prints states")
		}
		return deliver(ctx, c, o, func(t *target, queue string, _ time.Duration) (*client.Delivery, error) {
			if len(c.Args) > 1 {
				if err := mayExist(ctx, t, queue, job); err != nil {
					return nil, err
				}
			}
			if whole {
				return t.PeekMessage(ctx, queue, job)
			}
			return t.Peek(ctx, queue, job)
		})
	})
}

// parseLease reads the length of a lease; "" is the default of the queue.
func parseLease(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := parseSeconds(s)
	if err != nil || d <= 0 {
		return 0, usagef("--lease %.40q is neither seconds nor a duration such as 10m", s)
	}
	return d, nil
}

// parseSeconds reads a duration, or a number of seconds.
func parseSeconds(s string) (time.Duration, error) {
	if d, err := time.ParseDuration(s); err == nil {
		return d, nil
	}
	return time.ParseDuration(s + "s")
}

// betweenTakes is the pause before a home without a daemon is opened again.
// Other commands may submit to it meanwhile.
const betweenTakes = time.Second

// await takes a job, and tries again until limit is over.
func await(ctx context.Context, c *call, queue string, limit time.Duration, take taker) (*target, *client.Delivery, error) {
	for start := time.Now(); ; {
		t, err := c.Find(ctx)
		if err != nil {
			return nil, nil, err
		}
		wait := max(0, limit-time.Since(start))
		if t.Local() {
			wait = 0 // nobody else can submit to it
		}
		d, err := take(t, queue, wait)
		if err == nil {
			return t, d, nil
		}
		err = errors.Join(err, t.Close())
		left := limit - time.Since(start)
		if !errors.Is(err, ledger.ErrEmpty) || left <= 0 {
			return nil, nil, err
		}
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-time.After(min(left, betweenTakes)):
		}
	}
}

// A delivery says where the parts of a job go.
type delivery struct {
	sidecar, token, meta string        // files
	form                 state.Form    // of the description; 0 for none
	limit                time.Duration // of the wait for a job
	consumes             bool
}

// isMessage reports whether -t asks for a job as a message with all its parts (Cutie
// 0.3, 5.6).
func isMessage(form string) bool {
	return strings.EqualFold(form, "multipart") || strings.EqualFold(form, "multipart/form-data")
}

// alone refuses a file for a part of a message.
func (o *delivery) alone() error {
	if o.sidecar != "" {
		return usagef("--sidecar is for the payload alone, a message has the sidecar in it")
	}
	return nil
}

// described returns the form of the description of a job, 0 if it has none.
func (o *delivery) described(c *call, whole bool) (state.Form, error) {
	switch {
	case o.meta == "" && (c.Form == "" || whole):
		return 0, nil
	case c.Form == "" || whole:
		return state.JSON, nil
	case o.meta == "" && c.Out.Name == "":
		return 0, withHint(usagef("-t %.40s describes the job on standard output, and the payload has no place", c.Form), "-o FILE for the payload, or --meta FILE for the description; -t multipart is both in one")
	}
	return c.ResponseForm()
}

// describe returns the description of a job that was taken.
func (o *delivery) describe(d *client.Delivery) ([]byte, error) {
	if o.form == 0 {
		return nil, nil
	}
	doc, err := d.Document()
	return o.form.Append(nil, &doc), err
}

// A taker gets a job from a queue; it may wait for one as long as left.
type taker func(t *target, queue string, left time.Duration) (*client.Delivery, error)

// deliver writes a job to the files of the options. It makes the files first, so that
// no job is taken and then lost for want of a file.
func deliver(ctx context.Context, c *call, to delivery, take taker) (err error) {
	queue, err := c.QueueArg()
	if err != nil {
		return err
	}
	o, err := c.Out.Job(to.sidecar, to.token, to.meta)
	if err != nil {
		return err
	}
	defer o.Discard()
	t, d, err := await(ctx, c, queue, to.limit, take)
	if err != nil {
		if errors.Is(err, ledger.ErrNoJob) && len(c.Args) > 1 {
			err = nameError(c.Args[1], err)
		}
		return nameError(queue, err)
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	lease := ""
	if d.Lease != "" {
		lease = fmt.Sprintf(": lease %s until %s", d.Lease, job.FormatTime(d.Expires))
	}
	meta, err := to.describe(d)
	err = errors.Join(err, o.Store(d, to.consumes, meta), d.Body.Close())
	shown := to.form != 0 && to.meta == ""
	if err == nil && shown {
		_, err = onScreen(c.Out.Stdout).Write(meta)
	}
	if err != nil {
		err = jobError(queue, d.Job, err)
		if to.consumes {
			err = withHint(err, fmt.Sprintf("the job is consumed%s; cutie requeue %s %s puts it back", lease, queue, d.Job))
		}
		return err
	}
	if d.HasSidecar && to.sidecar == "" && to.form == 0 { // a description has it
		if name := o.Sidecar(); name != "" {
			c.Warnf("%s: %s has a sidecar of %d bytes, written to %s", queue, d.Job, len(d.Sidecar), name)
		} else {
			c.Warnf("%s: %s has a sidecar of %d bytes; cutie peek %s %s --sidecar FILE writes it", queue, d.Job, len(d.Sidecar), queue, d.Job)
		}
	}
	if lease != "" && !shown && !o.HasLease() {
		c.Warnf("%s: %s%s", queue, d.Job, lease)
	} else {
		c.Sayf("%s: %s", queue, d.Job)
	}
	return nil
}

// A Job holds the files for the parts of a job; nil is a part without one.
type jobFiles struct {
	stdout                        io.Writer
	payload, sidecar, lease, meta *outFile
}

// Job makes the files of a job: that of the sink, and those named, if they are, for
// its sidecar, for the token of its lease, and for its description.
func (s *sink) Job(sidecar, lease, meta string) (j *jobFiles, err error) {
	j = &jobFiles{stdout: s.Stdout}
	for _, part := range []struct {
		name string
		file **outFile
	}{{s.Name, &j.payload}, {sidecar, &j.sidecar}, {lease, &j.lease}, {meta, &j.meta}} {
		if part.name == "" {
			continue
		}
		if *part.file, err = createFile(part.name); err != nil {
			j.Discard()
			return nil, err
		}
	}
	if err := j.free(); err != nil {
		j.Discard()
		return nil, err
	}
	return j, nil
}

// free checks the names that files get after the job was taken: they may be too long,
// or directories.
func (j *jobFiles) free() error {
	for _, part := range []struct {
		name string
		file *outFile
	}{{j.beside(""), nil}, {j.beside("sidecar"), j.sidecar}, {j.beside("lease"), j.lease}} {
		if part.name == "" || part.file != nil {
			continue
		}
		switch info, err := os.Lstat(part.name); {
		case err == nil && info.IsDir():
			return usagef("%s is a directory, and the job may need a file of this name", part.name)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	return nil
}

// Discard removes the files before Store, and does nothing after it.
func (j *jobFiles) Discard() {
	for _, f := range []*outFile{j.payload, j.sidecar, j.lease, j.meta} {
		if f != nil {
			f.Discard()
		}
	}
}

// Sidecar returns the name of the file beside the output file that a sidecar goes to
// unless another is named; it is "" if the output is no regular file.
func (j *jobFiles) Sidecar() string { return j.beside("sidecar") }

// HasLease reports whether the token of a lease goes to a file.
func (j *jobFiles) HasLease() bool { return j.lease != nil || j.meta != nil || j.beside("lease") != "" }

// Store writes a job; a payload without a file goes to standard output. The payload
// gets its name last: a reader waiting for it finds all parts. Only a taken job may
// have a lease and the description meta.
func (j *jobFiles) Store(d *client.Delivery, taken bool, meta []byte) error {
	w := j.stdout
	if j.payload != nil {
		w = j.payload
	}
	if err := copyBody(w, d); err != nil {
		return err
	}
	if err := j.aside(j.sidecar, "sidecar", d.Sidecar, d.HasSidecar, 0o666); err != nil {
		return err
	}
	if taken {
		lease := d.Lease
		if lease != "" {
			lease += "\n"
		}
		if err := j.aside(j.lease, "lease", lease, lease != "", 0o600); err != nil {
			return err
		}
	}
	if j.meta != nil {
		if err := j.aside(j.meta, "description", string(meta), true, 0o600); err != nil {
			return err
		}
	}
	if j.payload == nil {
		return nil
	}
	return j.payload.Commit()
}

// copyBody writes a payload or a result, and fails if it does not come whole.
func copyBody(w io.Writer, d *client.Delivery) error {
	n, err := io.Copy(w, d.Body)
	if err == nil && d.Size >= 0 && n != d.Size {
		err = fmt.Errorf("payload ended after %d of %d octets", n, d.Size)
	}
	return err
}

// beside returns the name of the file of a kind beside the output file, that of the
// output file for the kind ""; it is "" if the output is no regular file.
func (j *jobFiles) beside(kind string) string {
	if j.payload == nil || j.payload.temp == "" {
		return ""
	}
	if kind == "" {
		return j.payload.name
	}
	return j.payload.name + "." + kind
}

// aside writes a text to its file, or else beside the output file. Without a text the
// file of an earlier job there is removed.
func (j *jobFiles) aside(file *outFile, kind, text string, is bool, mode fs.FileMode) (err error) {
	if file == nil {
		name := j.beside(kind)
		switch {
		case name == "":
			return nil
		case !is:
			if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		}
		if file, err = createFile(name); err != nil {
			return err
		}
		defer file.Discard()
	}
	if file.temp != "" && mode != 0o666 {
		err = file.Chmod(mode)
	}
	if err == nil {
		_, err = io.WriteString(file, text)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s of the job", kind), err)
	}
	return file.Commit()
}

// A waiting is the option --wait. Its number may stand in an argument of its own, as
// with other options, although it may be missing.
type waiting struct {
	text  string
	flags *pflag.FlagSet
	at    int // how many arguments stand before the option
}

// endless is --wait without a number.
const endless = "forever"

func (w *waiting) String() string { return w.text }
func (w *waiting) Type() string   { return "string" }

func (w *waiting) Set(s string) error {
	w.text, w.at = s, w.flags.NArg()
	return nil
}

// split returns the arguments without the number after --wait, and the number. A lone
// argument is the queue.
func (w *waiting) split(args []string) (rest []string, text string) {
	if w.text != endless || len(args) < 2 || w.at >= len(args) {
		return args, w.text
	}
	if _, err := parseSeconds(args[w.at]); err != nil {
		return args, w.text
	}
	return slices.Delete(slices.Clone(args), w.at, w.at+1), args[w.at]
}

// forever is the wait without an end.
const forever = time.Duration(1<<63 - 1)

func parseWait(s string) (time.Duration, error) {
	switch s {
	case "":
		return 0, nil
	case endless:
		return forever, nil
	}
	d, err := parseSeconds(s)
	if err != nil || d < 0 {
		return 0, usagef("--wait=%.40s: not a number of seconds", s)
	}
	return d, nil
}
