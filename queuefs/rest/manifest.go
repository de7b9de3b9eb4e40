package rest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/checkm"
	"cutie/queuefs/digest"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/outbound"
	"cutie/queuefs/web"
)

// A fetch brings in the files of a batch and submits them.
type fetch struct {
	*batch
	mu      sync.Mutex // of all fields below
	stage   *queuefs.Submission
	wrong   complaints
	refused error // for the first refused address, with all its details
	err     error // ends the fetch
}

// A lineError is an error in a line; other errors end the whole batch.
type lineError string

func (e lineError) Error() string { return string(e) }

var errBatchTime = errors.New("time for the batch is over")

// fetch fetches all files and puts them into the queue, in the order of their
// lines, or none of them. again is as for [batch.run]. most is the longest time.
func (b *batch) fetch(ctx context.Context, most time.Duration) (jobs []job.Job, again bool, err error) {
	f := &fetch{batch: b}
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
	f.stage.Admit(f.admit)
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
	turns := make(chan bool, f.r.o.Batch.Parallel)
	for _, places := range hosts {
		left := make(chan int, len(places))
		for _, place := range places {
			left <- place
		}
		close(left)
		for range min(f.r.o.Batch.PerHost, len(places)) {
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
		if t := resp.Header.Get("Content-Type"); web.IsMediaType(t) && t != job.DefaultMediaType {
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
	f.mu.Lock()
	err = f.stage.Put(place, part)
	f.mu.Unlock()
	if errors.Is(err, digest.ErrMismatch) {
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
	req.Header.Set("User-Agent", home.Scheme)
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

// maxComplaints is how many lines of a manifest an answer complains about.
const maxComplaints = 100

// A source is the file or the manifest in a line.
type source struct {
	place
	url     *url.URL
	include bool
	length  int64 // octets; below 0 if not said
	meta    job.Meta
}

// A place is a line of a manifest.
type place struct {
	in   *manifest
	line int
}

func (p place) String() string {
	if p.in.url == nil {
		return fmt.Sprintf("line %d", p.line)
	}
	return fmt.Sprintf("%s line %d", shown(p.in.url), p.line)
}

// A manifest is one of the manifests of a batch.
type manifest struct {
	url   *url.URL  // of its origin; nil for the one in the submission
	above *manifest // the manifest around it
}

// readManifest reads the manifest in the submission (Cutie 0.3, 5.5); it has at
// least one line. There is one error for all of it.
func (b *batch) readManifest(in io.Reader) ([]source, error) {
	r := checkm.NewReader(in)
	r.MaxEntries = b.r.o.Batch.Lines
	var wrong complaints
	sources, err := b.readLines(r, &manifest{}, &wrong)
	if errors.Is(err, checkm.ErrTooLarge) {
		return nil, tooLarge("%v", err)
	} else if err != nil {
		return nil, err
	}
	if err := wrong.err(); err != nil {
		return nil, err
	}
	if len(sources) == 0 {
		return nil, errNoFiles
	}
	return sources, nil
}

var errNoFiles = web.BadRequest("batch manifest names no files")

// readLines reads a manifest to its end, or until there are too many
// complaints. The error is of the reader, or a [checkm.ErrTooLarge].
func (b *batch) readLines(r *checkm.Reader, m *manifest, wrong *complaints) (sources []source, err error) {
	for !wrong.full() {
		e, err := r.Read()
		if err == io.EOF {
			break
		}
		var parse *checkm.ParseError
		if errors.Is(err, checkm.ErrTooLarge) {
			return nil, err
		} else if errors.As(err, &parse) {
			wrong.add(place{m, parse.Line}, parse.Err.Error())
			continue
		} else if err != nil {
			return nil, err
		}
		s, err := b.source(&e, m)
		if err != nil {
			wrong.add(s.place, err.Error())
			continue
		}
		sources = append(sources, s)
	}
	return sources, nil
}

// source reads an entry of a manifest. A relative URL begins at the URL of its
// manifest; the manifest in the submission has none.
func (b *batch) source(e *checkm.Entry, m *manifest) (source, error) {
	s := source{place: place{m, e.Line}, include: e.Include, length: e.Length, meta: b.by}
	if e.Include && b.r.o.Batch.Includes < 0 {
		return s, errors.New("no manifest is included here; its lines belong into this one")
	}
	var err error
	if s.url, err = url.Parse(e.Source); err != nil {
		return s, fmt.Errorf("%.80q is not a URL", e.Source)
	}
	if !s.url.IsAbs() {
		if m.url == nil {
			return s, fmt.Errorf("%.80q is not a whole URL; relative ones are for manifests that are included by theirs", e.Source)
		}
		s.url = m.url.ResolveReference(s.url)
	}
	if err := outbound.Check(s.url); err != nil {
		return s, fmt.Errorf("%.80q: %w", e.Source, err)
	}
	switch {
	case strings.EqualFold(e.Alg, "dir"):
		return s, errors.New("a directory is neither a job nor a manifest")
	case e.Alg == "" && e.Digest != "":
		return s, errors.New("digest without type")
	case e.Alg != "" && e.Digest == "":
		return s, fmt.Errorf("%.40s without value", e.Alg)
	case e.Alg != "":
		t, err := digest.Parse(e.Alg)
		if err != nil {
			return s, err
		}
		v, err := digest.ParseValue(t, e.Digest)
		if err != nil {
			return s, err
		}
		s.meta.Expect = []digest.Value{v}
	}
	if e.Length > b.r.o.MaxBody {
		return s, fmt.Errorf("length %d is more than %d octets", e.Length, b.r.o.MaxBody)
	}
	if e.Include {
		return s, nil // the other columns are for jobs
	}
	s.meta.Filename = e.Name()
	if t := e.Value("mimeType"); t != "" {
		if !web.IsMediaType(t) {
			return s, fmt.Errorf("%.80q is not a media type", t)
		}
		if t != job.DefaultMediaType {
			s.meta.MediaType = t
		}
	}
	s.meta.Sidecar = sidecarOf(e.Extra)
	if len(s.meta.Sidecar) > b.r.o.MaxSidecar {
		return s, fmt.Errorf("columns have more than %d octets", b.r.o.MaxSidecar)
	}
	return s, nil
}

// sidecarOf makes a sidecar of the unknown columns, in the form of Cutie 3.3.
func sidecarOf(columns []checkm.Column) string {
	var parts []string
	for _, c := range columns {
		if !strings.HasSuffix(strings.ToLower(c.Name), "mimetype") {
			parts = append(parts, c.Name+"="+strings.ReplaceAll(c.Value, ";", `\;`))
		}
	}
	return strings.Join(parts, "; ")
}

// complaints are errors in lines of manifests, at most maxComplaints.
type complaints []complaint

type complaint struct {
	place
	order int // for those that come in any order
	text  string
}

func (c *complaints) add(at place, text string) { c.addAs(0, at, text) }

func (c *complaints) addAs(order int, at place, text string) {
	if !c.full() {
		*c = append(*c, complaint{at, order, text})
	}
}

func (c *complaints) full() bool { return len(*c) >= maxComplaints }

// err returns one error for all of them, nil if there are none.
func (c complaints) err() error {
	if len(c) == 0 {
		return nil
	}
	e := &manifestError{lines: make([]string, len(c))}
	for i := range c {
		e.lines[i] = c[i].place.String() + ": " + c[i].text
	}
	if c.full() {
		e.lines = append(e.lines, "and perhaps more")
	}
	return e
}

// A manifestError lists the bad lines of manifests, with reasons.
type manifestError struct{ lines []string }

func (e *manifestError) Error() string { return strings.Join(e.lines, "; ") }

// HTTPStatus makes it a bad request.
func (e *manifestError) HTTPStatus() int { return http.StatusBadRequest }

// shown is a URL as complaints have it: without a password, and no longer than
// a line.
func shown(u *url.URL) string {
	name := u.Redacted()
	if len(name) > 120 {
		name = name[:117] + "..."
	}
	return strings.ToValidUTF8(name, "\ufffd")
}

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
func (b *batch) count() {
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
	o := &x.r.o.Batch
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
	o := &x.r.o.Batch
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
	size := &counter{in: in, octets: new(atomic.Int64), most: math.MaxInt64}
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
	x.octets += size.octets.Load()
	x.lines += len(sources) - 1
	if got := size.octets.Load(); s.length >= 0 && got != s.length {
		return nil, lineError(wrongLength(got, s.length).Error())
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
