package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
)

// bareVerb is the command to start this program as a peer.
const bareVerb = "serve-bare-http"

// bareHTTP is the standard library's HTTP server in a process of its own. Its
// handlers only move bytes.
var bareHTTP = server{
	command: func(_, address string, t task) ([]string, error) {
		self, err := os.Executable()
		return []string{self, bareVerb, address, strconv.Itoa(t.size)}, err
	},
	connect: func(ctx context.Context, phase, address string, s *source) (worker, error) {
		to, err := parseTarget("http://"+address, "jobs", "")
		if err != nil {
			return nil, err
		}
		return to.connect(ctx, phase, s, new(nameSet), 1)
	},
}

// bare counts jobs and forgets their bytes. It hands out bytes of its own.
type bare struct {
	submitted, consumed atomic.Int64
	payload             []byte
}

func (b *bare) submit(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	b.submitted.Add(1)
	w.WriteHeader(http.StatusCreated)
}

func (b *bare) consume(w http.ResponseWriter, _ *http.Request) {
	n := b.consumed.Add(1)
	if n > b.submitted.Load() {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Location", fmt.Sprintf("/content/jobs/j%012d", n))
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(len(b.payload)))
	w.Write(b.payload)
}

// serveBare serves until ctx ends; args are the address and the bytes of a job.
func serveBare(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: " + bareVerb + " ADDRESS BYTES")
	}
	size, err := strconv.Atoi(args[1])
	if err != nil || size < 0 || size > maxSize {
		return fmt.Errorf("bytes %q: not 0 to %d", args[1], maxSize)
	}
	l, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	b := &bare{payload: make([]byte, size)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /content/jobs", b.submit)
	mux.HandleFunc("POST /consume/jobs", b.consume)
	srv := &http.Server{Handler: mux}
	context.AfterFunc(ctx, func() { srv.Close() })
	if err := srv.Serve(l); err != http.ErrServerClosed {
		return err
	}
	return nil
}
