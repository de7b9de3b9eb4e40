package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"cutie/queuefs/rest"
)

// Places are the files that a job goes to beside its payload, by the options
// that name them.
type places struct {
	sidecar string
	lease   string
}

// An outlet is where a job goes to. What is nil was not named.
type outlet struct{ payload, sidecar, lease *result }

// make makes the places, and that of the payload if output names one.
func (p places) make(output string) (o *outlet, err error) {
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

// discard takes away what was not committed.
func (o *outlet) discard() {
	for _, r := range []*result{o.payload, o.sidecar, o.lease} {
		if r != nil {
			r.Discard()
		}
	}
}

// store writes a job, the payload to stdout if it has no place. The payload
// gets its name last, so that whoever waits for it finds all. Only a job that
// was taken may have a lease.
func (o *outlet) store(d *rest.Delivery, stdout io.Writer, taken bool) error {
	if err := o.copy(d, stdout); err != nil {
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
	return o.commit()
}

// copy writes a payload.
func (o *outlet) copy(d *rest.Delivery, stdout io.Writer) error {
	w := stdout
	if o.payload != nil {
		w = o.payload
	}
	n, err := io.Copy(w, d.Body)
	if err == nil && d.Size >= 0 && n != d.Size {
		err = fmt.Errorf("payload ended after %d of %d octets", n, d.Size)
	}
	return err
}

func (o *outlet) commit() error {
	if o.payload == nil {
		return nil
	}
	return o.payload.Commit()
}

// beside returns the name of the file of a kind beside the output, "" if there
// is none. That file is ours by its name.
func (o *outlet) beside(kind string) string {
	if o.payload == nil || o.payload.temp == "" {
		return ""
	}
	return o.payload.name + "." + kind
}

// aside writes a text to its place, or else beside the output. Where there is
// no text, none is left there from a job before.
func (o *outlet) aside(place *result, kind, text string, mode fs.FileMode) (err error) {
	if place == nil {
		name := o.beside(kind)
		switch {
		case name == "":
			return nil
		case text == "":
			return ignore(os.Remove(name), fs.ErrNotExist)
		}
		if place, err = createResult(name); err != nil {
			return err
		}
		defer place.Discard()
	}
	if place.temp != "" && mode != 0o666 {
		err = place.Chmod(mode)
	}
	if err == nil {
		_, err = io.WriteString(place, text)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s of the job", kind), err)
	}
	return place.Commit()
}
