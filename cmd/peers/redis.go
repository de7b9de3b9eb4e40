package main

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"cutie/cmd/cutie/load"
)

// redis appends every command to its log and syncs it before it answers. It
// makes no snapshots and never rewrites the log, which would disturb it.
var redis = server{
	command: func(dir, address string, _ task) ([]string, error) {
		host, port, err := net.SplitHostPort(address)
		return []string{"redis-server", "--bind", host, "--port", port, "--dir", dir, "--save", "",
			"--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0",
			"--daemonize", "no", "--loglevel", "warning"}, err
	},
	connect: func(ctx context.Context, phase, address string, p *load.Payload, client int) (load.Worker, error) {
		c := lines{conn: load.NewConn("tcp", address), source: p.Source(client), checker: p.Checker()}
		if phase == load.Submit {
			return &redisPush{c, fmt.Appendf(nil, "*3\r\n$5\r\nLPUSH\r\n$4\r\njobs\r\n$%d\r\n", p.Size())}, c.conn.Open(ctx)
		}
		return &redisPop{c}, c.conn.Open(ctx)
	},
}

type redisPush struct {
	lines
	head []byte
}

func (c *redisPush) Do(ctx context.Context, _ int) (int, error) {
	c.msg.Reset()
	c.msg.Add(c.head)
	c.msg.AddJob(c.source)
	c.msg.Add(crlf)
	line, err := c.exchange(ctx)
	if err != nil {
		return 0, err
	}
	if len(line) < 2 || line[0] != ':' {
		return 0, c.unexpected(line)
	}
	return 1, nil
}

type redisPop struct{ lines }

func (c *redisPop) Do(ctx context.Context, _ int) (int, error) {
	c.msg.Reset()
	c.msg.Add([]byte("*2\r\n$4\r\nRPOP\r\n$4\r\njobs\r\n"))
	line, err := c.exchange(ctx)
	if err != nil {
		return 0, err
	}
	if len(line) < 2 || line[0] != '$' {
		return 0, c.unexpected(line)
	}
	n, err := strconv.ParseInt(string(line[1:]), 10, 64)
	if err != nil || n < -1 {
		return 0, c.unexpected(line)
	}
	if n == -1 {
		return 0, load.ErrDone
	}
	if err := c.payload(n); err != nil {
		return 0, err
	}
	return 1, nil
}
