package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"cutie/cmd/cutie/fault"
	"cutie/queuefs/rest/client"
)

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
			return fault.Usagef("%s is a directory, and the job may need a file of this name", part.name)
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
