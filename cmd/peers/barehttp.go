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

	"cutie/cmd/cutie/load"
)

// bareVerb is the command by which this program starts itself as a peer.
const bareVerb = "serve-bare-http"

// bareHTTP is the standard library's HTTP server with handlers that do nothing
// but move octets, in a process of its own.
var bareHTTP = server{
	command: func(_, address string, t task) ([]string, error) {
		self, err := os.Executable()
		return []string{self, bareVerb, address, strconv.Itoa(t.size)}, err
	},
	connect: func(ctx context.Context, phase, address string, p *load.Payload, client int) (load.Worker, error) {
		target, err := load.ParseTarget("http://"+address, "jobs")
		if err != nil {
			return nil, err
		}
		if phase == load.Submit {
			return load.NewSubmitter(ctx, target, p, client, 1)
		}
		return load.NewConsumer(ctx, target, p, load.NewSeen(), 1)
	},
}

// bare counts jobs and forgets their octets: what it hands out is of its own
// making.
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

// serveBare serves until ctx ends; args are the address and the octets of a job.
func serveBare(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: " + bareVerb + " ADDRESS OCTETS")
	}
	size, err := strconv.Atoi(args[1])
	if err != nil || size < 0 || size > load.MaxSize {
		return fmt.Errorf("octets %q: not 0 to %d", args[1], load.MaxSize)
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
