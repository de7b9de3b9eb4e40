package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strconv"

	"cutie/cmd/cutie/load"
)

// beanstalkd syncs its log before it answers (-f0).
var beanstalkd = server{
	command: func(dir, address string, t task) ([]string, error) {
		host, port, err := net.SplitHostPort(address)
		largest := strconv.Itoa(max(4<<20, t.size))
		return []string{"beanstalkd", "-b", dir, "-f0", "-l", host, "-p", port, "-z", largest}, err
	},
	connect: func(ctx context.Context, phase, address string, p *load.Payload, client int) (load.Worker, error) {
		c := lines{conn: load.NewConn("tcp", address), source: p.Source(client), checker: p.Checker()}
		if phase == load.Submit {
			return &beanstalkPut{c, fmt.Appendf(nil, "put 0 0 3600 %d\r\n", p.Size())}, c.conn.Open(ctx)
		}
		return &beanstalkTake{c}, c.conn.Open(ctx)
	},
}

// lines is a client of a protocol of lines.
type lines struct {
	conn    *load.Conn
	source  *load.Source
	checker *load.Checker
	msg     load.Message
}

func (c *lines) Close() error { return c.conn.Close() }

// exchange sends what is in c.msg and returns the first line of the answer.
func (c *lines) exchange(ctx context.Context) ([]byte, error) {
	if err := c.conn.Send(ctx, &c.msg); err != nil {
		c.conn.Close()
		return nil, err
	}
	line, err := c.conn.ReadLine()
	if err != nil {
		c.conn.Close()
	}
	return line, err
}

// payload reads and checks n octets and the line end behind them.
func (c *lines) payload(n int64) error {
	bad := c.checker.Copy(c.conn.Reader(), n)
	if err := c.conn.ReadEnd(); err != nil {
		c.conn.Close()
		return err
	}
	return bad
}

// unexpected is the error for an answer that is not what it should be. What
// follows on the connection is unknown.
func (c *lines) unexpected(line []byte) error {
	c.conn.Close()
	return fmt.Errorf("answer %.80q", line)
}

var crlf = []byte("\r\n")

type beanstalkPut struct {
	lines
	head []byte
}

func (c *beanstalkPut) Do(ctx context.Context, _ int) (int, error) {
	c.msg.Reset()
	c.msg.Add(c.head)
	c.msg.AddJob(c.source)
	c.msg.Add(crlf)
	line, err := c.exchange(ctx)
	if err != nil {
		return 0, err
	}
	if !bytes.HasPrefix(line, []byte("INSERTED ")) {
		return 0, c.unexpected(line)
	}
	return 1, nil
}

// beanstalkTake reserves a job and deletes it: two requests, of which the
// second is what must be on stable storage.
type beanstalkTake struct{ lines }

func (c *beanstalkTake) Do(ctx context.Context, _ int) (int, error) {
	c.msg.Reset()
	c.msg.Add([]byte("reserve-with-timeout 0\r\n"))
	line, err := c.exchange(ctx)
	if err != nil {
		return 0, err
	}
	if string(line) == "TIMED_OUT" {
		return 0, load.ErrDone
	}
	c.msg.Reset()
	f := bytes.Fields(line)
	if len(f) != 3 || string(f[0]) != "RESERVED" {
		return 0, c.unexpected(line)
	}
	n, err := strconv.ParseInt(string(f[2]), 10, 64)
	if err != nil || n < 0 {
		return 0, c.unexpected(line)
	}
	c.msg.Add([]byte("delete "), f[1], crlf)
	if err := c.payload(n); err != nil {
		return 0, err
	}
	if line, err = c.exchange(ctx); err != nil {
		return 0, err
	}
	if string(line) != "DELETED" {
		return 0, c.unexpected(line)
	}
	return 1, nil
}
