package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

//go:embed testdata/synced_queue.py
var dirqScript string

const python = "/usr/bin/python3" // the module dirq is a package of the system

// peers are the other servers to measure.
var peers = []subject{
	{name: "beanstalkd", about: "beanstalkd -f0: put; reserve and delete", try: []string{"beanstalkd", "-v"},
		client: lines(putBeanstalkd, takeBeanstalkd), command: func(dir, host, port string, size int) []string {
			return []string{"beanstalkd", "-b", dir, "-f0", "-l", host, "-p", port, "-z", strconv.Itoa(max(4<<20, size))}
		}},
	// Redis syncs its log before it answers, and rewrites nothing meanwhile.
	{name: "redis", about: "redis-server, appendfsync always: LPUSH; RPOP", try: []string{"redis-server", "--version"},
		client: lines(putRedis, takeRedis), command: func(dir, host, port string, _ int) []string {
			return []string{"redis-server", "--bind", host, "--port", port, "--dir", dir, "--save", "", "--appendonly", "yes",
				"--appendfsync", "always", "--auto-aof-rewrite-percentage", "0", "--daemonize", "no", "--loglevel", "warning"}
		}},
	{name: "dirq", about: "python3-dirq, files and directories synced: add; lock, get, remove", slow: true,
		try: []string{python, "-c", "import dirq.QueueSimple"}, client: lines(putDirq, takeDirq),
		command: func(dir, host, port string, _ int) []string {
			return []string{python, "-c", dirqScript, dir, host, port}
		}},
	{name: "bare-http", about: "an HTTP server that stores nothing: the most that HTTP reaches here", client: speakHTTP,
		command: func(_, host, port string, size int) []string {
			return []string{os.Args[0], bareVerb, host + ":" + port, strconv.Itoa(size)}
		}},
}

func peerNames() (names []string) {
	for _, p := range peers {
		names = append(names, p.name)
	}
	return names
}

// lineClient speaks a protocol of lines.
type lineClient struct {
	conn
	*payloads
	put func(*lineClient) error
	get func(*lineClient) (int, error)
	buf []byte
}

func lines(put func(*lineClient) error, get func(*lineClient) (int, error)) func(conn, *payloads, load) client {
	return func(c conn, p *payloads, _ load) client { return &lineClient{conn: c, payloads: p, put: put, get: get} }
}

func (c *lineClient) submit(int) error      { return c.put(c) }
func (c *lineClient) take(int) (int, error) { return c.get(c) }

// exchange sends a request and returns the line of the answer, which begins with want.
func (c *lineClient) exchange(want string, request ...[]byte) (string, error) {
	if err := c.send(request); err != nil {
		return "", err
	}
	line, err := c.r.ReadString('\n')
	line = strings.TrimSuffix(line, "\r\n")
	if err == nil && !strings.HasPrefix(line, want) {
		err = fmt.Errorf("answer %.80q", line)
	}
	return line, err
}

// add sends a job after the head of a request.
func (c *lineClient) add(head, want string) error {
	stamp, rest := c.next()
	_, err := c.exchange(want, fmt.Appendf(nil, head, c.size), stamp, rest, []byte("\r\n"))
	return err
}

// payload reads and checks a payload and the end of line after it.
func (c *lineClient) payload(length string) error {
	n, err := strconv.ParseInt(length, 10, 64)
	if err == nil {
		err = c.check(io.LimitReader(c.r, n), &c.buf)
	}
	if err == nil {
		_, err = c.r.Discard(2)
	}
	return err
}

func putBeanstalkd(c *lineClient) error { return c.add("put 0 0 3600 %d\r\n", "INSERTED") }
func putRedis(c *lineClient) error      { return c.add("*3\r\n$5\r\nLPUSH\r\n$4\r\njobs\r\n$%d\r\n", ":") }
func putDirq(c *lineClient) error       { return c.add("put %d\r\n", ":") }

func takeRedis(c *lineClient) (int, error) { return c.bulk("*2\r\n$4\r\nRPOP\r\n$4\r\njobs\r\n") }
func takeDirq(c *lineClient) (int, error)  { return c.bulk("take\r\n") }

// bulk takes a job in a bulk string of RESP.
func (c *lineClient) bulk(request string) (int, error) {
	line, err := c.exchange("$", []byte(request))
	if err != nil || line == "$-1" {
		return 0, err
	}
	return 1, c.payload(line[1:])
}

// takeBeanstalkd takes a job by two requests; the second is on stable storage.
func takeBeanstalkd(c *lineClient) (int, error) {
	line, err := c.exchange("", []byte("reserve-with-timeout 0\r\n"))
	if err != nil || line == "TIMED_OUT" {
		return 0, err
	}
	words := strings.Fields(line)
	if len(words) != 3 || words[0] != "RESERVED" {
		return 0, fmt.Errorf("answer %.80q", line)
	}
	if err := c.payload(words[2]); err != nil {
		return 0, err
	}
	_, err = c.exchange("DELETED", []byte("delete "+words[1]+"\r\n"))
	return 1, err
}

// bareVerb makes this program the peer bare-http.
const bareVerb = "serve-bare-http"

// serveBare counts jobs, forgets their bytes, and hands out others of the same kind.
func serveBare(ctx context.Context, address, bytes string) error {
	size, err := strconv.Atoi(bytes)
	if err != nil {
		return err
	}
	p := newPayloads(size)
	var submitted, consumed atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("POST /content/jobs", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		submitted.Add(1)
		w.WriteHeader(http.StatusCreated)
	})
	mux.HandleFunc("POST /consume/jobs", func(w http.ResponseWriter, _ *http.Request) {
		n := consumed.Add(1)
		if n > submitted.Load() {
			consumed.Add(-1)
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header().Set("Content-Location", fmt.Sprintf("/content/jobs/j%012d", n))
		w.Header().Set("Content-Length", strconv.Itoa(size))
		stamp, rest := p.next()
		w.Write(stamp)
		w.Write(rest)
	})
	srv := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: time.Minute}
	context.AfterFunc(ctx, func() { srv.Close() })
	if err := srv.ListenAndServe(); err != http.ErrServerClosed {
		return err
	}
	return nil
}
