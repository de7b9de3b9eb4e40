package load

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
)

// MaxBatch is the most jobs that one request moves.
const MaxBatch = 10000

// boundary parts a batch. Payloads are random octets of ours, so it never
// occurs in one.
const boundary = "cutie-load-3f1c8a6e5d0b4972"

// partHead stands before each payload of a batch, the number of the part after
// it and partEnd behind the number.
const (
	partHead  = "--" + boundary + "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"job-"
	partEnd   = "\"\r\nContent-Type: application/octet-stream\r\n\r\n"
	batchEnd  = "--" + boundary + "--\r\n"
	numberLen = 5
)

// Submitter is a client that submits jobs (Cutie 5.4): one as a bare body, or
// several as the file parts of one multipart/form-data body.
type Submitter struct {
	exchanger
	source  *Source
	batch   int
	name    string
	request string // head up to the media type
	msg     Message
}

// NewSubmitter returns client number client of t, which submits batch jobs a
// request, 1 to [MaxBatch], and connects at once.
func NewSubmitter(ctx context.Context, t Target, p *Payload, client, batch int) (*Submitter, error) {
	s := &Submitter{
		exchanger: exchanger{conn: NewConn(t.network, t.address)},
		source:    p.Source(client),
		batch:     batch,
		name:      "POST " + t.base + "/content/" + t.queue,
	}
	s.request = s.name + " HTTP/1.1\r\nHost: " + t.host + "\r\nUser-Agent: cutie-bench\r\nAccept: text/x-anvl\r\n" + t.authorize
	if perJob := p.Size() + len(partHead) + numberLen + len(partEnd) + 2; batch > math.MaxInt/perJob {
		return nil, fmt.Errorf("batch of %d jobs of %d octets: too large", batch, p.Size())
	}
	return s, s.conn.Open(ctx)
}

// Do submits up to limit jobs, but not more than its batch, all or none.
func (s *Submitter) Do(ctx context.Context, limit int) (int, error) {
	n := min(limit, s.batch)
	if s.batch == 1 {
		s.single()
	} else {
		s.multipart(n)
	}
	if err := s.exchange(ctx, s.name, &s.msg, http.StatusCreated); err != nil {
		return 0, err
	}
	return n, s.finish(s.name)
}

// Close ends the connection.
func (s *Submitter) Close() error { return s.conn.Close() }

func (s *Submitter) single() {
	s.msg.Reset()
	s.msg.text = append(s.msg.text, s.request...)
	s.msg.text = append(s.msg.text, "Content-Type: application/octet-stream\r\nContent-Length: "...)
	s.msg.text = strconv.AppendInt(s.msg.text, int64(s.source.p.size), 10)
	s.msg.text = append(s.msg.text, "\r\n\r\n"...)
	s.msg.AddJob(s.source)
}

func (s *Submitter) multipart(n int) {
	perJob := len(partHead) + numberLen + len(partEnd) + s.source.p.size + len("\r\n")
	s.msg.Reset()
	s.msg.text = append(s.msg.text, s.request...)
	s.msg.text = append(s.msg.text, "Content-Type: multipart/form-data; boundary="+boundary+"\r\nContent-Length: "...)
	s.msg.text = strconv.AppendInt(s.msg.text, int64(n)*int64(perJob)+int64(len(batchEnd)), 10)
	s.msg.text = append(s.msg.text, "\r\n\r\n"...)
	for i := range n {
		s.msg.text = append(s.msg.text, partHead...)
		for digit := 10000; digit > 0; digit /= 10 {
			s.msg.text = append(s.msg.text, byte('0'+i/digit%10))
		}
		s.msg.text = append(s.msg.text, partEnd...)
		s.msg.AddJob(s.source)
		s.msg.text = append(s.msg.text, "\r\n"...)
	}
	s.msg.text = append(s.msg.text, batchEnd...)
}
