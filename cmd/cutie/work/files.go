package work

import (
	"errors"
	"io"
	"io/fs"
	"mime"
	"mime/multipart"
	"os"
	"path/filepath"

	"cutie/queuefs"
	"cutie/queuefs/rest/client"
)

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
		if queuefs.CheckResultName(p.FormName()) != nil {
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
