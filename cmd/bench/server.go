package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A subject is a server to measure: cutie or a peer.
type subject struct {
	name, about string
	cutie       bool
	slow        bool     // a fifth of the jobs are enough
	try         []string // a command that fails where the peer is not installed
	command     func(dir, host, port string, size int) []string
	client      func(conn, *payloads, load) client
}

func cutie(name, program string, args []string) subject {
	return subject{name: name, cutie: true, client: speakHTTP, command: func(dir, host, port string, _ int) []string {
		return append([]string{program, "serve", "--home", filepath.Join(dir, "home"), "--listen", host + ":" + port}, args...)
	}}
}

// server is a started subject.
type server struct {
	subject
	dir, address string
	made         *payloads
	started      time.Time
	began        time.Duration // until it answered
	cmd          *exec.Cmd
	end          context.CancelFunc
	exited       chan error
	output       bytes.Buffer
}

// stopTime is how long a daemon may take to stop: after a burst it has files to write.
const stopTime = 10 * time.Minute

// with starts the subject on a directory while do runs. It ends with this process, however
// that ends.
func (s subject) with(ctx context.Context, dir string, size int, do func(*server) error) error {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := free.Addr().String()
	host, port, err := net.SplitHostPort(address)
	if err = errors.Join(err, free.Close()); err != nil {
		return err
	}
	srv := &server{subject: s, dir: dir, address: address, made: newPayloads(size), exited: make(chan error, 1)}
	command := s.command(dir, host, port, size)
	ctx, srv.end = context.WithCancel(ctx)
	defer srv.end()
	srv.cmd = exec.CommandContext(ctx, command[0], command[1:]...)
	srv.cmd.Stdout, srv.cmd.Stderr, srv.cmd.WaitDelay = &srv.output, &srv.output, stopTime
	srv.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	srv.cmd.Cancel = func() error { return srv.cmd.Process.Signal(syscall.SIGTERM) }
	srv.started = time.Now()
	if err := srv.cmd.Start(); err != nil {
		return err
	}
	go func() { srv.exited <- srv.cmd.Wait() }()
	if err = srv.ready(ctx); err == nil {
		srv.began = srv.sinceStart()
		err = do(srv)
	}
	srv.end()
	if errors.Is(<-srv.exited, exec.ErrWaitDelay) {
		err = errors.Join(err, fmt.Errorf("%s did not end within %v and was killed", command[0], stopTime))
	}
	return err
}

// ready waits until the server accepts connections and, if it is cutie, says that it is ready.
func (s *server) ready(ctx context.Context) error {
	for range time.Minute / (10 * time.Millisecond) {
		if c, err := net.Dial("tcp", s.address); err == nil {
			if err := c.Close(); err != nil || !s.cutie {
				return err
			}
			_, err := s.ask(ctx, http.MethodGet, "/readyz", http.StatusOK)
			return err
		}
		select {
		case err := <-s.exited:
			s.exited <- err
			return fmt.Errorf("%s ended: %v: %s", s.cmd.Path, err, strings.TrimSpace(s.output.String()))
		case <-time.After(10 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s accepts no connection: %s", s.cmd.Path, strings.TrimSpace(s.output.String()))
}

func (s *server) sinceStart() time.Duration { return time.Since(s.started) }

// connect makes a client of a load.
func (s *server) connect(ctx context.Context, l load) (client, error) {
	c, err := dial(ctx, s.address)
	return s.client(c, s.made, l), err
}

// ask sends cutie a request, with a payload if it submits, and returns the body.
func (s *server) ask(ctx context.Context, method, path string, want int) ([]byte, error) {
	var body io.Reader
	if want == http.StatusCreated {
		stamp, rest := s.made.next()
		body = bytes.NewReader(append(stamp, rest...))
	}
	ctx, done := context.WithTimeout(ctx, patience)
	defer done()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+s.address+path, body)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != want {
		err = fmt.Errorf("%s %s: %s: %.200s", method, path, answer.Status, text)
	}
	return text, err
}

// stat reads a field of /proc/PID/stat; see proc(5). The second one is a name of any
// characters in parentheses, so the numbers count from the third.
func (s *server) stat(field int) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])[field-3]), 10, 64)
}

// spent is the processor time of the server until now.
func (s *server) spent() (time.Duration, error) {
	const utime, stime, tick = 14, 15, time.Second / 100
	user, err := s.stat(utime)
	system, err2 := s.stat(stime)
	return time.Duration(user+system) * tick, errors.Join(err, err2)
}

// settle waits until the server is idle, for a minute at most.
func (s *server) settle(ctx context.Context) error {
	const look = 500 * time.Millisecond
	for range time.Minute / look {
		before, err := s.spent()
		if err == nil {
			err = sleep(ctx, look)
		}
		if err != nil {
			return err
		}
		if after, err := s.spent(); err != nil || after-before <= 10*time.Millisecond {
			return err
		}
	}
	return nil
}

// watch looks at the server each second, and at its files a twentieth of the time at most,
// until end is called: that returns the most memory and disk, in bytes.
func (s *server) watch() (end func() (rss, disk int64)) {
	var rss, disk int64
	var watcher sync.WaitGroup
	stop := make(chan bool)
	watcher.Go(func() {
		var files time.Time
		for over := false; !over; {
			select {
			case <-stop:
				over = true
			case <-time.After(time.Second):
			}
			const pages = 24
			if n, err := s.stat(pages); err == nil {
				rss = max(rss, n*int64(os.Getpagesize()))
			}
			if began := time.Now(); over || began.After(files) {
				disk = max(disk, diskUsage(s.dir))
				files = time.Now().Add(20 * time.Since(began))
			}
		}
	})
	return func() (int64, int64) {
		close(stop)
		watcher.Wait()
		return rss, disk
	}
}

// diskUsage is the space of the files below dir. They come and go meanwhile.
func diskUsage(dir string) (bytes int64) {
	filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := e.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				bytes += 512 * st.Blocks
			}
		}
		return nil
	})
	return bytes
}
