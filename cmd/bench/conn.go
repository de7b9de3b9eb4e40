package main

import (
	"bufio"
	"context"
	"net"
	"time"
)

// patience is the longest time of an exchange, or half of it: most exchanges set
// no deadline.
const patience = 60 * time.Second

// conn is the connection of one client to a server, made on demand and again
// after a loss.
type conn struct {
	network, address string

	nc       net.Conn
	r        *bufio.Reader
	out      []byte // the last small request
	deadline time.Time
	release  func() bool
}

// open makes the connection unless it is open. It ends with ctx.
func (c *conn) open(ctx context.Context) error {
	if c.nc != nil {
		return nil
	}
	d := net.Dialer{Timeout: 5 * time.Second}
	nc, err := d.DialContext(ctx, c.network, c.address)
	if err != nil {
		return err
	}
	c.nc, c.deadline = nc, time.Time{}
	c.r = bufio.NewReaderSize(nc, 32<<10)
	c.release = context.AfterFunc(ctx, func() { nc.Close() })
	return nil
}

// ready opens the connection if need be and gives an exchange its time. After
// an error of any read or write, call close: ready then connects anew.
func (c *conn) ready(ctx context.Context) error {
	if err := c.open(ctx); err != nil {
		return err
	}
	if now := time.Now(); c.deadline.Sub(now) < patience/2 {
		c.deadline = now.Add(patience)
		if err := c.nc.SetDeadline(c.deadline); err != nil {
			return err
		}
	}
	return nil
}

// smallRequest is the most bytes of a request sent from one buffer: to copy them costs
// less than to gather them in the kernel.
const smallRequest = 16 << 10

// send writes a request. After an error, call close once its answer is read.
func (c *conn) send(head []byte, body ...[]byte) error {
	c.out = append(c.out[:0], head...)
	for i, part := range body {
		if len(c.out)+len(part) > smallRequest {
			rest := append(net.Buffers{c.out}, body[i:]...)
			_, err := rest.WriteTo(c.nc)
			return err
		}
		c.out = append(c.out, part...)
	}
	_, err := c.nc.Write(c.out)
	return err
}

func (c *conn) close() error {
	if c.nc == nil {
		return nil
	}
	c.release()
	err := c.nc.Close()
	c.nc = nil
	return err
}
