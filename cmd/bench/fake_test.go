package main

import (
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// daemon speaks as much of the protocol as a bench needs, over a queue in
// memory, and goes wrong where it is told to.
type daemon struct {
	mu       sync.Mutex
	pending  []job
	next     int
	submits  int // requests
	consumes int

	wants    string // what Authorization must say
	chunked  bool
	refuse   func(request int) int            // status for the nth submission; 0 for none
	alter    func(nth int, j *job)            // changes what is handed out
	hangUp   func(request int) bool           // cuts the answer to the nth consumption in half
	closeAll bool                             // ends the connection after each answer
	early    func(w http.ResponseWriter) bool // answers before the body is read
}

type job struct {
	location string
	payload  []byte
}

func (d *daemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if d.closeAll {
		w.Header().Set("Connection", "close")
	}
	if d.wants != "" && r.Header.Get("Authorization") != d.wants {
		http.Error(w, "who are you", http.StatusUnauthorized)
		return
	}
	switch r.Method + " " + r.URL.Path {
	case "POST /base/content/my%20jobs", "POST /base/content/my jobs":
		d.submit(w, r)
	case "POST /base/consume/my jobs":
		d.consume(w, r)
	default:
		http.Error(w, "queue not found\nor worse", http.StatusNotFound)
	}
}

func (d *daemon) submit(w http.ResponseWriter, r *http.Request) {
	if d.early != nil && d.early(w) {
		return
	}
	var payloads [][]byte
	if r.Header.Get("Content-Type") == "application/octet-stream" {
		b, err := io.ReadAll(r.Body)
		if err != nil || int64(len(b)) != r.ContentLength {
			http.Error(w, "body is cut off", http.StatusBadRequest)
			return
		}
		payloads = append(payloads, b)
	} else {
		m, err := r.MultipartReader()
		for err == nil {
			var p *multipart.Part
			if p, err = m.NextPart(); err != nil {
				break
			}
			var b []byte
			if b, err = io.ReadAll(p); p.FormName() != "file" || p.FileName() == "" {
				err = fmt.Errorf("part %q %q", p.FormName(), p.FileName())
			}
			payloads = append(payloads, b)
		}
		if err != io.EOF {
			http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
			return
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.submits++
	if d.refuse != nil {
		if status := d.refuse(d.submits); status != 0 {
			http.Error(w, "not now", status)
			return
		}
	}
	for _, b := range payloads {
		d.next++
		d.pending = append(d.pending, job{fmt.Sprintf("/content/jobs/j%012d", d.next), b})
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "job: %d\n", d.next)
}

func (d *daemon) consume(w http.ResponseWriter, r *http.Request) {
	limit := 1
	if s := r.URL.Query().Get("max"); s != "" {
		limit, _ = strconv.Atoi(s)
	}
	d.mu.Lock()
	n := min(limit, len(d.pending))
	out := d.pending[:n:n]
	d.pending = d.pending[n:]
	d.consumes++
	if d.hangUp != nil && d.hangUp(d.consumes) {
		d.mu.Unlock()
		w.Header().Set("Content-Length", "1000000")
		w.Write(make([]byte, 1000))
		return // the server hangs up because the length is not reached
	}
	if d.alter != nil {
		for i := range out {
			d.alter(d.consumes, &out[i])
		}
	}
	d.mu.Unlock()
	switch {
	case n == 0:
		w.WriteHeader(http.StatusNoContent)
	case r.Header.Get("Accept") == "application/octet-stream":
		header(http.Header(w.Header()), out[0])
		if !d.chunked {
			w.Header().Set("Content-Length", strconv.Itoa(len(out[0].payload)))
		}
		w.WriteHeader(http.StatusOK)
		if d.chunked {
			w.(http.Flusher).Flush()
		}
		w.Write(out[0].payload)
	default:
		m := multipart.NewWriter(w)
		w.Header().Set("Content-Type", "multipart/mixed; boundary="+m.Boundary())
		for _, j := range out {
			h := make(textproto.MIMEHeader)
			header(http.Header(h), j)
			p, _ := m.CreatePart(h)
			p.Write(j.payload)
		}
		m.Close()
	}
}

func header(h http.Header, j job) {
	if j.location != "" {
		h.Set("Content-Location", j.location)
	}
	h.Set("Content-Type", "application/octet-stream")
}

// serve runs d until the test ends and returns where.
func serve(t *testing.T, d *daemon) target {
	t.Helper()
	s := httptest.NewServer(d)
	t.Cleanup(s.Close)
	return targetOf(t, s.URL+"/base/")
}

// serveUnix does the same on a socket; it has no base path.
func serveUnix(t *testing.T, d *daemon) target {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = "/base" + r.URL.Path
		d.ServeHTTP(w, r)
	})}}
	s.Start()
	t.Cleanup(s.Close)
	return targetOf(t, "unix:"+path)
}

func targetOf(t *testing.T, url string) target {
	t.Helper()
	to, err := parseTarget(url, "my jobs", "")
	if err != nil {
		t.Fatal(err)
	}
	return to
}
