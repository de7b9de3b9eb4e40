package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// patience is the longest time of a request, or half of it.
const patience = 2 * time.Minute

// conn is a connection with a deadline that moves along.
type conn struct {
	net.Conn
	address  string
	r        *bufio.Reader
	deadline time.Time
}

func dial(ctx context.Context, address string) (conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return conn{}, err
	}
	context.AfterFunc(ctx, func() { c.Close() })
	return conn{Conn: c, address: address, r: bufio.NewReaderSize(c, 64<<10)}, nil
}

func (c *conn) close() { c.Close() }

// send writes a request: small ones from one buffer, which costs less than gathering.
func (c *conn) send(parts net.Buffers) error {
	if now := time.Now(); c.deadline.Sub(now) < patience/2 {
		c.deadline = now.Add(patience)
		if err := c.SetDeadline(c.deadline); err != nil {
			return err
		}
	}
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	if size <= 16<<10 {
		_, err := c.Write(bytes.Join(parts, nil))
		return err
	}
	_, err := parts.WriteTo(c.Conn)
	return err
}

// httpClient submits and takes jobs by the Cutie protocol (5.4, 5.6): one job as a bare
// body, several as the parts of a multipart body. It is one goroutine and has its own
// connection, so that more of the machine is left to the server.
type httpClient struct {
	conn
	*payloads
	load
	buf []byte
}

func speakHTTP(c conn, p *payloads, l load) client { return &httpClient{conn: c, payloads: p, load: l} }

// queue names the queue of the next request: the one of all jobs, or another each time.
func (c *httpClient) queue() string {
	if c.queues == nil {
		return "jobs"
	}
	return fmt.Sprintf("q%06d", c.queues.Add(1))
}

func (c *httpClient) create() error {
	return c.do(net.Buffers{fmt.Appendf(nil, "PUT /state/%s HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\n\r\n", c.queue(), c.address)})
}

// do sends a request that makes something.
func (c *httpClient) do(request net.Buffers) error {
	answer, err := c.exchange(request, http.StatusCreated)
	if err == nil {
		_, err = io.Copy(io.Discard, answer.Body)
	}
	return err
}

// boundary does not occur in payloads, whose bytes are known.
const boundary = "cutie-bench-3f1c8a6e5d0b4972"

func (c *httpClient) submit(n int) error {
	body := net.Buffers{nil}
	kind := "application/octet-stream"
	for i := range n {
		if c.batch > 1 {
			body = append(body, fmt.Appendf(nil, "--%s\r\nContent-Disposition: form-data; name=\"file\"; filename=\"job-%d\"\r\n\r\n", boundary, i))
		}
		stamp, rest := c.next()
		body = append(body, stamp, rest)
		if c.batch > 1 {
			body = append(body, []byte("\r\n"))
		}
	}
	if c.batch > 1 {
		kind = "multipart/form-data; boundary=" + boundary
		body = append(body, []byte("--"+boundary+"--\r\n"))
	}
	length := 0
	for _, b := range body {
		length += len(b)
	}
	body[0] = fmt.Appendf(nil, "POST /content/%s HTTP/1.1\r\nHost: %s\r\nAccept: text/x-anvl\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n",
		c.queue(), c.address, kind, length)
	return c.do(body)
}

func (c *httpClient) take(n int) (int, error) {
	query, accept := "", "application/octet-stream"
	if c.batch > 1 {
		query, accept = "?max="+strconv.Itoa(n), "multipart/mixed"
	}
	answer, err := c.exchange(net.Buffers{fmt.Appendf(nil, "POST /consume/jobs%s HTTP/1.1\r\nHost: %s\r\nAccept: %s\r\nContent-Length: 0\r\n\r\n", query, c.address, accept)},
		http.StatusOK, http.StatusNoContent)
	if err != nil || answer.StatusCode == http.StatusNoContent {
		return 0, err
	}
	if c.batch == 1 {
		err := c.job(http.Header(answer.Header), answer.Body)
		_, rest := io.Copy(io.Discard, answer.Body)
		return 1, errors.Join(err, rest)
	}
	_, params, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if err != nil {
		return 0, err
	}
	parts := multipart.NewReader(answer.Body, params["boundary"])
	for got := 0; ; got++ {
		part, err := parts.NextRawPart()
		if err == io.EOF {
			_, err = io.Copy(io.Discard, answer.Body)
			return got, err
		}
		if err == nil {
			err = c.job(http.Header(part.Header), part)
		}
		if err != nil {
			return got, err
		}
	}
}

func (c *httpClient) job(h http.Header, payload io.Reader) error {
	location := h.Get("Content-Location")
	if err := c.check(payload, &c.buf); err != nil {
		return fmt.Errorf("%s: %w", location, err)
	}
	return c.once(location)
}

// exchange sends a request and returns the answer if its status is one of want.
func (c *httpClient) exchange(request net.Buffers, want ...int) (*http.Response, error) {
	sent := c.send(request)
	answer, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return nil, errors.Join(sent, err)
	}
	for _, status := range want {
		if answer.StatusCode == status {
			return answer, sent
		}
	}
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 300))
	return nil, fmt.Errorf("%s: %s", answer.Status, text)
}

// A payload is a stamp and a stretch of one block of random bytes: it costs nothing to
// make, does not compress, and can be recognised. The stamp has the offset of the stretch
// in the block and a counter, so that payloads differ.
const (
	stampSize = 16
	offsets   = 1 << 16
)

// payloads makes and checks the payloads of one server, and remembers which jobs came.
type payloads struct {
	size  int
	block []byte

	mu   sync.Mutex
	n    uint64
	came []uint64 // a bit for each job number
}

func newPayloads(size int) *payloads {
	p := &payloads{size: size, block: make([]byte, size+offsets)}
	rand.NewChaCha8([32]byte([]byte("cutie bench: the random payloads"))).Read(p.block)
	return p
}

// next returns the two parts of the next payload.
func (p *payloads) next() (stamp, rest []byte) {
	p.mu.Lock()
	p.n++
	n := p.n
	p.mu.Unlock()
	offset := n * 40503 % offsets
	stamp = binary.BigEndian.AppendUint64(make([]byte, 0, stampSize), offset)
	stamp = binary.BigEndian.AppendUint64(stamp, n)
	if p.size < stampSize {
		return stamp[stampSize-p.size:], nil
	}
	return stamp, p.block[offset+stampSize:][:p.size-stampSize]
}

var errPayload = errors.New("payload is not what was submitted")

// check reads a payload into buf, which is made larger if need be, and compares it.
func (p *payloads) check(r io.Reader, buf *[]byte) error {
	if len(*buf) <= p.size {
		*buf = make([]byte, p.size+1)
	}
	n, err := io.ReadFull(r, *buf)
	if err == nil {
		return fmt.Errorf("%w: more than %d bytes", errPayload, p.size)
	}
	if err != io.ErrUnexpectedEOF && err != io.EOF {
		return err
	}
	if n != p.size {
		return fmt.Errorf("%w: %d of %d bytes", errPayload, n, p.size)
	}
	if n < stampSize {
		return nil
	}
	got := (*buf)[:n]
	offset := binary.BigEndian.Uint64(got)
	if offset >= offsets || !bytes.Equal(got[stampSize:], p.block[offset+stampSize:][:n-stampSize]) {
		return errPayload
	}
	return nil
}

// once reports a job that came without a name, or for the second time.
func (p *payloads) once(location string) error {
	digits := location[max(0, len(location)-12):]
	n, err := strconv.ParseUint(digits, 10, 40)
	if err != nil {
		return fmt.Errorf("job came with the name %.80q", location)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for uint64(len(p.came)) <= n/64 {
		p.came = append(p.came, make([]uint64, 1+len(p.came))...)
	}
	bit := uint64(1) << (n % 64)
	if p.came[n/64]&bit != 0 {
		return fmt.Errorf("job %s came twice", location)
	}
	p.came[n/64] |= bit
	return nil
}
