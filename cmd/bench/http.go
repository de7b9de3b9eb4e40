package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// httpClient submits and takes jobs on one connection (Cutie 5.4 and 5.6): one
// job as a bare body, several as the parts of one multipart body. net/http writes
// the heads and reads the answers, on a connection of the client's own: a client
// is one goroutine and leaves the processors to the server.
type httpClient struct {
	conn
	source  *source
	seen    *nameSet // Content-Location of every job taken
	phase   string
	batch   int
	submits *request
	takes   *request
	taken   bool // by the last operation, in the mixed phase
}

// nameSet is a set of names, for all clients of a run. Names with a number at their end
// take a bit each, so that a run of many minutes costs no memory to speak of.
type nameSet struct {
	mu sync.Mutex
	in map[string][]uint64 // bits of the numbers after a name
}

// add reports whether the name is new.
func (n *nameSet) add(name string) bool {
	digits := len(name)
	for digits > 0 && len(name)-digits < 9 && '0' <= name[digits-1] && name[digits-1] <= '9' {
		digits--
	}
	at, _ := strconv.Atoi(name[digits:])
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.in == nil {
		n.in = map[string][]uint64{}
	}
	bits := n.in[name[:digits]]
	if more := at/64 + 1 - len(bits); more > 0 {
		bits = append(bits, make([]uint64, more)...)
		n.in[name[:digits]] = bits
	}
	bit := uint64(1) << (at % 64)
	known := bits[at/64]&bit != 0
	bits[at/64] |= bit
	return !known
}

// request is a request and its head for n jobs.
type request struct {
	http.Request
	head []byte
	n    int
}

// prepare makes the head for n jobs, once.
func (r *request) prepare(n int, length int) {
	if r.n == n {
		return
	}
	r.n, r.ContentLength, r.Body = n, int64(length), io.NopCloser(strings.NewReader(""))
	if length == 0 {
		r.Body = http.NoBody
	}
	var b bytes.Buffer
	_ = r.Write(&b) // it writes the head and misses the body
	end := bytes.Index(b.Bytes(), []byte("\r\n\r\n"))
	r.head = b.Bytes()[:end+4]
}

// name names the request in errors.
func (r *request) name() string { return r.Method + " " + r.URL.EscapedPath() }

func (t target) connect(ctx context.Context, phase string, s *source, seen *nameSet, batch int) (worker, error) {
	c := &httpClient{conn: conn{network: t.network, address: t.address}, source: s, seen: seen, batch: batch, phase: phase,
		submits: t.request("content", "text/x-anvl"), takes: t.request("consume", "application/octet-stream")}
	c.submits.Header.Set("Content-Type", "application/octet-stream")
	if batch > 1 {
		c.submits.Header.Set("Content-Type", "multipart/form-data; boundary="+boundary)
		c.takes.Header.Set("Accept", "multipart/mixed")
	}
	return c, c.open(ctx)
}

func (t target) request(verb, accept string) *request {
	r := &request{Request: http.Request{Method: http.MethodPost, URL: t.base.JoinPath(verb, url.PathEscape(t.queue)), Header: t.header.Clone()}}
	r.Header.Set("Accept", accept)
	return r
}

// do submits or takes up to limit jobs. In the mixed phase it does both in turn,
// and an empty queue is no end, because other clients take, too.
func (c *httpClient) do(ctx context.Context, limit int) (int, error) {
	n := min(limit, c.batch)
	switch {
	case c.phase == submit:
		return c.submit(ctx, n)
	case c.phase == consume:
		return c.take(ctx, n)
	}
	if c.taken = !c.taken; c.taken {
		return c.submit(ctx, n)
	}
	n, err := c.take(ctx, n)
	if err == errDone {
		err = nil
	}
	return n, err
}

// boundary parts a batch. It does not occur in payloads, because they are random
// bytes of ours.
const boundary = "cutie-load-3f1c8a6e5d0b4972"

// submit submits n jobs, all or none.
func (c *httpClient) submit(ctx context.Context, n int) (int, error) {
	var body [][]byte
	for i := range n {
		if c.batch > 1 {
			body = append(body, fmt.Appendf(nil, "--%s\r\nContent-Disposition: form-data; name=\"file\"; "+
				"filename=\"job-%05d\"\r\nContent-Type: application/octet-stream\r\n\r\n", boundary, i))
		}
		stamp, rest := c.source.next()
		body = append(body, stamp, rest)
		if c.batch > 1 {
			body = append(body, []byte("\r\n"))
		}
	}
	if c.batch > 1 {
		body = append(body, []byte("--"+boundary+"--\r\n"))
	}
	length := 0
	for _, b := range body {
		length += len(b)
	}
	c.submits.prepare(n, length)
	answer, err := c.exchange(ctx, c.submits, body, http.StatusCreated)
	if err != nil {
		return 0, err
	}
	return n, c.finish(answer)
}

// Complaints about single jobs; the errors name the job.
var (
	errTwice  = errors.New("job was handed out twice")
	errNoName = errors.New("job came without Content-Location")
)

// take takes up to n jobs; errDone if none is pending.
func (c *httpClient) take(ctx context.Context, n int) (int, error) {
	if c.batch > 1 {
		c.takes.URL.RawQuery = "max=" + strconv.Itoa(n)
	}
	c.takes.prepare(n, 0)
	answer, err := c.exchange(ctx, c.takes, nil, http.StatusOK, http.StatusNoContent)
	if err != nil {
		return 0, err
	}
	if answer.StatusCode == http.StatusNoContent {
		if err := c.finish(answer); err != nil {
			return 0, err
		}
		return 0, errDone
	}
	moved := 1
	var bad, lost error
	if c.batch == 1 {
		bad, lost = c.job(answer.Header.Get("Content-Location"), answer.Body)
	} else {
		moved, bad, lost = c.several(answer, n)
	}
	if lost != nil {
		c.close()
		return moved, fmt.Errorf("POST %s: %w", c.takes.URL.Path, lost)
	}
	if err := c.finish(answer); err != nil {
		return moved, err
	}
	return moved, bad
}

// job reads one payload and returns its faults, or the error at the end of the
// answer.
func (c *httpClient) job(location string, payload io.Reader) (bad, lost error) {
	if location == "" {
		bad = errNoName
	} else if !c.seen.add(location) {
		bad = fmt.Errorf("%s: %w", location, errTwice)
	}
	err := c.source.check(payload)
	if errors.Is(err, errPayload) {
		return errors.Join(bad, fmt.Errorf("%s: %w", location, err)), nil
	}
	return bad, err
}

// several reads a multipart answer of up to n jobs.
func (c *httpClient) several(answer *http.Response, n int) (moved int, bad, lost error) {
	media, params, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if err != nil || media != "multipart/mixed" {
		return 0, nil, fmt.Errorf("media type %q: not multipart/mixed", answer.Header.Get("Content-Type"))
	}
	var all []error
	parts := multipart.NewReader(answer.Body, params["boundary"])
	for {
		part, err := parts.NextRawPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			return moved, nil, err
		}
		moved++
		bad, lost := c.job(part.Header.Get("Content-Location"), part)
		if lost != nil {
			return moved, nil, lost
		}
		if bad != nil {
			all = append(all, bad)
		}
	}
	if moved == 0 || moved > n {
		return moved, nil, fmt.Errorf("%d jobs where 1 to %d were asked for", moved, n)
	}
	return moved, errors.Join(all...), nil
}

// exchange sends a request and returns the answer. A status other than want is
// a *statusError.
func (c *httpClient) exchange(ctx context.Context, r *request, body [][]byte, want ...int) (*http.Response, error) {
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	sent := c.send(r.head, body...)
	if sent != nil {
		// After a refusal of a large body the server closes during the upload:
		// its answer says more than the broken pipe.
		c.nc.SetReadDeadline(time.Now().Add(time.Second))
	}
	answer, err := http.ReadResponse(c.r, &r.Request)
	if err != nil || sent != nil && slices.Contains(want, answer.StatusCode) {
		c.close()
		return nil, fmt.Errorf("%s: %w", r.name(), errors.Join(sent, noEOF(err)))
	}
	if slices.Contains(want, answer.StatusCode) {
		return answer, nil
	}
	detail, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
	seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
	status := &statusError{r.name(), answer.StatusCode, reason(string(detail)), time.Duration(seconds) * time.Second}
	if sent != nil {
		c.close()
		return nil, status
	}
	if err := c.finish(answer); err != nil {
		return nil, err
	}
	return nil, status
}

// finish reads the rest of the body and keeps the connection, if the server does.
func (c *httpClient) finish(answer *http.Response) error {
	_, err := io.Copy(io.Discard, answer.Body)
	if err != nil || answer.Close {
		c.close()
	}
	return err
}

// noEOF makes the end of a connection before an answer unexpected.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// statusError is an answer with an unexpected status.
type statusError struct {
	request string // method and path
	code    int
	detail  string // from the body of the answer
	after   time.Duration
}

func (e *statusError) Error() string {
	text := fmt.Sprintf("%s: %d %s", e.request, e.code, http.StatusText(e.code))
	if e.detail != "" {
		text += ": " + e.detail
	}
	return text
}

// permanent reports whether the request itself is refused and no repetition
// helps.
func (e *statusError) permanent() bool {
	return e.code >= 400 && e.code < 500 && e.code != http.StatusRequestTimeout && e.code != http.StatusTooManyRequests
}

// reason finds in the body of an error the detail or the description of an
// exception state, or else the first line; nothing in a page for people.
func reason(body string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(body), "\n")
	if strings.HasPrefix(first, "<") {
		return ""
	}
	for _, name := range []string{"description: ", "detail: "} {
		for line := range strings.Lines(body) {
			if text, ok := strings.CutPrefix(line, name); ok {
				first = text
			}
		}
	}
	first = strings.TrimSpace(first)
	return strings.ToValidUTF8(first[:min(len(first), 200)], "")
}
