package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
)

// redis appends every command to its log and syncs it before it answers. It
// makes no snapshots and never rewrites the log, because both would disturb it.
var redis = server{
	command: func(dir, address string, _ task) ([]string, error) {
		host, port, err := net.SplitHostPort(address)
		return []string{"redis-server", "--bind", host, "--port", port, "--dir", dir, "--save", "",
			"--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0",
			"--daemonize", "no", "--loglevel", "warning"}, err
	},
	connect: func(ctx context.Context, phase, address string, s *source) (worker, error) {
		c, err := newLines(ctx, address, s)
		if phase == submit {
			return redisPush{c}, err
		}
		return redisPop{c}, err
	},
}

type redisPush struct{ *lines }

func (c redisPush) do(ctx context.Context, _ int) (int, error) {
	stamp, rest := c.source.next()
	head := fmt.Appendf(nil, "*3\r\n$5\r\nLPUSH\r\n$4\r\njobs\r\n$%d\r\n", c.source.size)
	words, err := c.exchange(ctx, head, stamp, rest, []byte("\r\n"))
	if err != nil {
		return 0, err
	}
	if len(words) != 1 || words[0][0] != ':' {
		return 0, c.unexpected(words)
	}
	return 1, nil
}

type redisPop struct{ *lines }

func (c redisPop) do(ctx context.Context, _ int) (int, error) {
	words, err := c.exchange(ctx, []byte("*2\r\n$4\r\nRPOP\r\n$4\r\njobs\r\n"))
	if err != nil {
		return 0, err
	}
	if len(words) != 1 || words[0][0] != '$' {
		return 0, c.unexpected(words)
	}
	n, err := strconv.ParseInt(words[0][1:], 10, 64)
	if err != nil || n < -1 {
		return 0, c.unexpected(words)
	}
	if n == -1 {
		return 0, errDone
	}
	if err := c.payload(n); err != nil {
		return 0, err
	}
	return 1, nil
}
