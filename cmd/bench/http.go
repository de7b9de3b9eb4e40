package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"strconv"
	"time"
)

// patience is the longest time of a request, or half of it.
const patience = 2 * time.Minute

// conn is a connection with a deadline that moves along.
type conn struct {
	net.Conn
	r        *bufio.Reader
	deadline time.Time
}

func dial(ctx context.Context, address string) (conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return conn{}, err
	}
	context.AfterFunc(ctx, func() { c.Close() })
	return conn{Conn: c, r: bufio.NewReaderSize(c, 64<<10)}, nil
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
	address string
	batch   int
	buf     []byte
}

// connectHTTP returns how clients of an HTTP server connect.
func connectHTTP(address string, p *payloads) func(context.Context, load) (client, error) {
	return func(ctx context.Context, l load) (client, error) {
		c, err := dial(ctx, address)
		return &httpClient{conn: c, payloads: p, address: address, batch: l.batch}, err
	}
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
	body[0] = fmt.Appendf(nil, "POST /content/jobs HTTP/1.1\r\nHost: %s\r\nAccept: text/x-anvl\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", c.address, kind, length)
	answer, err := c.exchange(body, http.StatusCreated)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return err
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
