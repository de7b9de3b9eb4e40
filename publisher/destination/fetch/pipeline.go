package fetch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"time"
)

// Limits of a [Pipeline].
const (
	MaxAhead  = 16       // requests before the first answer
	MaxBodies = 64 << 10 // octets of their answers, without heads

	maxAsked   = 16 << 10 // octets of requests; they fit into the buffers of a connection
	maxHead    = 64 << 10 // octets of the head of an answer
	maxInterim = 8        // answers with 1xx before the one with the resource
)

// A Pipeline gets small resources of the Source over a connection of its own. It makes
// several requests before it reads the first answer (RFC 9112, 9.3.2), so that both sides
// have fewer calls and wake-ups for each. A connection begins with one request. The more
// answers the Client has had, the more requests are under way: less than one in a hundred
// of them, so that an end of the process costs no more than this.
//
// A request without an answer is made again alone, as [Client.Get] does. Where this happens
// often, the Client pipelines no more.
//
// A Pipeline is for one goroutine.
type Pipeline struct {
	c      *Client
	conn   net.Conn // nil: none is open
	in     *bufio.Reader
	left   int64 // octets that may still be read for an answer
	served int   // answers over conn
	most   int   // answers after which the server ends a connection; 0: not known
	out    []byte
	errs   []error
}

// Pipeline returns a Pipeline to the Source. It connects when it has requests.
func (c *Client) Pipeline() *Pipeline { return &Pipeline{c: c} }

// Close ends the connection.
func (p *Pipeline) Close() {
	if p.conn != nil {
		p.conn.Close()
		p.conn, p.in = nil, nil
	}
}

// Distrust ends all pipelines of the Client: the server gave an answer to another request.
func (p *Pipeline) Distrust() { p.c.route.distrusted.Store(true) }

// errUnanswered says that a request is to be made again.
var errUnanswered = errors.New("no answer")

// Get makes requests of Takes, and gives take the answer to each, in their order; the
// Answers have no URL. It returns their errors, as Client.Get does, for use until the next
// call. Requests tried again come after the others.
func (p *Pipeline) Get(ctx context.Context, all []Request, take func(i int, a *Answer) error) []error {
	p.errs = slices.Grow(p.errs[:0], len(all))[:len(all)]
	for i := range p.errs {
		p.errs[i] = errUnanswered
	}
	end, err := p.c.begin(ctx, &Request{})
	if err == nil {
		defer end()
		for done, more := 0, true; more && done < len(all); {
			var n int
			n, more = p.exchange(ctx, all[done:], p.errs[done:], func(i int, a *Answer) error { return take(done+i, a) })
			done += n
		}
	}
	for i, err := range p.errs {
		takeOne := func(a *Answer) error { return take(i, a) }
		if err == errUnanswered {
			if err = ctx.Err(); err == nil {
				err = p.c.once(ctx, &all[i], takeOne)
			}
		}
		p.errs[i] = p.c.tries(ctx, &all[i], takeOne, err)
	}
	return p.errs
}

// exchange makes the first requests and takes their answers. It returns how many were
// answered, and whether it may be called for the rest.
func (p *Pipeline) exchange(ctx context.Context, all []Request, errs []error, take func(i int, a *Answer) error) (done int, more bool) {
	fresh := p.conn == nil
	if fresh && p.connect(ctx) != nil {
		return 0, p.surprised(false)
	}
	conn := p.conn
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if p.in.Buffered() > 0 { // an answer nobody asked for
		p.Close()
		return 0, p.surprised(false)
	}
	n := p.ask(all)
	p.c.made.Add(int64(n))
	conn.SetDeadline(time.Now().Add(p.c.o.Timeout))
	if _, err := conn.Write(p.out); err != nil {
		p.Close()
		return 0, p.surprised(!fresh)
	}
	more = true
	for done < n {
		if done > 0 {
			conn.SetReadDeadline(time.Now().Add(p.c.o.Timeout))
		}
		var on outlook
		on, errs[done] = p.answer(ctx, &all[done], func(a *Answer) error { return take(done, a) })
		if errs[done] == errUnanswered && on != lasts {
			p.Close()
			return done, p.surprised(done == 0 && !fresh && on == ended) // perhaps it was idle for too long
		}
		done++
		p.served++
		p.c.route.served.Add(1)
		switch {
		case on == ended && p.served > 1:
			p.most = p.served
			p.Close()
			return done, more
		case on != lasts:
			p.Close()
			return done, p.surprised(false)
		}
		if _, again := p.c.pause(errs[done-1], 1); again || errs[done-1] == errUnanswered {
			more = p.surprised(false) // the answers under way are taken
		}
	}
	return done, more
}

// surprised counts a surprise, and returns whether the pipeline may go on after one that
// sometimes happens.
func (p *Pipeline) surprised(happens bool) bool {
	p.c.route.odd.Add(1)
	return happens && p.c.route.trusted()
}

func (p *Pipeline) connect(ctx context.Context) error {
	d := net.Dialer{Timeout: min(p.c.o.Timeout, 30*time.Second)}
	conn, err := d.DialContext(ctx, "tcp", p.c.route.address)
	if err != nil {
		return err
	}
	p.conn, p.in, p.served = conn, bufio.NewReaderSize(reader{p}, 32<<10), 0
	return nil
}

// ask writes the first requests to out, and returns how many.
func (p *Pipeline) ask(all []Request) (n int) {
	to, bodies := p.c.route, int64(0)
	p.out = p.out[:0]
	ahead := 1
	if p.served > 0 {
		ahead = to.ahead()
	}
	for n < min(len(all), ahead) && (p.most == 0 || n == 0 || p.served+n < p.most) {
		target := all[n].URI[len(to.origin):]
		bodies += all[n].Length
		if n > 0 && (bodies > MaxBodies || len(p.out)+len(target)+len(to.head) > maxAsked) {
			break
		}
		p.out = append(append(append(p.out, "GET "...), target...), to.head...)
		n++
	}
	return n
}

// An outlook is how a connection is after an answer.
type outlook int

const (
	lasts  outlook = iota
	ended          // by the server, as it may
	broken         // no more use is made of it
)

// answer reads an answer and gives it to take. With errUnanswered it did not get one, but
// perhaps the connection has the next ones.
func (p *Pipeline) answer(ctx context.Context, r *Request, take func(*Answer) error) (outlook, error) {
	p.left = maxHead + MaxBodies
	if _, err := p.in.Peek(1); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return ended, errUnanswered
	}
	resp, err := http.ReadResponse(p.in, nil)
	for i := 0; err == nil && resp.StatusCode/100 == 1 && resp.StatusCode != http.StatusSwitchingProtocols && i < maxInterim; i++ {
		resp, err = http.ReadResponse(p.in, nil)
	}
	if err != nil || resp.StatusCode/100 == 1 {
		return broken, errUnanswered
	}
	b := &body{client: p.c, ctx: ctx, in: resp.Body}
	if resp.StatusCode != http.StatusOK {
		io.CopyN(io.Discard, b, 4<<10)
	}
	if resp.StatusCode/100 == 3 {
		err = errUnanswered // Client.Get follows it
	} else if resp.StatusCode != http.StatusOK {
		err = &StatusError{URI: r.URI, Status: resp.StatusCode, after: retryAfter(resp.Header)}
	} else if err = take(&Answer{Status: resp.StatusCode, Header: resp.Header, Body: b}); err != nil && b.err != nil && b.err != io.EOF {
		if errors.Is(b.err, os.ErrDeadlineExceeded) {
			err = ErrSlow
		}
		return broken, passing{fmt.Errorf("%s: %w", r.URI, err)}
	}
	if b.err == nil {
		b.Read(make([]byte, 1))
	}
	switch {
	case b.err != io.EOF || p.left <= 0:
		return broken, err
	case resp.Close || !resp.ProtoAtLeast(1, 1):
		return ended, err
	}
	return lasts, err
}

// reader is what answers are read from. One that is too long ends.
type reader struct{ p *Pipeline }

// Read is [io.Reader].
func (r reader) Read(b []byte) (int, error) {
	if r.p.left <= 0 {
		return 0, ErrTooLong
	}
	n, err := r.p.conn.Read(b[:min(int64(len(b)), r.p.left)])
	r.p.left -= int64(n)
	return n, err
}
