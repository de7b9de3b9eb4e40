package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// A server is a peer with a TCP port.
type server struct {
	// command is the program and its arguments, to keep everything in dir and
	// listen on the loopback address.
	command func(dir, address string, t task) ([]string, error)
	// connect opens one client for a phase.
	connect func(ctx context.Context, phase, address string, s *source) (worker, error)
}

// measure starts the server on nothing, runs the phases, and stops it.
func (s server) measure(ctx context.Context, parent string, t task) (runs []result, err error) {
	err = s.serve(ctx, parent, t, func(_ string, t task, connect connector) error {
		for _, phase := range t.phases {
			res, err := t.run(ctx, phase, connect(phase))
			if err != nil {
				return err
			}
			runs = append(runs, res)
		}
		return nil
	})
	return runs, err
}

// A connector returns how clients connect for a phase.
type connector func(phase string) func(ctx context.Context, client int) (worker, error)

// serve runs the server in a directory of its own while do runs; the task has its pid.
func (s server) serve(ctx context.Context, parent string, t task, do func(dir string, t task, connect connector) error) (err error) {
	dir, err := os.MkdirTemp(parent, "peer-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	address, err := freeAddress()
	if err != nil {
		return err
	}
	command, err := s.command(dir, address, t)
	if err != nil {
		return err
	}
	p := start(ctx, command)
	defer func() { err = errors.Join(err, p.stop()) }()
	if err := p.ready(ctx, address); err != nil {
		return err
	}
	made := newPayloads(t.size)
	t.pid = p.cmd.Process.Pid
	return do(dir, t, func(phase string) func(ctx context.Context, client int) (worker, error) {
		return func(ctx context.Context, client int) (worker, error) {
			return s.connect(ctx, phase, address, made.source(client))
		}
	})
}

// freeAddress finds a free loopback address.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// process is a started program, to be stopped.
type process struct {
	cmd    *exec.Cmd
	end    context.CancelFunc
	exited chan error // its end
	output tail
}

// start starts a program and tells it to end when ctx ends, at last by a kill.
func start(ctx context.Context, command []string) *process {
	return startPatient(ctx, command, 10*time.Second)
}

// startPatient is start with a time for the program to end before it is killed.
func startPatient(ctx context.Context, command []string, patience time.Duration) *process {
	p := &process{exited: make(chan error, 1)}
	ctx, p.end = context.WithCancel(ctx)
	p.cmd = exec.CommandContext(ctx, command[0], command[1:]...)
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.WaitDelay = &p.output, &p.output, patience
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	err := p.cmd.Start()
	go func() {
		if err == nil {
			err = p.cmd.Wait()
		}
		p.exited <- err
	}()
	return p
}

// ready waits until the program accepts connections.
func (p *process) ready(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case err := <-p.exited:
			p.exited <- err
			return fmt.Errorf("%s ended at once: %v: %s", p.cmd.Path, err, p.output.text())
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", p.cmd.Path, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// stop ends the program and waits for its end. Only a kill is an error.
func (p *process) stop() error {
	p.end()
	if err := <-p.exited; errors.Is(err, exec.ErrWaitDelay) {
		return fmt.Errorf("%s: did not end within %v, killed", p.cmd.Path, p.cmd.WaitDelay)
	}
	return nil
}

// tail keeps the last bytes of the output of a program: the reason of its end.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	t.b = t.b[max(len(t.b)-2048, 0):]
	return len(p), nil
}

func (t *tail) text() string { return strings.TrimSpace(string(t.b)) }
