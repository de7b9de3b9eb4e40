package load

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"time"
)

// patience is how long one exchange may take before the connection is given
// up. It is measured to half, so as not to set a deadline for every exchange.
const patience = 60 * time.Second

// Conn is a connection of one client to a server, made when it is needed and
// made again after it was lost. It is not safe for concurrent use.
type Conn struct {
	network, address string

	nc       net.Conn
	r        *bufio.Reader
	deadline time.Time
	release  func() bool
}

// NewConn returns a connection to an address as [net.Dial] takes it. It is not
// open yet.
func NewConn(network, address string) *Conn {
	return &Conn{network: network, address: address, r: bufio.NewReaderSize(nil, 32<<10)}
}

// Open makes the connection unless it is open. It ends with ctx.
func (c *Conn) Open(ctx context.Context) error {
	if c.nc != nil {
		return nil
	}
	d := net.Dialer{Timeout: 5 * time.Second}
	nc, err := d.DialContext(ctx, c.network, c.address)
	if err != nil {
		return err // it names the address
	}
	c.nc = nc
	c.r.Reset(nc)
	c.deadline = time.Time{}
	c.release = context.AfterFunc(ctx, func() { nc.Close() })
	return nil
}

// Send opens the connection if need be and writes one message to it. After an
// error of anything that was read or written, call Close: the connection is
// then made anew by the next Send.
func (c *Conn) Send(ctx context.Context, m *Message) error {
	if err := c.Open(ctx); err != nil {
		return err
	}
	if now := time.Now(); c.deadline.Sub(now) < patience/2 {
		c.deadline = now.Add(patience)
		if err := c.nc.SetDeadline(c.deadline); err != nil {
			return err
		}
	}
	_, err := m.WriteTo(c.nc)
	return err
}

// Reader reads what the server sends.
func (c *Conn) Reader() *bufio.Reader { return c.r }

// ReadLine returns the next line without its CR LF, valid until the next read,
// for protocols whose answers are lines.
func (c *Conn) ReadLine() ([]byte, error) {
	total := 0
	return readLine(c.r, &total)
}

// ReadEnd reads the CR LF behind a payload.
func (c *Conn) ReadEnd() error {
	line, err := c.ReadLine()
	if err == nil && len(line) > 0 {
		err = fmt.Errorf("%w: %.80q behind a payload", ErrMalformed, line)
	}
	return err
}

// Close ends the connection, if there is one.
func (c *Conn) Close() error {
	if c.nc == nil {
		return nil
	}
	c.release()
	err := c.nc.Close()
	c.nc = nil
	return err
}
