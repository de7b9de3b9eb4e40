package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"strconv"
	"sync"
)

// Seen remembers which jobs were handed out, for all clients of a run. It is
// safe for concurrent use.
type Seen struct {
	seed   maphash.Seed
	shards [64]struct {
		mu   sync.Mutex
		jobs map[string]struct{}
	}
}

// NewSeen returns an empty set.
func NewSeen() *Seen {
	s := &Seen{seed: maphash.MakeSeed()}
	for i := range s.shards {
		s.shards[i].jobs = make(map[string]struct{})
	}
	return s
}

// Add notes a job and says whether it is new.
func (s *Seen) Add(job []byte) bool {
	shard := &s.shards[maphash.Bytes(s.seed, job)%uint64(len(s.shards))]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if _, ok := shard.jobs[string(job)]; ok {
		return false
	}
	shard.jobs[string(job)] = struct{}{}
	return true
}

// Complaints about single jobs; the errors name the job.
var (
	ErrTwice  = errors.New("job was handed out twice")
	ErrNoName = errors.New("job came without Content-Location")
)

// Consumer is a client that takes jobs (Cutie 5.6): one as a bare body, or
// several as the parts of one multipart/mixed body. It reads every octet, and
// checks that no job comes twice and that payloads of ours are unchanged.
type Consumer struct {
	exchanger
	seen    *Seen
	checker *Checker
	batch   int
	name    string
	tail    string // of the head, behind the request target
	msg     Message
	asked   int // jobs that msg asks for
	parts   *bufio.Reader
}

// NewConsumer returns a client of t that takes up to batch jobs a request, 1 to
// [MaxBatch], and connects at once. All clients of a run share seen.
func NewConsumer(ctx context.Context, t Target, p *Payload, seen *Seen, batch int) (*Consumer, error) {
	c := &Consumer{
		exchanger: exchanger{conn: NewConn(t.network, t.address)},
		seen:      seen,
		checker:   p.Checker(),
		batch:     batch,
		name:      "POST " + t.base + "/consume/" + t.queue,
		tail:      " HTTP/1.1\r\nHost: " + t.host + "\r\nUser-Agent: cutie-bench\r\n" + t.authorize + "Content-Length: 0\r\nAccept: ",
	}
	if batch > 1 {
		c.parts = bufio.NewReaderSize(nil, 32<<10)
	}
	return c, c.conn.Open(ctx)
}

// Do takes up to limit jobs, but not more than its batch; [ErrDone] if none is
// pending. Complaints about single jobs are joined, see [errors.Join].
func (c *Consumer) Do(ctx context.Context, limit int) (int, error) {
	c.ask(min(limit, c.batch))
	if err := c.exchange(ctx, c.name, &c.msg, http.StatusOK, http.StatusNoContent); err != nil {
		return 0, err
	}
	if c.head.Status == http.StatusNoContent {
		if err := c.finish(c.name); err != nil {
			return 0, err
		}
		return 0, ErrDone
	}
	var n int
	var bad, err error
	if c.batch == 1 {
		n = 1
		bad, err = c.job(c.head.ContentLocation, c.head.Length)
	} else {
		n, bad, err = c.several()
	}
	if err != nil {
		c.conn.Close()
		return n, fmt.Errorf("%s: %w", c.name, err)
	}
	if err := c.finish(c.name); err != nil {
		return n, err
	}
	return n, bad
}

// Close ends the connection.
func (c *Consumer) Close() error { return c.conn.Close() }

// ask prepares the request for n jobs.
func (c *Consumer) ask(n int) {
	if c.asked == n {
		return
	}
	c.asked = n
	c.msg.Reset()
	c.msg.text = append(c.msg.text, c.name...)
	accept := "application/octet-stream"
	if c.batch > 1 {
		c.msg.text = append(c.msg.text, "?max="...)
		c.msg.text = strconv.AppendInt(c.msg.text, int64(n), 10)
		accept = "multipart/mixed"
	}
	c.msg.text = append(c.msg.text, c.tail...)
	c.msg.text = append(c.msg.text, accept...)
	c.msg.text = append(c.msg.text, "\r\n\r\n"...)
}

// job reads one bare payload.
func (c *Consumer) job(location []byte, length int64) (bad, err error) {
	bad = c.note(location)
	err = c.checker.Copy(&c.body, length)
	if errors.Is(err, ErrPayload) {
		return errors.Join(bad, fmt.Errorf("%s: %w", location, err)), nil
	}
	return bad, err
}

// note checks that the job is new.
func (c *Consumer) note(location []byte) error {
	switch {
	case len(location) == 0:
		return ErrNoName
	case !c.seen.Add(location):
		return fmt.Errorf("%s: %w", location, ErrTwice)
	}
	return nil
}

// several reads a multipart answer.
func (c *Consumer) several() (n int, bad, err error) {
	c.parts.Reset(&c.body)
	m, err := NewParts(c.parts, c.head.ContentType)
	if err != nil {
		return 0, nil, err
	}
	var all []error
	for {
		location, length, err := m.Next()
		if err != nil {
			return n, nil, err
		}
		if m.Done() {
			break
		}
		n++
		if err := c.note(location); err != nil {
			all = append(all, err)
		}
		c.checker.Reset()
		read, err := m.CopyTo(c.checker)
		if err != nil {
			return n, nil, err
		}
		if length >= 0 && read != length {
			return n, nil, fmt.Errorf("%w: part of %d octets says it has %d", ErrMalformed, read, length)
		}
		if err := c.checker.End(); err != nil {
			all = append(all, fmt.Errorf("%s: %w", location, err))
		}
	}
	if n == 0 || n > c.asked {
		return n, nil, fmt.Errorf("%w: %d jobs where 1 to %d were asked for", ErrMalformed, n, c.asked)
	}
	return n, errors.Join(all...), nil
}

// Mixed is a client that submits and takes jobs in turn.
type Mixed struct {
	Submitter *Submitter
	Consumer  *Consumer
	takes     bool // the next operation takes
}

// Do submits, and the next time takes. That nothing was there to take is
// neither an error nor an end: others take, too.
func (m *Mixed) Do(ctx context.Context, limit int) (int, error) {
	takes := m.takes
	m.takes = !takes
	if !takes {
		return m.Submitter.Do(ctx, limit)
	}
	n, err := m.Consumer.Do(ctx, limit)
	if err == ErrDone {
		err = nil
	}
	return n, err
}

// Close ends both connections.
func (m *Mixed) Close() error {
	return errors.Join(m.Submitter.Close(), m.Consumer.Close())
}
