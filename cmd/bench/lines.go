package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
)

// beanstalkd syncs its log before it answers (-f0). A job is taken by two
// requests; the second must be on stable storage.
var beanstalkd = server{
	command: func(dir, address string, t task) ([]string, error) {
		host, port, err := net.SplitHostPort(address)
		largest := strconv.Itoa(max(4<<20, t.size))
		return []string{"beanstalkd", "-b", dir, "-f0", "-l", host, "-p", port, "-z", largest}, err
	},
	connect: connectLines(
		func(ctx context.Context, c *lines) (int, error) {
			words, err := c.exchange(ctx, c.job(fmt.Sprintf("put 0 0 3600 %d", c.source.size))...)
			return c.moved(err, words, len(words) == 2 && words[0] == "INSERTED")
		},
		func(ctx context.Context, c *lines) (int, error) {
			words, err := c.exchange(ctx, []byte("reserve-with-timeout 0\r\n"))
			if slices.Equal(words, []string{"TIMED_OUT"}) {
				return 0, errDone
			}
			if err != nil || len(words) != 3 || words[0] != "RESERVED" {
				return c.moved(err, words, false)
			}
			bad, err := c.payload(words[2])
			if err != nil {
				return 0, err
			}
			words, err = c.exchange(ctx, []byte("delete "+words[1]+"\r\n"))
			if err == nil && len(words) == 1 && words[0] == "DELETED" {
				return 1, bad
			}
			return c.moved(err, words, false)
		}),
}

// redis appends every command to its log and syncs it before it answers. It
// makes no snapshots and never rewrites the log, because both would disturb it.
var redis = server{
	command: func(dir, address string, _ task) ([]string, error) {
		host, port, err := net.SplitHostPort(address)
		return []string{"redis-server", "--bind", host, "--port", port, "--dir", dir, "--save", "",
			"--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0",
			"--daemonize", "no", "--loglevel", "warning"}, err
	},
	connect: connectLines(
		func(ctx context.Context, c *lines) (int, error) {
			words, err := c.exchange(ctx, c.job(fmt.Sprintf("*3\r\n$5\r\nLPUSH\r\n$4\r\njobs\r\n$%d", c.source.size))...)
			return c.moved(err, words, len(words) == 1 && words[0][0] == ':')
		},
		func(ctx context.Context, c *lines) (int, error) {
			words, err := c.exchange(ctx, []byte("*2\r\n$4\r\nRPOP\r\n$4\r\njobs\r\n"))
			if slices.Equal(words, []string{"$-1"}) {
				return 0, errDone
			}
			if err != nil || len(words) != 1 || words[0][0] != '$' {
				return c.moved(err, words, false)
			}
			bad, err := c.payload(words[0][1:])
			if err != nil {
				return 0, err
			}
			return 1, bad
		}),
}

// lines is a client of a protocol of lines, with one operation.
type lines struct {
	conn
	source *source
	op     func(context.Context, *lines) (int, error)
}

// connectLines returns the connect of a server with the two operations.
func connectLines(put, take func(context.Context, *lines) (int, error)) func(context.Context, string, string, *source) (worker, error) {
	return func(ctx context.Context, phase, address string, s *source) (worker, error) {
		c := &lines{conn{network: "tcp", address: address}, s, take}
		switch phase {
		case submit:
			c.op = put
		case mixed:
			c.op = inTurn(put, take)
		}
		return c, c.open(ctx)
	}
}

// inTurn returns an operation to put and take in turn. An empty queue is no end,
// because other clients take, too.
func inTurn(put, take func(context.Context, *lines) (int, error)) func(context.Context, *lines) (int, error) {
	taken := true
	return func(ctx context.Context, c *lines) (int, error) {
		if taken = !taken; !taken {
			return put(ctx, c)
		}
		n, err := take(ctx, c)
		if err == errDone {
			err = nil
		}
		return n, err
	}
}

func (c *lines) do(ctx context.Context, _ int) (int, error) { return c.op(ctx, c) }

// job returns a request with the next payload after a line.
func (c *lines) job(line string) [][]byte {
	stamp, rest := c.source.next()
	return [][]byte{[]byte(line + "\r\n"), stamp, rest, []byte("\r\n")}
}

// exchange sends a request and returns the words of the first line of the
// answer. An error closes the connection.
func (c *lines) exchange(ctx context.Context, request ...[]byte) ([]string, error) {
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	err := c.send(nil, request...)
	var line string
	if err == nil {
		line, err = c.r.ReadString('\n')
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return strings.Fields(line), nil
}

// payload reads and checks a payload and the line end after it. bad is a
// complaint about the payload alone.
func (c *lines) payload(length string) (bad, err error) {
	n, err := strconv.ParseInt(length, 10, 64)
	var end [2]byte
	if err == nil && n >= 0 {
		bad = c.source.check(io.LimitReader(c.r, n))
		_, err = io.ReadFull(c.r, end[:])
	}
	if err != nil || string(end[:]) != "\r\n" {
		c.close()
		return nil, fmt.Errorf("payload of %.20q bytes before %q: %w", length, end[:], io.ErrUnexpectedEOF)
	}
	return bad, nil
}

// moved returns the end of an operation on one job. After a wrong answer the
// connection is closed, because more may follow on it.
func (c *lines) moved(err error, words []string, ok bool) (int, error) {
	if err == nil && !ok {
		c.close()
		err = fmt.Errorf("answer %.80q", words)
	}
	if err != nil {
		return 0, err
	}
	return 1, nil
}
