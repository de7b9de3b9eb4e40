package batch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"

	"cutie/queuefs/checkm"
	"cutie/queuefs/digest"
)

// include puts the lines of included manifests in the place of the lines with
// their URLs (Checkm 2009-10-30: "@"), at any depth. They are fetched one after
// the other, under the rules for files. There is one error for all of them.
func (f *fetch) include(ctx context.Context) error {
	x := inclusion{fetch: f, octets: f.manifest, lines: len(f.sources)}
	sources, err := x.expand(ctx, f.sources, 1)
	if err == nil {
		err = x.wrong.err()
	}
	switch {
	case err != nil && context.Cause(ctx) == errBatchTime:
		return &manifestError{lines: []string{"the time for the batch was over before all manifests were read"}}
	case err != nil:
		return err
	case len(sources) == 0:
		return errNoFiles
	}
	f.sources = sources
	f.count()
	return nil
}

// count notes how many lines name a payload.
func (b *Batch) count() {
	n := int64(0)
	for i := range b.sources {
		if !b.sources[i].include {
			n++
		}
	}
	b.lines.Store(n)
}

// An inclusion is how far the manifests of a batch are read.
type inclusion struct {
	*fetch
	manifests int   // included so far
	lines     int   // of all manifests
	octets    int64 // likewise
	wrong     complaints
}

// expand returns sources with manifests read in their places. depth is how many
// manifests lead there.
func (x *inclusion) expand(ctx context.Context, sources []source, depth int) ([]source, error) {
	var all []source
	for i := range sources {
		s := &sources[i]
		if !s.include {
			all = append(all, *s)
			continue
		}
		var found []source
		err := x.allowed(s, depth)
		if err == nil {
			found, err = x.read(ctx, s)
		}
		if err == nil {
			found, err = x.expand(ctx, found, depth+1)
		}
		var line lineError
		if errors.As(err, &line) {
			x.wrong.add(s.place, shown(s.url)+": "+string(line))
		} else if err != nil {
			return nil, err
		}
		if x.wrong.full() {
			return nil, nil
		}
		all = append(all, found...)
	}
	return all, nil
}

// allowed refuses to go round in circles, too deep, or to too many manifests.
func (x *inclusion) allowed(s *source, depth int) error {
	if s.in.within(s.url) {
		return errCircle
	}
	o := &x.r.o
	if depth > o.Depth {
		return lineError(fmt.Sprintf("manifests include one another more than %d deep", o.Depth))
	}
	if x.manifests++; x.manifests > o.Includes {
		return tooLarge("%v: more than %d manifests are included", s.place, o.Includes)
	}
	return nil
}

var errCircle = lineError("this manifest includes itself")

// within reports whether m, or a manifest above it, came from u.
func (m *manifest) within(u *url.URL) bool {
	for ; m.url != nil; m = m.above {
		if sameURL(m.url, u) {
			return true
		}
	}
	return false
}

// sameURL reports whether two URLs lead to the same; fragments do not count.
func sameURL(a, b *url.URL) bool {
	x, y := *a, *b
	x.Fragment, x.RawFragment, y.Fragment, y.RawFragment = "", "", "", ""
	return x.String() == y.String()
}

// read reads the manifest of a line.
func (x *inclusion) read(ctx context.Context, s *source) ([]source, error) {
	o := &x.r.o
	resp, body, err := x.open(ctx, s, o.Octets-x.octets)
	if err != nil {
		return nil, lineOf(ctx, err)
	}
	defer resp.Body.Close()
	// Where redirects led is where it was found.
	m := &manifest{url: resp.Request.URL, above: s.in}
	if s.in.within(m.url) {
		return nil, errCircle
	}
	in := digest.NewReader(body, s.meta.Expect)
	size := &counted{in: in}
	r := checkm.NewReader(size)
	r.MaxEntries = o.Lines - x.lines + 1
	sources, err := x.readLines(r, m, &x.wrong)
	switch {
	case errors.Is(err, checkm.ErrTooLarge):
		return nil, tooLarge("%s: manifests have more than %d lines together, or one of more than %d octets", shown(m.url), o.Lines, checkm.DefaultMaxLine)
	case err != nil:
		return nil, lineOf(ctx, err)
	}
	// The text after the mark at the end counts as well.
	if _, err := io.Copy(io.Discard, size); err != nil {
		return nil, lineOf(ctx, err)
	}
	x.octets += size.n
	x.lines += len(sources) - 1
	if s.length >= 0 && size.n != s.length {
		return nil, lineError(wrongLength(size.n, s.length).Error())
	}
	if err := in.Verify(); errors.Is(err, digest.ErrMismatch) {
		return nil, lineError(err.Error())
	} else if err != nil {
		return nil, err
	}
	return sources, nil
}

// lineOf is an error in the line of a manifest, or the end of all.
func lineOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return lineError(reason(err))
}

// A counted reader counts.
type counted struct {
	in io.Reader
	n  int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.n += int64(n)
	return n, err
}
