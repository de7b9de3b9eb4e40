package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

// A subject is a program to measure: cutie or a peer.
type subject struct {
	name, about string
	cutie       bool
	missing     func(context.Context) string // why it cannot be measured; empty if it can
	// start starts it on the directory. If the error is not nil the server is stopped.
	start func(ctx context.Context, dir string, size int) (*server, error)
	// script does one phase, where there is no server.
	script func(ctx context.Context, dir string, l load) (result, error)
}

func cutie(name, program string, args []string) subject {
	return subject{name: name, cutie: true, start: func(ctx context.Context, dir string, size int) (*server, error) {
		address, err := freeAddress()
		if err != nil {
			return nil, err
		}
		s, err := startServer(ctx, dir, address, append([]string{program, "serve", "--home", filepath.Join(dir, "home"), "--listen", address}, args...))
		s.made = newPayloads(size)
		s.connect = connectHTTP(address, s.made)
		if err == nil {
			_, err = s.ask(ctx, http.MethodGet, "/readyz", http.StatusOK)
			s.began = time.Since(s.started)
		}
		return s, err
	}}
}

// server is a started subject.
type server struct {
	dir, url string
	connect  func(context.Context, load) (client, error)
	made     *payloads // of cutie
	started  time.Time
	began    time.Duration // until it answered
	cmd      *exec.Cmd
	end      context.CancelFunc
	exited   chan error
	output   bytes.Buffer
}

// stopTime is how long a daemon may take to stop: after a burst it has files to write.
const stopTime = 10 * time.Minute

// startServer starts a program and waits until it accepts connections. It ends with this
// process, however that ends.
func startServer(ctx context.Context, dir, address string, command []string) (*server, error) {
	s := &server{dir: dir, url: "http://" + address, exited: make(chan error, 1), started: time.Now()}
	ctx, s.end = context.WithCancel(ctx)
	s.cmd = exec.CommandContext(ctx, command[0], command[1:]...)
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.WaitDelay = &s.output, &s.output, stopTime
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	s.cmd.Cancel = func() error { return s.cmd.Process.Signal(syscall.SIGTERM) }
	if err := s.cmd.Start(); err != nil {
		s.end()
		return s, err
	}
	go func() { s.exited <- s.cmd.Wait() }()
	for {
		c, err := net.Dial("tcp", address)
		if err == nil {
			return s, c.Close()
		}
		select {
		case err := <-s.exited:
			s.exited <- err
			return s, fmt.Errorf("%s ended: %v: %s", command[0], err, strings.TrimSpace(s.output.String()))
		case <-time.After(10 * time.Millisecond):
		}
		if time.Since(s.started) > time.Minute {
			return s, errors.Join(err, s.stop())
		}
	}
}

// stop ends the program and waits for its end. Only a kill is an error.
func (s *server) stop() error {
	s.end()
	if err := <-s.exited; errors.Is(err, exec.ErrWaitDelay) {
		return fmt.Errorf("%s did not end within %v and was killed", s.cmd.Path, stopTime)
	}
	return nil
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// stat reads fields of /proc/PID/stat; see proc(5). The second one is a name of any
// characters in parentheses, so the numbers count from the third.
func (s *server) stat(fields ...int) (n []int64, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return nil, err
	}
	words := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	for _, f := range fields {
		v, err := strconv.ParseInt(string(words[f-3]), 10, 64)
		if err != nil {
			return nil, err
		}
		n = append(n, v)
	}
	return n, nil
}

// spent is the processor time of the server until now.
func (s *server) spent() (time.Duration, error) {
	const utime, stime, tick = 14, 15, time.Second / 100
	n, err := s.stat(utime, stime)
	if err != nil {
		return 0, err
	}
	return time.Duration(n[0]+n[1]) * tick, nil
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

// used is the most memory and disk of a server, in bytes.
type used struct{ rss, disk int64 }

type watcher struct {
	used
	stop chan bool
	wait sync.WaitGroup
}

// watch looks at the server each second, and at its files a twentieth of the time at most.
func (s *server) watch() *watcher {
	w := &watcher{stop: make(chan bool)}
	w.wait.Go(func() {
		var files time.Time
		for over := false; !over; {
			select {
			case <-w.stop:
				over = true
			case <-time.After(time.Second):
			}
			const pages = 24
			if n, err := s.stat(pages); err == nil {
				w.rss = max(w.rss, n[0]*int64(os.Getpagesize()))
			}
			if began := time.Now(); over || began.After(files) {
				w.disk = max(w.disk, diskUsage(s.dir))
				files = time.Now().Add(20 * time.Since(began))
			}
		}
	})
	return w
}

func (w *watcher) end() used {
	close(w.stop)
	w.wait.Wait()
	return w.used
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
