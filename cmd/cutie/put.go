package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cutie/queuefs/digest"
	"cutie/queuefs/job"
	"cutie/queuefs/rest/client"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// putVerb adds files as jobs (Cutie 0.3, 5.5).
func putVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "put QUEUE FILE…|-",
		Aliases: []string{"submitJob", "submit", "add"},
		Short:   "add files as jobs",
		Long: `
Each FILE becomes a job, in the order given; - is standard input, which may pause
for 30 s over the network, and for a day into a home on this machine. The
identifier of each job is printed on a line once the job is on stable storage.
Directories want -r. Their files are taken in the order of their paths; other
than regular files are skipped with a warning.

Many files travel in batches of up to 500 files or 8 MiB. A batch is stored
whole or not at all. When one fails, the batches before it are stored, and their
identifiers have been printed.

With -T batch-manifest, FILE is a Checkm manifest. The service fetches the files
in it and makes each a job, all of them or none. With --async the command prints
the identifier of the batch and ends, and the daemon goes on; cutie batch shows
its progress.

With --key the same command may be given again after an answer was lost: a file
that was stored stays one job, and its identifier is printed again. The one FILE has
the key, of several ones number n has KEY#n. A key belongs to one payload as long as
its job is known; another payload is refused.

Jobs with --not-before are on hold until that time, and keep their place.

With -t the answer is the state of the job instead of its identifier, or of the
queue if there are several jobs.`,
		Example: `cutie put jobs report.pdf
cutie put jobs report.pdf --digest md5:d41d8cd98f00b204e9800998ecf8427e --sidecar 'profile=x'
tar c inbox | cutie put jobs - --filename inbox.tar --media-type application/x-tar
cutie put jobs report.pdf --not-before 2030-01-31T02:00
cutie put jobs -r inbox -q
cutie put jobs report.pdf --key report-4711`,
	}
	var o putOptions
	fs := cmd.Flags()
	fs.BoolVarP(&o.recurse, "recursive", "r", false, "submit every file below a directory")
	fs.BoolVarP(&o.quiet, "quiet", "q", false, "print no identifiers")
	fs.StringVar(&o.sidecar, "sidecar", "", "`text` that goes with the job, or @FILE to read it from, of up to 64 KiB")
	fs.StringVar(&o.digest, "digest", "", "refuse a payload without this `type:hex`, such as md5:…")
	fs.StringVar(&o.filename, "filename", "", "record this `name` instead of the file's")
	fs.StringVar(&o.key, "key", "", "store the files once, however often this `name` is sent")
	fs.StringVar(&o.mediaType, "media-type", "", "record this `type` instead of a guess from the name")
	fs.StringVar(&o.notBefore, "not-before", "", "on hold until this `time`, such as 2026-11-25T02:00, or for 90m or 7d")
	mode := fs.StringP("request-form", "T", "job", "kind of FILE: `job|batch-manifest`")
	fs.BoolVar(&o.async, "async", false, "do not wait for a batch manifest")
	return c.Verb(cmd, optTarget|optForm|optOutput, func(ctx context.Context) error {
		if c.Form == "" && c.Out.Name != "" {
			return usagef("--output wants --response-form")
		}
		if err := checkKey(fs, o.key); err != nil {
			return err
		}
		switch strings.ToLower(*mode) {
		case "batch-manifest", "batch":
			return putManifest(ctx, c, o)
		case "job":
			o.hasSidecar = fs.Changed("sidecar")
		default:
			return usagef("request form %.40q is neither job nor batch-manifest", *mode)
		}
		if o.async {
			return usagef("--async is for -T batch-manifest")
		}
		return put(ctx, c, o)
	})
}

// checkKey refuses a malformed --key. An empty one may be a variable without a value.
func checkKey(fs *pflag.FlagSet, key string) error {
	if !fs.Changed("key") {
		return nil
	}
	if err := job.CheckKey(key); err != nil {
		return usagef("--key: %v", err)
	}
	return nil
}

type putOptions struct {
	recurse, quiet, async bool
	sidecar, digest       string
	hasSidecar            bool
	filename, mediaType   string
	key                   string
	notBefore             string
}

func put(ctx context.Context, c *call, o putOptions) error {
	meta, err := o.meta()
	if err != nil {
		return err
	}
	list, err := payloads(ctx, c, c.Args[1:], o.recurse)
	if err != nil {
		return err
	}
	if len(list) != 1 && (o.hasSidecar || meta.Filename != "" || len(meta.Expect) > 0) {
		return usagef("--sidecar, --digest and --filename are for one file, these are %d", len(list))
	}
	form, err := c.ResponseForm()
	if err != nil {
		return err
	}
	return c.AtQueue(ctx, func(t *target, queue string) error {
		s := newSubmission(c, t, queue, meta, list)
		defer s.show.Clear()
		for rest := list; len(rest) > 0; {
			var batch []payload
			batch, rest = nextBatch(rest)
			ids, err := s.send(ctx, batch)
			if err != nil {
				return s.stopped(err)
			}
			s.done += len(ids)
			s.last = ids[len(ids)-1]
			if !o.quiet && c.Form == "" {
				if err := s.print(ids...); err != nil {
					return err
				}
			}
		}
		if c.Form == "" || s.done == 0 {
			return nil
		}
		return s.answer(ctx, form)
	})
}

// meta returns the properties of the job from the options.
func (o *putOptions) meta() (job.Meta, error) {
	m := job.Meta{Key: o.key, Filename: o.filename, MediaType: o.mediaType, Sidecar: o.sidecar, EmptySidecar: o.hasSidecar && o.sidecar == ""}
	if name, ok := strings.CutPrefix(o.sidecar, "@"); ok {
		text, err := readText(name, job.MaxSidecar, "a sidecar")
		if err != nil {
			return m, err
		}
		m.Sidecar, m.EmptySidecar = text, text == ""
	}
	if o.digest != "" {
		v, err := digest.ParsePair(o.digest)
		if err != nil {
			return m, usagef("--digest: %v", err)
		}
		m.Expect = []digest.Value{v}
	}
	var err error
	if m.NotBefore, err = parseWhen("not-before", o.notBefore, time.Now()); err != nil {
		return m, err
	}
	if o.mediaType != "" {
		if _, _, err := mime.ParseMediaType(o.mediaType); err != nil {
			return m, usagef("--media-type %.60q: %v", o.mediaType, err)
		}
	}
	return m, nil
}

// readText reads a file of up to most octets.
func readText(name string, most int64, what string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return "", err
	case int64(len(text)) > most:
		return "", usagef("%s: %s has at most %d octets", name, what, most)
	}
	return string(text), nil
}

// total is the sum of the sizes; -1 if one is unknown.
func total(list []payload) int64 {
	var n int64
	for _, p := range list {
		if p.size < 0 {
			return -1
		}
		n += p.size
	}
	return n
}

// A submission sends a list of files, batch by batch.
type submission struct {
	*call
	target *target
	queue  string
	meta   job.Meta
	show   *progress
	all    int // files
	done   int
	last   string
}

func newSubmission(c *call, t *target, queue string, meta job.Meta, list []payload) *submission {
	return &submission{call: c, target: t, queue: queue, meta: meta, all: len(list), show: newProgress(c.Stderr, "submitting", total(list), time.Second)}
}

func (s *submission) send(ctx context.Context, batch []payload) ([]string, error) {
	uploads := make([]client.Upload, len(batch))
	for i, p := range batch {
		uploads[i] = s.upload(p)
		if s.meta.Key != "" && s.all > 1 {
			uploads[i].Key = job.PartKey(s.meta.Key, s.done+i+1)
		}
	}
	return s.target.Submit(ctx, s.queue, uploads...)
}

func (s *submission) upload(p payload) client.Upload {
	u := client.Upload{Size: p.size, Meta: s.meta}
	if p.path == "-" {
		begun := false
		u.Open = func() (io.ReadCloser, error) {
			if begun {
				return nil, errors.New("standard input cannot be sent again")
			}
			begun = true
			return s.show.Count(io.NopCloser(s.Stdin)), nil
		}
		return u
	}
	if u.Filename == "" && p.size >= 0 { // not the name of a pipe
		u.Filename = filepath.Base(p.path)
	}
	if u.MediaType == "" {
		u.MediaType = client.MediaType(p.path)
	}
	u.Open = func() (io.ReadCloser, error) {
		f, err := p.open()
		if err != nil {
			return nil, err
		}
		return s.show.Count(f), nil
	}
	return u
}

// stopped adds to err how many of all files were submitted before.
func (s *submission) stopped(err error) error {
	s.show.Clear()
	if s.done > 0 {
		err = withHint(err, fmt.Sprintf("the first %d of %d files were submitted, up to %s; the others were not", s.done, s.all, s.last))
	}
	return err
}

func (s *submission) print(ids ...string) error {
	s.show.Clear()
	_, err := s.Out.Stdout.WriteString(strings.Join(ids, "\n") + "\n")
	return err
}

// answer prints the state of the only job, or of the queue after several
// (Cutie 0.3, 5.5).
func (s *submission) answer(ctx context.Context, form state.Form) error {
	job := ""
	if s.done == 1 {
		job = s.last
	}
	text, err := s.target.State(ctx, form, s.queue, job)
	if err != nil {
		return err
	}
	return s.Out.Emit(text)
}

// putManifest submits the files of a batch manifest (Cutie 0.3, 5.5).
func putManifest(ctx context.Context, c *call, o putOptions) error {
	switch {
	case len(c.Args) != 2:
		return usagef("a batch manifest is one file, these are %d", len(c.Args)-1)
	case o.recurse || o.sidecar != "" || o.filename != "" || o.mediaType != "":
		return usagef("--recursive, --sidecar, --filename and --media-type are for jobs, not for a batch manifest")
	}
	form, err := c.ResponseForm()
	if err != nil {
		return err
	}
	meta, err := o.meta()
	if err != nil {
		return err
	}
	list, err := payloads(ctx, c, c.Args[1:], false)
	if err != nil {
		return err
	}
	return c.AtQueue(ctx, func(t *target, queue string) error {
		s := newSubmission(c, t, queue, meta, list)
		defer s.show.Clear()
		u := s.upload(list[0])
		u.Filename, u.MediaType = "", ""
		if o.async && t.Local() {
			return withHint(errors.New("no daemon would go on with the batch"), "cutie serve --home "+c.Home+" starts one; without --async the command waits")
		}
		if o.async {
			id, err := t.StartManifest(ctx, queue, u)
			switch {
			case err != nil:
				return err
			case c.Form != "":
				return printBatch(ctx, c, t, queue, id, form)
			case o.quiet:
				return nil
			}
			return s.print(id)
		}
		ids, err := t.SubmitManifest(ctx, queue, u)
		s.done = len(ids)
		switch {
		case err != nil || s.done == 0:
			return err
		case c.Form != "":
			s.last = ids[len(ids)-1]
			return s.answer(ctx, form)
		case o.quiet:
			return nil
		}
		return s.print(ids...)
	})
}

// batchVerb shows the progress of a batch manifest.
func batchVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "batch QUEUE BATCH",
		Aliases: []string{"getBatchState"},
		Short:   "show the progress of a batch manifest",
		Long: `
BATCH is the identifier that cutie put --async printed. A daemon keeps the state
for an hour after the end of the batch.`,
		Example: `cutie batch jobs b000000000001 -t json`,
	}
	return c.Verb(cmd, optTarget|optForm|optOutput, func(ctx context.Context) error {
		form, err := c.ResponseForm()
		if err != nil {
			return err
		}
		return c.AtQueue(ctx, func(t *target, queue string) error { return printBatch(ctx, c, t, queue, c.Args[1], form) })
	})
}

func printBatch(ctx context.Context, c *call, t *target, queue, id string, form state.Form) error {
	switch id {
	case "", ".", "..":
		return fmt.Errorf("%w: batch %q", errNoBatch, id)
	}
	b, err := t.Batch(ctx, queue, id)
	if err != nil {
		return err
	}
	service, err := t.Service(ctx)
	if err != nil {
		return err
	}
	d := state.OfBatch(state.NewBase(service.BaseURI), &b)
	return c.Out.Emit(form.Append(nil, &d))
}

// errNoBatch is the answer of a daemon, for names that a URL cannot carry.
var errNoBatch = &web.Error{Status: 404, Message: "batch not found"}

// A payload is a file to submit as a job.
type payload struct {
	path string // - is standard input
	size int64  // octets; -1 for a pipe
}

// payloads lists the files in args, in their order; - alone is standard
// input. Files may be symbolic links and pipes. With recurse the regular files
// below a directory follow in the order of their paths.
func payloads(ctx context.Context, c *call, args []string, recurse bool) ([]payload, error) {
	if len(args) == 1 && args[0] == "-" {
		return []payload{{path: "-", size: -1}}, nil
	}
	var list []payload
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return nil, err
		}
		switch mode := info.Mode(); {
		case mode.IsRegular():
			list = append(list, payload{arg, info.Size()})
		case mode.Type() == fs.ModeNamedPipe:
			list = append(list, payload{arg, -1})
		case !mode.IsDir():
			return nil, fmt.Errorf("%s is neither a file nor a directory", arg)
		case !recurse:
			return nil, withHint(usagef("%s is a directory", arg), "-r submits every file below it")
		default:
			below, err := walk(ctx, arg, c.Warnf)
			if err != nil {
				return nil, err
			}
			list = append(list, below...)
		}
	}
	return list, nil
}

func walk(ctx context.Context, dir string, warn func(string, ...any)) ([]payload, error) {
	var list []payload
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if d.IsDir() {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			warn("%s skipped: not a regular file", path)
			return nil
		}
		list = append(list, payload{path, info.Size()})
		return nil
	})
	return list, err
}

// open opens the payload. It refuses a file whose size has changed since it was
// listed: somebody is still writing it.
func (p payload) open() (*os.File, error) {
	f, err := os.Open(p.path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && p.size >= 0 && info.Size() != p.size {
		err = fmt.Errorf("%s changed while it was submitted", p.path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// A request to submit carries up to batchFiles jobs and batchOctets octets, or
// one larger job or pipe alone. It is stored whole or not at all.
const (
	batchFiles  = 500
	batchOctets = 8 << 20
)

// nextBatch cuts the first batch off list; there is at least one payload.
func nextBatch(list []payload) (batch, rest []payload) {
	octets := list[0].weight()
	n := 1
	for n < min(len(list), batchFiles) && octets+list[n].weight() <= batchOctets {
		octets += list[n].weight()
		n++
	}
	return list[:n], list[n:]
}

// weight is the size counted in a batch: a pipe fills one.
func (p payload) weight() int64 {
	if p.size < 0 {
		return batchOctets
	}
	return p.size
}
