package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// peers are the other servers to measure.
var peers = []subject{
	{name: "beanstalkd", about: "beanstalkd -f0: put; reserve and delete", missing: needs("beanstalkd"), start: startBeanstalkd},
	{name: "redis", about: "redis-server, appendfsync always: LPUSH; RPOP", missing: needs("redis-server"), start: startRedis},
	{name: "dirq", about: "python3-dirq, files and directories synced: add; lock, get, remove", missing: missingDirq, script: runDirq},
	{name: "bare-http", about: "an HTTP server that stores nothing: the most that HTTP reaches here", missing: needs(), start: startBare},
}

func peerNames() (names []string) {
	for _, p := range peers {
		names = append(names, p.name)
	}
	return names
}

func needs(programs ...string) func(context.Context) string {
	return func(context.Context) string {
		for _, name := range programs {
			if _, err := exec.LookPath(name); err != nil {
				return name + " is not installed"
			}
		}
		return ""
	}
}

func startBeanstalkd(ctx context.Context, dir string, size int) (*server, error) {
	return startLines(ctx, dir, size, putBeanstalkd, takeBeanstalkd, func(host, port string) []string {
		return []string{"beanstalkd", "-b", dir, "-f0", "-l", host, "-p", port, "-z", strconv.Itoa(max(4<<20, size))}
	})
}

func putBeanstalkd(c *lineClient) error {
	stamp, rest := c.next()
	head := fmt.Appendf(nil, "put 0 0 3600 %d\r\n", c.size)
	_, err := c.exchange("INSERTED", head, stamp, rest, []byte("\r\n"))
	return err
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

// startRedis lets Redis sync its log before it answers, and rewrite nothing meanwhile.
func startRedis(ctx context.Context, dir string, size int) (*server, error) {
	return startLines(ctx, dir, size, putRedis, takeRedis, func(host, port string) []string {
		return []string{"redis-server", "--bind", host, "--port", port, "--dir", dir, "--save", "", "--appendonly", "yes",
			"--appendfsync", "always", "--auto-aof-rewrite-percentage", "0", "--daemonize", "no", "--loglevel", "warning"}
	})
}

func putRedis(c *lineClient) error {
	stamp, rest := c.next()
	head := fmt.Appendf(nil, "*3\r\n$5\r\nLPUSH\r\n$4\r\njobs\r\n$%d\r\n", c.size)
	_, err := c.exchange(":", head, stamp, rest, []byte("\r\n"))
	return err
}

func takeRedis(c *lineClient) (int, error) {
	line, err := c.exchange("$", []byte("*2\r\n$4\r\nRPOP\r\n$4\r\njobs\r\n"))
	if err != nil || line == "$-1" {
		return 0, err
	}
	return 1, c.payload(line[1:])
}

// lineClient speaks a protocol of lines.
type lineClient struct {
	conn
	*payloads
	put func(*lineClient) error
	get func(*lineClient) (int, error)
	buf []byte
}

func startLines(ctx context.Context, dir string, size int, put func(*lineClient) error, get func(*lineClient) (int, error),
	command func(host, port string) []string) (*server, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	s, err := startServer(ctx, dir, address, command(host, port))
	p := newPayloads(size)
	s.connect = func(ctx context.Context, _ load) (client, error) {
		c, err := dial(ctx, address)
		return &lineClient{conn: c, payloads: p, put: put, get: get}, err
	}
	return s, err
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

// bareVerb makes this program the peer bare-http.
const bareVerb = "serve-bare-http"

func startBare(ctx context.Context, dir string, size int) (*server, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s, err := startServer(ctx, dir, address, []string{self, bareVerb, address, strconv.Itoa(size)})
	s.connect = connectHTTP(address, newPayloads(size))
	return s, err
}

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

//go:embed testdata/synced_queue.py
var dirqScript []byte

const python = "/usr/bin/python3" // the module is a package of the system

func missingDirq(ctx context.Context) string {
	if exec.CommandContext(ctx, python, "-c", "import dirq.QueueSimple").Run() != nil {
		return "python3-dirq is not installed"
	}
	return ""
}

// runDirq lets worker processes do a phase; there is no server. It is slow, and its rate
// does not depend on the number of jobs.
func runDirq(ctx context.Context, dir string, l load) (result, error) {
	script := filepath.Join(dir, "synced_queue.py")
	if err := os.WriteFile(script, dirqScript, 0o600); err != nil {
		return result{}, err
	}
	jobs := max(l.jobs/5, int64(l.clients))
	cmd := exec.CommandContext(ctx, python, script, l.phase, filepath.Join(dir, "queue"),
		strconv.Itoa(l.clients), strconv.FormatInt(jobs, 10), strconv.Itoa(l.size))
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay, cmd.SysProcAttr = 10*time.Second, &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	out, err := cmd.Output()
	r := result{setting: setting{Phase: l.phase, Size: l.size, Clients: l.clients, Batch: 1}}
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	r.Rate = float64(r.Jobs) / max(r.Seconds, 1e-9)
	r.expect(jobs)
	return r, err
}
