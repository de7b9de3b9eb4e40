package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"cutie/queuefs/rest"
)

// partFiles are the files for the parts of a job beside its payload, by their
// options.
type partFiles struct {
	sidecar string
	lease   string
}

// An outlet holds the files for the parts of a job; nil is a part without one.
type outlet struct{ payload, sidecar, lease *result }

// make creates the files, and the output file if there is one.
func (p partFiles) make(output string) (o *outlet, err error) {
	o = &outlet{}
	for _, f := range []struct {
		name string
		r    **result
	}{{output, &o.payload}, {p.sidecar, &o.sidecar}, {p.lease, &o.lease}} {
		if f.name == "" {
			continue
		}
		if *f.r, err = createResult(f.name); err != nil {
			o.discard()
			return nil, err
		}
	}
	return o, nil
}

// discard removes the files before Commit.
func (o *outlet) discard() {
	for _, r := range []*result{o.payload, o.sidecar, o.lease} {
		if r != nil {
			r.Discard()
		}
	}
}

// store writes a job; a payload without a file goes to stdout. The payload gets
// its name last: a reader waiting for it finds all parts. Only a taken job may
// have a lease.
func (o *outlet) store(d *rest.Delivery, stdout io.Writer, taken bool) error {
	if o.payload != nil {
		stdout = o.payload
	}
	if err := copyBody(stdout, d); err != nil {
		return err
	}
	if err := o.aside(o.sidecar, "sidecar", d.Sidecar, 0o666); err != nil {
		return err
	}
	if taken {
		lease := d.Lease
		if lease != "" {
			lease += "\n"
		}
		if err := o.aside(o.lease, "lease", lease, 0o600); err != nil {
			return err
		}
	}
	if o.payload == nil {
		return nil
	}
	return o.payload.Commit()
}

// copyBody writes a payload or a result, and fails if it does not come whole.
func copyBody(w io.Writer, d *rest.Delivery) error {
	n, err := io.Copy(w, d.Body)
	if err == nil && d.Size >= 0 && n != d.Size {
		err = fmt.Errorf("payload ended after %d of %d octets", n, d.Size)
	}
	return err
}

// beside returns the name of the file of a kind beside the output file; "" if
// the output is no regular file.
func (o *outlet) beside(kind string) string {
	if o.payload == nil || o.payload.temp == "" {
		return ""
	}
	return o.payload.name + "." + kind
}

// aside writes a text to its file, or else beside the output file. An empty text
// removes the file of an earlier job there.
func (o *outlet) aside(file *result, kind, text string, mode fs.FileMode) (err error) {
	if file == nil {
		name := o.beside(kind)
		switch {
		case name == "":
			return nil
		case text == "":
			return ignore(os.Remove(name), fs.ErrNotExist)
		}
		if file, err = createResult(name); err != nil {
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
