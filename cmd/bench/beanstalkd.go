package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
)

// beanstalkd syncs its log before it answers (-f0).
var beanstalkd = server{
	command: func(dir, address string, t task) ([]string, error) {
		host, port, err := net.SplitHostPort(address)
		largest := strconv.Itoa(max(4<<20, t.size))
		return []string{"beanstalkd", "-b", dir, "-f0", "-l", host, "-p", port, "-z", largest}, err
	},
	connect: func(ctx context.Context, phase, address string, s *source) (worker, error) {
		c, err := newLines(ctx, address, s)
		if phase == submit {
			return beanstalkPut{c}, err
		}
		return beanstalkTake{c}, err
	},
}

type beanstalkPut struct{ *lines }

func (c beanstalkPut) do(ctx context.Context, _ int) (int, error) {
	stamp, rest := c.source.next()
	words, err := c.exchange(ctx, fmt.Appendf(nil, "put 0 0 3600 %d\r\n", c.source.size), stamp, rest, []byte("\r\n"))
	if err != nil {
		return 0, err
	}
	if len(words) != 2 || words[0] != "INSERTED" {
		return 0, c.unexpected(words)
	}
	return 1, nil
}

// beanstalkTake reserves a job and deletes it: two requests. The second must be
// on stable storage.
type beanstalkTake struct{ *lines }

func (c beanstalkTake) do(ctx context.Context, _ int) (int, error) {
	words, err := c.exchange(ctx, []byte("reserve-with-timeout 0\r\n"))
	if err != nil {
		return 0, err
	}
	if len(words) == 1 && words[0] == "TIMED_OUT" {
		return 0, errDone
	}
	if len(words) != 3 || words[0] != "RESERVED" {
		return 0, c.unexpected(words)
	}
	n, err := strconv.ParseInt(words[2], 10, 64)
	if err != nil || n < 0 {
		return 0, c.unexpected(words)
	}
	id := words[1]
	if err := c.payload(n); err != nil {
		return 0, err
	}
	if words, err = c.exchange(ctx, []byte("delete "+id+"\r\n")); err != nil {
		return 0, err
	}
	if len(words) != 1 || words[0] != "DELETED" {
		return 0, c.unexpected(words)
	}
	return 1, nil
}
