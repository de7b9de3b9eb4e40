package destination

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"cutie/publisher/destination/local"
	"cutie/publisher/destination/source"
)

// leastPart is the length from which on a resource is completed where it was cut off.
const leastPart = 1 << 20

// resume fills a file from where a former request was cut off (RFC 9110, 14 and 13.1.5).
// The octets are verified afterwards. It returns their time, as far as the server gives one.
func (c *Copy) resume(ctx context.Context, uri string, f *local.File) (mod time.Time, err error) {
	if _, err := f.Verify(); err == nil {
		return mod, nil // nothing is missing
	}
	h := http.Header{}
	r := source.Request{URI: uri, Plain: true, Header: h, Accept: []int{http.StatusPartialContent, http.StatusRequestedRangeNotSatisfiable}}
	ask := func() {
		h.Del("Range")
		h.Del("If-Range")
		if f.Length() > 0 && f.Tag() != "" {
			h.Set("Range", fmt.Sprintf("bytes=%d-", f.Length()))
			h.Set("If-Range", f.Tag())
		}
	}
	ask()
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	err = c.client.Get(ctx, r, func(a *source.Answer) error {
		defer ask() // the next try goes on from here
		mod = a.Modified()
		if a.Coded() && !a.IsArchive(uri) {
			return source.ErrCoding // ranges are those of the coded body
		}
		switch begins := fmt.Sprintf("bytes %d-", f.Length()); {
		case a.Status == http.StatusRequestedRangeNotSatisfiable:
			return errors.Join(local.ErrDiffers, disked(f.Restart("")))
		case a.Status == http.StatusPartialContent && !strings.HasPrefix(a.Header.Get("Content-Range"), begins):
			return errors.Join(fmt.Errorf("%w: range %q", local.ErrDiffers, a.Header.Get("Content-Range")), disked(f.Restart("")))
		case a.Status == http.StatusOK:
			if err := f.Restart(validator(a.Header)); err != nil {
				return disk{err}
			}
		}
		_, err := io.CopyBuffer(struct{ io.Writer }{writer{f}}, struct{ io.Reader }{a.Body}, *buf)
		return err
	})
	if err == nil {
		_, err = f.Verify()
	}
	return mod, err
}

// complete is resume, and once more from the beginning if old and new octets are no whole.
func (c *Copy) complete(ctx context.Context, uri string, f *local.File) (mod time.Time, err error) {
	resumed := f.Length() > 0
	mod, err = c.resume(ctx, uri, f)
	if errors.Is(err, local.ErrDiffers) && resumed && !fatal(err) {
		if err := f.Restart(""); err != nil {
			return mod, disk{err}
		}
		mod, err = c.resume(ctx, uri, f)
	}
	if errors.Is(err, local.ErrDiffers) {
		f.Discard()
	}
	return mod, err
}

// fetchPart completes a file and gives it its path. After an error its octets stay for the
// next run, unless they are wrong.
func (c *Copy) fetchPart(ctx context.Context, uri string, f *local.File) error {
	defer f.Keep()
	mod, err := c.complete(ctx, uri, f)
	if err != nil {
		return err
	}
	n := f.Length()
	if err := f.Commit(mod); err != nil {
		return disk{err}
	}
	c.counts.Fetched.Add(1)
	c.counts.Stored.Add(n)
	return nil
}

// validator returns the strong entity tag of an answer, or else its time. The digest of
// the whole proves the result.
func validator(h http.Header) string {
	if tag := h.Get("Etag"); strings.HasPrefix(tag, `"`) {
		return tag
	}
	return h.Get("Last-Modified")
}

func disked(err error) error {
	if err != nil {
		return disk{err}
	}
	return nil
}
