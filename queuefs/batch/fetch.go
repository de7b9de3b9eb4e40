package batch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/outbound"
	"cutie/queuefs/web"
)

// A fetch brings in the files of a batch and submits them.
type fetch struct {
	*Batch
	stage *queuefs.Assembly

	mu      sync.Mutex
	wrong   complaints
	refused error // for the first refused address, with all its details
	err     error // ends the fetch
}

// A lineError is an error in a line; other errors end the whole batch.
type lineError string

func (e lineError) Error() string { return string(e) }

var errBatchTime = errors.New("time for the batch is over")

// fetch fetches all files and puts them into the queue, in the order of their
// lines, or none of them. again is as for [Batch.Run]. most is the longest time.
func (b *Batch) fetch(ctx context.Context, most time.Duration) (jobs []queuefs.Job, again bool, err error) {
	f := &fetch{Batch: b}
	timed, cancel := context.WithTimeoutCause(ctx, most, errBatchTime)
	defer cancel()
	timed, stop := context.WithCancel(timed)
	defer stop()
	if err := f.include(timed); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		f.tell()
		return nil, false, err
	}
	f.stage = f.q.Assemble(len(f.sources))
	defer f.stage.Discard()
	f.stage.Key(f.key)
	f.stage.Admit(f.Admit)
	f.all(timed, stop)
	f.tell()
	switch {
	case ctx.Err() != nil:
		return nil, false, ctx.Err()
	case f.err != nil:
		return nil, false, f.err
	}
	slices.SortStableFunc(f.wrong, func(a, b complaint) int { return cmp.Compare(a.order, b.order) })
	err = f.wrong.err()
	if context.Cause(timed) == errBatchTime {
		return nil, false, f.late(most, err)
	}
	if err != nil {
		return nil, false, err
	}
	jobs, err = f.stage.Commit(ctx)
	return jobs, f.stage.Again(), err
}

// all fetches the files: hosts take turns, and only a few files are fetched from one of them
// at a time.
func (f *fetch) all(ctx context.Context, stop context.CancelFunc) {
	hosts := map[string][]int{}
	for place := range f.sources {
		name := strings.ToLower(f.sources[place].url.Hostname())
		hosts[name] = append(hosts[name], place)
	}
	var wg sync.WaitGroup
	turns := make(chan bool, f.r.o.Parallel)
	for _, places := range hosts {
		left := make(chan int, len(places))
		for _, place := range places {
			left <- place
		}
		close(left)
		for range min(f.r.o.PerHost, len(places)) {
			wg.Go(func() {
				for place := range left {
					select {
					case turns <- true:
					case <-ctx.Done():
						return
					}
					if ctx.Err() == nil && f.fail(place, f.one(ctx, place)) {
						stop()
					}
					<-turns
				}
			})
		}
	}
	wg.Wait()
}

// late is the error of a batch out of time; err has the other errors.
func (f *fetch) late(most time.Duration, err error) error {
	e := &manifestError{lines: []string{fmt.Sprintf("%d of %d files were fetched in %v", f.done.Load(), f.lines.Load(), most)}}
	var lines *manifestError
	if errors.As(err, &lines) {
		e.lines = append(e.lines, lines.lines...)
	}
	return e
}

// tell logs the refused address, which the submitter must not know.
func (f *fetch) tell() {
	if f.refused != nil && f.log != nil {
		f.log(f.refused)
	}
}

// fail notes an error, and reports whether to go on has no use.
func (f *fetch) fail(place int, err error) (over bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var line lineError
	switch {
	case err == nil:
	case errors.As(err, &line):
		f.wrong.addAs(place, f.sources[place].place, string(line))
		return f.wrong.full()
	default:
		f.err = cmp.Or(f.err, err)
		return true
	}
	return false
}

// note keeps the first refused address.
func (f *fetch) note(err error) {
	var refused *outbound.RefusedError
	if errors.As(err, &refused) && refused.Addr.IsValid() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.refused = cmp.Or(f.refused, error(refused))
	}
}

// one fetches a payload and puts it into its place.
func (f *fetch) one(ctx context.Context, place int) error {
	s := &f.sources[place]
	wrong := func(err error) error {
		if context.Cause(ctx) != nil {
			return nil // there is one error for all lines
		}
		return lineError(shown(s.url) + ": " + err.Error())
	}
	resp, body, err := f.open(ctx, s, f.r.o.MaxBody)
	if err != nil {
		return wrong(err)
	}
	defer resp.Body.Close()
	m := s.meta
	if m.MediaType == "" {
		if t := resp.Header.Get("Content-Type"); web.IsMediaType(t) && t != queuefs.DefaultMediaType {
			m.MediaType = t
		}
	}
	part := f.q.Begin()
	defer part.Discard()
	d, err := part.Add(m)
	if err != nil {
		return wrong(err)
	}
	in := &counter{in: body, octets: &f.octets, most: f.r.o.MaxBody}
	if _, err := io.Copy(d, in); in.err != nil {
		return wrong(errors.New(reason(in.err)))
	} else if err != nil {
		return err
	}
	if s.length >= 0 && d.Size() != s.length {
		return wrong(wrongLength(d.Size(), s.length))
	}
	if err := f.stage.Put(place, part); errors.Is(err, queuefs.ErrDigest) {
		return wrong(err)
	} else if err != nil {
		return err
	}
	f.done.Add(1)
	return nil
}

// open requests the file of a line, with at most most octets. Its error is an
// error in the line.
func (f *fetch) open(ctx context.Context, s *source, most int64) (*http.Response, io.Reader, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url.String(), nil)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("User-Agent", queuefs.Scheme)
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := f.r.o.Fetch.Do(req)
	if err != nil {
		f.note(err)
		return nil, nil, errors.New(reason(err))
	}
	coding := resp.Header.Get("Content-Encoding")
	switch {
	case resp.StatusCode != http.StatusOK:
		err = fmt.Errorf("answer is %d %s", resp.StatusCode, strings.ToLower(http.StatusText(resp.StatusCode)))
	case coding != "" && !strings.EqualFold(coding, "identity"):
		err = fmt.Errorf("content coding %.40q is not supported", coding)
	case s.length >= 0 && resp.ContentLength >= 0 && resp.ContentLength != s.length:
		err = wrongLength(resp.ContentLength, s.length)
	}
	if s.length >= 0 {
		most = min(most, s.length)
	}
	if err == nil && resp.ContentLength > most {
		err = fmt.Errorf("body is too big: it has %d octets, more than %d", resp.ContentLength, most)
	}
	if err != nil {
		resp.Body.Close()
		return nil, nil, err
	}
	return resp, http.MaxBytesReader(nil, resp.Body, most), nil
}

func wrongLength(got, want int64) error { return fmt.Errorf("length is %d instead of %d", got, want) }

// A counter counts the octets of all files of a batch, and keeps the error of
// its reader.
type counter struct {
	in     io.Reader
	octets *atomic.Int64
	most   int64
	err    error
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	if err != nil && err != io.EOF {
		c.err = err
	}
	if c.octets.Add(int64(n)) > c.most {
		return 0, tooLarge("files of the batch have more than %d octets", c.most)
	}
	return n, err
}

// reason returns why a request failed, without details from behind this
// machine, such as the address of a name server.
func reason(err error) string {
	var (
		op   *net.OpError
		at   *url.Error
		long *http.MaxBytesError
	)
	if text := outbound.Public(err); text != "" {
		return text
	}
	switch {
	case errors.As(err, &long):
		return fmt.Sprintf("body is too big: it has more than %d octets", long.Limit)
	case errors.As(err, &op) && op.Op == "dial":
		return "host could not be connected to"
	case errors.As(err, &op):
		return "connection failed"
	case errors.As(err, &at):
		err = at.Err
	}
	return fmt.Sprintf("%.200s", err)
}
