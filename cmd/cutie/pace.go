package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"time"
)

// A pace is what a client must keep up with in taking an answer. One that
// takes less is holding a connection rather than using it, and is cut off. What
// a client sends is watched by who reads it.
type pace struct {
	take    time.Duration // for any answer
	slowest int64         // octets a second that a long answer may take besides
}

var defaultPace = pace{take: 10 * time.Minute, slowest: 1 << 10}

// atSlowest is how long n octets may take, a year at most.
func (p pace) atSlowest(n int64) time.Duration {
	return time.Duration(min(n/p.slowest, 365*24*3600)) * time.Second
}

// An answer is a ResponseWriter that knows what was answered and sees that it
// is taken.
type answer struct {
	http.ResponseWriter
	pace
	start  time.Time
	status int        // 0 while nothing was answered
	octets int64      // of the body
	until  *time.Time // the connection's write deadline
}

type deadlineKey struct{}

// rememberDeadline is the [http.Server] ConnContext hook that gives each
// connection a place for its write deadline. A connection has one request at a
// time, so nothing guards it.
func rememberDeadline(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, deadlineKey{}, new(time.Time))
}

// begin wraps the answer to one request.
func (p pace) begin(w http.ResponseWriter, r *http.Request) *answer {
	until, ok := r.Context().Value(deadlineKey{}).(*time.Time)
	if !ok {
		until = new(time.Time)
	}
	a := &answer{ResponseWriter: w, pace: p, start: time.Now(), until: until}
	a.extend(0)
	return a
}

// extend sees that the write deadline leaves room for n octets. It is moved
// far, hence seldom: most answers are one small write.
func (a *answer) extend(n int64) {
	room := a.take + a.atSlowest(n)
	if now := time.Now(); a.until.Sub(now) < room/2 {
		*a.until = now.Add(room)
		http.NewResponseController(a.ResponseWriter).SetWriteDeadline(*a.until)
	}
}

// Unwrap is for [http.ResponseController].
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) WriteHeader(status int) {
	if status >= http.StatusOK && a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) wrote(n int64) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	a.octets += n
}

func (a *answer) Write(p []byte) (int, error) {
	a.extend(int64(len(p)))
	n, err := a.ResponseWriter.Write(p)
	a.wrote(int64(n))
	return n, err
}

// takePart is how much goes out under one deadline.
const takePart = 64 << 20

// ReadFrom keeps the way to sendfile open, which wants a file or one
// LimitedReader around it.
func (a *answer) ReadFrom(r io.Reader) (total int64, err error) {
	limited, ok := r.(*io.LimitedReader)
	if !ok {
		limited = &io.LimitedReader{R: r, N: 1<<63 - 1}
	}
	for limited.N > 0 {
		part := &io.LimitedReader{R: limited.R, N: min(limited.N, takePart)}
		a.extend(part.N)
		n, err := io.Copy(a.ResponseWriter, part)
		a.wrote(n)
		total += n
		limited.N -= n
		if err != nil || part.N > 0 {
			return total, err
		}
	}
	return total, nil
}
