package work

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"mime"
	"os"
	"path/filepath"
	"slices"

	"cutie/queuefs"
	"cutie/queuefs/job"
	"cutie/queuefs/rest/client"
)

// outputResult is the name of the result with the standard output.
const outputResult = "result"

// errUntaken: the worker was ended while the service did not take a result.
var errUntaken = errors.New("the worker was ended before its result was taken")

// putResults stores the results of the command. ctx ends with the lease, and run with the
// worker.
func (w *Worker) putResults(run, ctx context.Context, dir string, d *client.Delivery) error {
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
func (w *Worker) putOutput(run, ctx context.Context, dir string, d *client.Delivery) error {
	return w.putResult(run, ctx, d, outputResult, filepath.Join(dir, outputFile), w.ResultType)
}

// putDetail stores the detail of an error, if the command has left one.
func (w *Worker) putDetail(run, ctx context.Context, dir string, d *client.Delivery) error {
	for _, name := range results(dir) {
		if job.IsErrorDetail(name) {
			return w.putFile(run, ctx, dir, d, name)
		}
	}
	return nil
}

// putLate stores what the command of an aborted job has left, results and standard
// output, and says so. The service refuses it if the lease was lost in another way.
func (w *Worker) putLate(ctx context.Context, dir string, d *client.Delivery) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), queuefs.LateResults)
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
		if e.Type().IsRegular() && queuefs.CheckResultName(e.Name()) == nil {
			names = append(names, e.Name())
		}
	}
	return names
}

// putFile stores a file of the command under its name.
func (w *Worker) putFile(run, ctx context.Context, dir string, d *client.Delivery, name string) error {
	mediaType := mime.TypeByExtension(filepath.Ext(name))
	if filepath.Ext(name) == ".vot" { // no system knows it
		mediaType = "application/x-votable+xml"
	}
	return w.putResult(run, ctx, d, name, filepath.Join(dir, resultsDir, name), mediaType)
}

// putResult sends a result until it is taken. One refused for now, as on a full disk, may
// be for long: the end of the worker is [errUntaken] then.
func (w *Worker) putResult(run, ctx context.Context, d *client.Delivery, name, path, mediaType string) error {
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
func (w *Worker) stored(ctx context.Context, d *client.Delivery, name, path string) bool {
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
