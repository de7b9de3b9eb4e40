package daemon

import (
	"crypto/rand"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cutie/cmd/cutie/access"
)

// Frames of HTTP/2 (RFC 9113, 6) as an [h2] sends and counts them.
const (
	dataFrame, headersFrame, rstFrame, settingsFrame, pingFrame, windowFrame = 0, 1, 3, 4, 6, 8
	ackFlag, endStream, endHeaders                                           = 1, 1, 4
)

// An h2 is a client of HTTP/2 that takes of each answer as much as its window says.
type h2 struct {
	net.Conn
	t *testing.T
}

// dialH2 begins a connection whose streams have a window of so many octets.
func dialH2(t *testing.T, srv *httptest.Server, window uint32) *h2 {
	t.Helper()
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	h := &h2{c, t}
	if _, err := io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	h.send(settingsFrame, 0, 0, binary.BigEndian.AppendUint32([]byte{0, 4}, window))
	return h
}

func (h *h2) send(kind, flags byte, stream uint32, payload []byte) {
	h.t.Helper()
	n := len(payload)
	head := binary.BigEndian.AppendUint32([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}, stream)
	if _, err := h.Write(append(head, payload...)); err != nil {
		h.t.Fatal(err)
	}
}

// ask sends a request without a body; streams are odd numbers.
func (h *h2) ask(stream uint32, method, path string) {
	h.t.Helper()
	var head []byte
	for _, field := range [][2]string{{":method", method}, {":scheme", "http"}, {":path", path}, {":authority", "x"}} {
		head = append(head, 0) // a literal, with its length in an octet before it (RFC 7541, 6.2.2)
		for _, text := range field {
			head = append(append(head, byte(len(text))), text...)
		}
	}
	h.send(headersFrame, endStream|endHeaders, stream, head)
}

// next returns the next frame that concerns a stream.
func (h *h2) next() (kind, flags byte, stream uint32, payload []byte) {
	h.t.Helper()
	for {
		var head [9]byte
		if _, err := io.ReadFull(h, head[:]); err != nil {
			h.t.Fatal(err)
		}
		payload = make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(h, payload); err != nil {
			h.t.Fatal(err)
		}
		kind, flags, stream = head[3], head[4], binary.BigEndian.Uint32(head[5:])
		if stream != 0 {
			return kind, flags, stream, payload
		}
		if kind == pingFrame && flags&ackFlag == 0 {
			h.send(pingFrame, ackFlag, 0, payload)
		}
	}
}

// outcome reads until a stream ends.
func (h *h2) outcome() (kind byte, octets int) {
	h.t.Helper()
	for {
		kind, flags, stream, payload := h.next()
		if kind == dataFrame {
			octets += len(payload)
			if len(payload) > 0 { // go on, as far as the server may for this
				for _, of := range []uint32{0, stream} {
					h.send(windowFrame, 0, of, binary.BigEndian.AppendUint32(nil, uint32(len(payload))))
				}
			}
		}
		if kind == rstFrame || flags&endStream != 0 && kind != settingsFrame {
			return kind, octets
		}
	}
}

var quickly = pace{take: time.Minute, stall: 50 * time.Millisecond, give: time.Minute, idle: time.Minute, slowest: 1 << 10}

func TestStreamWhoseAnswerNobodyTakesIsEnded(t *testing.T) {
	for name, size := range map[string]int{"small": 1, "of a frame": 5000, "large": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			noted := make(chan int64, 1)
			s := &site{pace: quickly, memory: &access.Places{Max: 16 << 20}, record: func(e *access.Entry) { noted <- e.Octets }}
			srv := startSite(t, s, func(w http.ResponseWriter, r *http.Request) { w.Write(make([]byte, size)) })
			h := dialH2(t, srv, 0)
			h.ask(1, http.MethodGet, "/x")
			if kind, n := h.outcome(); kind != rstFrame || n != 0 {
				t.Errorf("got frame %d after %d octets, want a reset", kind, n)
			}
			<-noted
			srv.Close() // waits for the last handler
			if n := s.memory.Taken(); n != 0 {
				t.Errorf("got %d bytes of memory held after the end", n)
			}
		})
	}
}

// A stream has its time again with each frame. While its handler waits there is no limit.
func TestEachFrameOfAStreamHasItsTime(t *testing.T) {
	flush := func(a *answer) { http.NewResponseController(a).Flush() }
	for name, tt := range map[string]struct {
		write func(a *answer)
		times int
	}{
		"small":   {func(a *answer) { a.Write(make([]byte, chunk)) }, 0},
		"flushed": {func(a *answer) { io.WriteString(a, "x"); flush(a) }, 1},
		"many":    {func(a *answer) { a.Write(make([]byte, chunk)); io.WriteString(a, "x") }, 1},
		"large":   {func(a *answer) { a.Write(make([]byte, 3*piece+1)) }, 4},
		"copied":  {func(a *answer) { io.CopyN(a, rand.Reader, 3*piece) }, 3},
	} {
		d := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		a := &answer{ResponseWriter: d, pace: pace{stall: 1, slowest: 1 << 10}, conn: new(connection), stream: true}
		tt.write(a)
		var got []time.Time
		for _, at := range d.write {
			if !at.IsZero() {
				got = append(got, at)
			}
		}
		if len(got) != tt.times || tt.times > 0 && !d.write[len(d.write)-1].IsZero() {
			t.Errorf("%s: got deadlines %v, want %d and none at the end", name, d.write, tt.times)
		}
	}
}

func TestStreamsCountAsRequests(t *testing.T) {
	in, release := make(chan bool), make(chan bool)
	s := &site{streams: &access.Places{Max: 8}} // 4 for one address
	srv := startSite(t, s, func(w http.ResponseWriter, r *http.Request) {
		in <- true
		<-release
	})
	const all, most = 8, 4
	conns := []*h2{dialH2(t, srv, 1<<16), dialH2(t, srv, 1<<16)}
	for i := range most {
		conns[i%2].ask(uint32(1+i/2*2), http.MethodGet, "/x")
		<-in
	}
	for i := most; i < all; i++ {
		h := conns[i%2]
		h.ask(uint32(1+i/2*2), http.MethodGet, "/x")
		if kind, _ := h.outcome(); kind != rstFrame {
			t.Errorf("request %d: got frame %d, want a reset", i, kind)
		}
	}
	close(release)
	for i := range most {
		if kind, _ := conns[i%2].outcome(); kind != headersFrame {
			t.Errorf("request %d: got frame %d, want an answer", i, kind)
		}
	}
	srv.Close() // waits for the last handler
	if n := s.streams.Taken(); n != 0 {
		t.Errorf("got %d places taken after the end", n)
	}
}

// What a handler has made up stays in memory until its client takes it, whatever the
// protocol is.
func TestAnswersCountInTheBudgetOfMemory(t *testing.T) {
	const size = 16 << 20 // more than the system keeps of a connection
	memory := &access.Places{Max: 3 * size}
	counted := make(chan bool, 8)
	srv := startSite(t, &site{memory: memory}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "made-up")
		w.WriteHeader(http.StatusAccepted)
		if r.URL.Path == "/begun" {
			w.Write([]byte("some"))
			http.NewResponseController(w).Flush()
		}
		if _, err := w.Write(make([]byte, size)); err == nil {
			counted <- true
		}
	})
	c := open(t, srv, "GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, err := io.ReadFull(c, make([]byte, 10)); err != nil { // the answer is on its way
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/x": http.StatusServiceUnavailable, "/begun": http.StatusAccepted} {
		resp, err := http.Get(srv.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: got %d, want %d", path, resp.StatusCode, want)
		}
		if want == http.StatusAccepted {
			if err == nil {
				t.Errorf("%s: an answer cut for want of memory passes for whole, %d octets", path, len(text))
			}
		} else if !strings.Contains(string(text), "memory") || resp.Header.Get("Content-Encoding") != "" || resp.Header.Get("Retry-After") == "" {
			t.Errorf("%s: got %q, %v", path, text, resp.Header)
		}
	}
	// What was done is told, at any price.
	resp, err := http.Post(srv.URL+"/x", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if n, err := io.Copy(io.Discard, resp.Body); n != size || err != nil || resp.StatusCode != http.StatusAccepted {
		t.Errorf("POST: got %d, %d octets, %v, want the answer", resp.StatusCode, n, err)
	}
	<-counted
}

func TestStreamCountsInTheBudgetOfMemory(t *testing.T) {
	in, release := make(chan bool), make(chan bool)
	defer close(release)
	srv := startSite(t, &site{memory: &access.Places{Max: 3 * streamBytes}}, func(w http.ResponseWriter, r *http.Request) {
		in <- true
		<-release
	})
	h := dialH2(t, srv, 1<<16)
	h.ask(1, http.MethodPost, "/x")
	<-in
	h.ask(3, http.MethodPost, "/x")
	if kind, n := h.outcome(); kind != dataFrame || n == 0 { // an error in words
		t.Errorf("got frame %d, %d octets, want a refusal", kind, n)
	}
}
