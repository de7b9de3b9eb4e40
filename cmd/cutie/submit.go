package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"cutie/queuefs"
	"cutie/queuefs/digest"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
)

var submitVerb = verb{
	name:    "submitJob",
	aliases: []string{"submit", "put", "add"},
	args:    "QUEUE FILE…|-",
	min:     2,
	max:     -1,
	about:   "add files as jobs",
	manual: `
Every FILE becomes a job, in the order given; - is standard input, which may
pause for 30 s over the network, and for a day into a home of this machine. The
identifiers of the jobs are printed, one a line, each once its job is on stable
storage. A directory wants -r, and its files are taken in the order of their
paths; what is not a regular file is skipped with a warning.

Many files travel in batches of up to 500 files or 8 MiB, each of which is
stored whole or not at all. When one fails, those before it are stored, and
their identifiers have been printed.

With -T batch-manifest the one FILE is a Checkm manifest; the service fetches the
files that it names and makes each a job, all of them or none. With --async a
daemon does that while the command ends: it prints the identifier of the batch,
and getBatchState says how far that is.

With -t the answer is the state of the job, or of the queue if there were
several, instead of the identifiers.`,
	examples: `cutie submitJob jobs report.pdf
cutie put jobs report.pdf --digest md5:d41d8cd98f00b204e9800998ecf8427e --sidecar 'profile=x'
tar c inbox | cutie put jobs - --filename inbox.tar --media-type application/x-tar
cutie put jobs -r inbox -q`,
	takes: atTarget | withForm | toOutput,
	setup: setupSubmit,
}

type submitOptions struct {
	recurse, quiet bool
	mode           string
	async          bool
	sidecar        string
	digest         string
	filename       string
	mediaType      string
}

func setupSubmit(fs *pflag.FlagSet) action {
	var o submitOptions
	fs.BoolVarP(&o.recurse, "recursive", "r", false, "submit every file below a directory")
	fs.BoolVarP(&o.quiet, "quiet", "q", false, "print no identifiers")
	fs.StringVar(&o.sidecar, "sidecar", "", "`text` that goes with the job, or @FILE that holds it")
	fs.StringVar(&o.digest, "digest", "", "refuse the job unless the payload has this `type:hex`, such as md5:…")
	fs.StringVar(&o.filename, "filename", "", "record this `name` instead of the file's")
	fs.StringVar(&o.mediaType, "media-type", "", "record this `type` instead of guessing from the name")
	fs.StringVarP(&o.mode, "request-form", "T", "job", "what a FILE is: `job|batch-manifest`")
	fs.BoolVar(&o.async, "async", false, "do not wait for a batch manifest")
	return func(ctx context.Context, c *call) error {
		switch mode := strings.ToLower(o.mode); {
		case mode == "batch-manifest" || mode == "batch":
			return submitManifest(ctx, c, o)
		case mode != "job":
			return usagef("request form %.40q is neither job nor batch-manifest", o.mode)
		case o.async:
			return usagef("--async is for -T batch-manifest")
		}
		return submit(ctx, c, o)
	}
}

func submit(ctx context.Context, c *call, o submitOptions) (err error) {
	queue, err := c.queueArg()
	if err != nil {
		return err
	}
	if c.form == "" && c.output != "" {
		return usagef("--output wants --response-form")
	}
	meta, err := o.meta()
	if err != nil {
		return err
	}
	var list []payload
	if len(c.args) == 2 && c.args[1] == "-" {
		list = []payload{{path: "-", size: -1}}
	} else if list, err = gather(ctx, c.args[1:], o.recurse, c.warnf); err != nil {
		return err
	}
	if len(list) != 1 && (meta.Sidecar != "" || meta.Filename != "" || len(meta.Expect) > 0) {
		return usagef("--sidecar, --digest and --filename are for one file, these are %d", len(list))
	}
	var form state.Form // none: identifiers
	if c.form != "" {
		if form, err = c.responseForm(); err != nil {
			return err
		}
	}

	t, err := c.target(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()

	s := submission{call: c, target: t, queue: queue, meta: meta, show: newProgress(c.stderr, total(list))}
	defer s.show.clear()
	for rest := list; len(rest) > 0; {
		var batch []payload
		batch, rest = nextBatch(rest)
		ids, err := s.send(ctx, batch)
		if err != nil {
			return s.stopped(len(list), err)
		}
		s.done += len(ids)
		s.last = ids[len(ids)-1]
		if !o.quiet && form == 0 {
			if err := s.print(ids); err != nil {
				return err
			}
		}
	}
	if form == 0 || s.done == 0 {
		return nil
	}
	return s.answer(ctx, form)
}

// meta is what the options say of the job.
func (o *submitOptions) meta() (queuefs.Meta, error) {
	m := queuefs.Meta{Filename: o.filename, MediaType: o.mediaType, Sidecar: o.sidecar}
	if name, ok := strings.CutPrefix(o.sidecar, "@"); ok {
		text, err := readText(name, queuefs.MaxSidecar, "a sidecar")
		if err != nil {
			return m, err
		}
		m.Sidecar = text
	}
	if o.digest != "" {
		v, err := digest.ParsePair(o.digest)
		if err != nil {
			return m, usagef("--digest: %v", err)
		}
		m.Expect = []digest.Value{v}
	}
	if o.mediaType != "" {
		if _, _, err := mime.ParseMediaType(o.mediaType); err != nil {
			return m, usagef("--media-type %.60q: %v", o.mediaType, err)
		}
	}
	return m, nil
}

// readText reads a text of at most most octets.
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
	case !utf8.Valid(text):
		return "", fmt.Errorf("%s: %w", name, queuefs.ErrSidecar)
	}
	return string(text), nil
}

// total is the sum of the sizes, -1 if one is unknown.
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

// A submission is a list of files on its way, batch by batch.
type submission struct {
	*call
	target target
	queue  string
	meta   queuefs.Meta
	show   *progress
	done   int
	last   string
}

func (s *submission) send(ctx context.Context, batch []payload) ([]string, error) {
	uploads := make([]rest.Upload, len(batch))
	for i, p := range batch {
		uploads[i] = s.upload(p)
	}
	return s.target.Submit(ctx, s.queue, uploads...)
}

func (s *submission) upload(p payload) rest.Upload {
	u := rest.Upload{Size: p.size, Meta: s.meta}
	if p.path == "-" {
		begun := false
		u.Open = func() (io.ReadCloser, error) {
			if begun {
				return nil, errors.New("standard input cannot be sent again")
			}
			begun = true
			return s.show.count(io.NopCloser(s.stdin)), nil
		}
		return u
	}
	if u.Filename == "" && p.size >= 0 { // a pipe's name says nothing
		u.Filename = filepath.Base(p.path)
	}
	if u.MediaType == "" {
		u.MediaType = mediaType(p.path)
	}
	u.Open = func() (io.ReadCloser, error) {
		f, err := p.open()
		if err != nil {
			return nil, err
		}
		return s.show.count(f), nil
	}
	return u
}

// stopped says how far a submission of all files came.
func (s *submission) stopped(all int, err error) error {
	s.show.clear()
	err = about(s.queue, err)
	if s.done > 0 {
		err = withHint(err, fmt.Sprintf("the first %d of %d files were submitted, up to %s; the others were not", s.done, all, s.last))
	}
	return err
}

func (s *submission) print(ids []string) error {
	s.show.clear()
	_, err := s.stdout.WriteString(strings.Join(ids, "\n") + "\n")
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
		return about(s.queue, err)
	}
	return s.emit(text)
}
