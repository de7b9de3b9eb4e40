package daemon

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
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
