package daemon

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestAnswerThatIsNotTakenIsCutOff(t *testing.T) {
	ended := make(chan error, 1)
	srv := startSite(t, &site{pace: pace{take: 50 * time.Millisecond, slowest: 1 << 40}}, func(w http.ResponseWriter, r *http.Request) {
		for r.URL.Path != "/quick" {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				ended <- err
				return
			}
		}
	})
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// The deadline of a request is no deadline of the next one.
	io.WriteString(conn, "GET /quick HTTP/1.1\r\nHost: x\r\n\r\nGET /x HTTP/1.1\r\nHost: x\r\n\r\n")
	if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want a deadline exceeded", err)
	}
}

// The time for taking an answer begins with the answer.
func TestAnswerAfterALongWaitArrives(t *testing.T) {
	const take = 300 * time.Millisecond
	srv := startSite(t, &site{pace: pace{take: take, slowest: 1 << 40}}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/early" {
			io.WriteString(w, "kept until the end")
		}
		time.Sleep(take + take/4)
		if r.URL.Path == "/none" {
			w.WriteHeader(http.StatusNoContent)
		}
	})
	for path, want := range map[string]int{"/none": http.StatusNoContent, "/silent": http.StatusOK, "/early": http.StatusOK} {
		if got, _ := get(t, srv.URL+path); got != want {
			t.Errorf("%s: got %d, want %d", path, got, want)
		}
	}
}

func TestLongAnswerFromAFile(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const size = 2*takePart + 5
	if _, err := f.WriteAt([]byte("end"), size-3); err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func(r io.Reader) io.Reader{
		"limited": func(r io.Reader) io.Reader { return io.LimitReader(r, size-1) },
		"whole":   func(r io.Reader) io.Reader { return r },
	} {
		t.Run(name, func(t *testing.T) {
			srv := startSite(t, &site{}, func(w http.ResponseWriter, r *http.Request) {
				if _, err := f.Seek(0, io.SeekStart); err != nil {
					t.Error(err)
				}
				if _, err := io.Copy(w, read(f)); err != nil {
					t.Error(err)
				}
			})
			resp, err := http.Get(srv.URL + "/x")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			tail := make([]byte, 0, 8)
			buf := make([]byte, 1<<20)
			var n int64
			for err == nil {
				var k int
				k, err = resp.Body.Read(buf)
				n += int64(k)
				tail = append(tail, buf[max(0, k-8):k]...)
				tail = tail[max(0, len(tail)-3):]
			}
			wantSize, wantTail := int64(size), "end"
			if name == "limited" {
				wantSize, wantTail = size-1, "\x00en"
			}
			if err != io.EOF || n != wantSize || string(tail) != wantTail {
				t.Errorf("got %d octets, end %q, %v, want %d, %q", n, tail, err, wantSize, wantTail)
			}
		})
	}
}

func TestAConnectionMayHaveSeveralClients(t *testing.T) {
	var h hosts
	for _, name := range []string{"192.0.2.1", "192.0.2.1", "2001:db8::1", "", "", "192.0.2.1"} {
		client, _ := netip.ParseAddr(name)
		want := name
		if name == "" {
			want = "localhost"
		}
		if got := h.of(client); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// open sends the head of a request and what else there is of it.
func open(t *testing.T, srv *httptest.Server, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c
}

const postHead = "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"

func TestBodyThatTricklesIsCutOff(t *testing.T) {
	for _, c := range []struct {
		slowest int64
		fast    int // octets that come at once
		pause   time.Duration
	}{
		{slowest: 1 << 40}, // it never pauses for long
		{slowest: 1 << 10, fast: 999_000, pause: 5 * time.Millisecond},
	} {
		ended := make(chan error, 1)
		srv := startSite(t, &site{pace: pace{take: time.Minute, give: 50 * time.Millisecond, idle: time.Minute, slowest: c.slowest}},
			func(w http.ResponseWriter, r *http.Request) {
				_, err := io.Copy(io.Discard, r.Body)
				ended <- err
			})
		conn := open(t, srv, postHead+strings.Repeat("x", c.fast))
		for going := true; going; {
			select {
			case err := <-ended:
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatalf("after %d octets at once: got %v, want a deadline exceeded", c.fast, err)
				}
				io.Copy(io.Discard, conn) // it ends without a wait for the rest
				going = false
			default:
				time.Sleep(c.pause)
				io.WriteString(conn, "x")
			}
		}
	}
}

func TestBodyThatStopsIsCutOff(t *testing.T) {
	// Whether its handler reads it, or answers without, or not at all.
	for name, h := range map[string]http.HandlerFunc{
		"read":     func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) },
		"answered": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusTeapot) },
		"ignored":  func(w http.ResponseWriter, r *http.Request) {},
	} {
		t.Run(name, func(t *testing.T) {
			srv := startSite(t, &site{pace: pace{take: time.Minute, give: time.Minute, idle: 50 * time.Millisecond, slowest: 1 << 10}}, h)
			c := open(t, srv, "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nx")
			if _, err := io.Copy(io.Discard, c); err != nil {
				t.Error(err)
			}
		})
	}
}

// A deadlines is a connection that remembers its deadlines.
type deadlines struct {
	*httptest.ResponseRecorder
	read, write []time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.read = append(d.read, t)
	return nil
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.write = append(d.write, t)
	return nil
}

func TestDeadlineEndsWithTheBody(t *testing.T) {
	for body, want := range map[string]int{"": 0, "abc": 2} {
		srv := startSite(t, &site{}, func(w http.ResponseWriter, r *http.Request) {
			if text, err := io.ReadAll(r.Body); err != nil || string(text) != body {
				t.Errorf("got %q, %v, want %q", text, err, body)
			}
		})
		d := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		srv.Config.Handler.ServeHTTP(d, httptest.NewRequest(http.MethodPost, "/x", strings.NewReader(body)))
		if len(d.read) != want || want > 0 && (d.read[0].IsZero() || !d.read[want-1].IsZero()) {
			t.Errorf("%q: got deadlines %v, want %d, the last of them none", body, d.read, want)
		}
	}
}

func TestTimeToTakeAnAnswerBeginsWhenAllWasSent(t *testing.T) {
	srv := startSite(t, &site{pace: pace{take: 1, give: time.Minute, slowest: 1 << 10}}, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	})
	d := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	body := iotest.OneByteReader(strings.NewReader("many"))
	srv.Config.Handler.ServeHTTP(d, httptest.NewRequest(http.MethodPost, "/x", body))
	if len(d.write) < len("many") {
		t.Errorf("got deadlines %v, want a later one for each part of the body", d.write)
	}
	if d.Code != http.StatusNoContent {
		t.Errorf("got %d, want 204", d.Code)
	}
}

func TestOwnerOfTheHomeMayPause(t *testing.T) {
	for client, most := range map[string]time.Duration{"": 24 * time.Hour, "192.0.2.1": time.Minute} {
		d := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		a := &answer{ResponseWriter: d, pace: pace{idle: time.Minute, give: time.Minute, slowest: 1 << 10}, conn: new(connection)}
		a.client, _ = netip.ParseAddr(client)
		from := time.Now()
		io.ReadAll(&sent{ReadCloser: io.NopCloser(strings.NewReader("x")), to: a})
		http.NewResponseController(a).SetReadDeadline(time.Now().Add(time.Minute)) // a handler
		to := time.Now()
		for _, i := range []int{0, len(d.read) - 1} {
			if got := d.read[i]; got.Before(from.Add(most)) || got.After(to.Add(most)) {
				t.Errorf("%q: got %v, want %v from now", client, got.Sub(from), most)
			}
		}
	}
}

func TestOwnerOfTheHomeMaySendSlowly(t *testing.T) {
	a := &answer{ResponseWriter: httptest.NewRecorder(), pace: pace{slowest: 1 << 10}, conn: new(connection)}
	in, out := io.Pipe()
	b := &sent{ReadCloser: in, to: a}
	go func() {
		for range 10 {
			out.Write([]byte("x"))
		}
		out.Close()
	}()
	if text, err := io.ReadAll(b); err != nil || len(text) != 10 {
		t.Errorf("got %q, %v, want all", text, err)
	}
}
