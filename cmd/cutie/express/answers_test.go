package express_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// handle answers in the ways that handlers have.
func handle(file string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		switch r.URL.Path {
		case "/unread":
			http.Error(w, "no", http.StatusNotFound)
		case "/empty":
			w.Header().Del("Content-Type")
			w.WriteHeader(http.StatusNoContent)
			if _, err := w.Write([]byte("x")); err != http.ErrBodyNotAllowed {
				panic(err)
			}
		case "/nothing":
			w.Header().Del("Content-Type")
		case "/long": // its length is not said
			for range 100 {
				io.WriteString(w, strings.Repeat("long ", 100))
			}
		case "/said":
			w.Header().Set("Content-Length", "50000")
			io.WriteString(w, strings.Repeat("s", 10))
			io.WriteString(w, strings.Repeat("a", 40000))
			io.WriteString(w, strings.Repeat("d", 9990))
		case "/file":
			f, err := os.Open(file)
			if err != nil {
				panic(err)
			}
			defer f.Close()
			w.Header().Set("Content-Length", "100000")
			io.Copy(w, io.LimitReader(f, 60000))
			io.Copy(w, f)
		case "/fileparts": // as much as one asks for may be more than there is
			f, err := os.Open(file)
			if err != nil {
				panic(err)
			}
			defer f.Close()
			w.Header().Set("Content-Length", "100000")
			for _, want := range []int64{0, 60000, 0, 20000} {
				part := &io.LimitedReader{R: f, N: want}
				if n, err := io.Copy(w, part); n != want || err != nil || part.N != 0 {
					panic(fmt.Sprint(n, err, part.N))
				}
			}
			rest := &io.LimitedReader{R: f, N: 1 << 40}
			if n, err := io.Copy(w, rest); n != 20000 || err != nil || rest.N != 1<<40-20000 {
				panic(fmt.Sprint(n, err, rest.N))
			}
		case "/fileunsaid":
			f, err := os.Open(file)
			if err != nil {
				panic(err)
			}
			defer f.Close()
			io.Copy(w, f)
		case "/toolittle":
			w.Header().Set("Content-Length", "10")
			io.WriteString(w, "few")
		case "/toomuch":
			w.Header().Set("Content-Length", "3")
			if _, err := io.WriteString(w, "many"); err != http.ErrContentLength {
				panic(err)
			}
			io.WriteString(w, "few")
		case "/close":
			w.Header().Set("Connection", "close")
			io.WriteString(w, "the end")
		case "/two":
			w.Header()["X-Several"] = []string{"a", "b\r\nX-Forged: c"}
			w.WriteHeader(http.StatusCreated)
			w.WriteHeader(http.StatusOK)
			w.Header().Set("X-Late", "too late")
		case "/abort":
			io.WriteString(w, "half")
			panic(http.ErrAbortHandler)
		case "/panic":
			io.WriteString(w, "half")
			panic("broken")
		default: // what was read
			body, err := io.ReadAll(r.Body)
			if n, again := r.Body.Read(make([]byte, 1)); n != 0 || again == nil {
				panic("there is more")
			}
			local := r.Context().Value(http.LocalAddrContextKey)
			hook := r.Context().Value(hookKey{}) != nil
			server := r.Context().Value(http.ServerContextKey) != nil
			fmt.Fprintf(w, "%s %s %s %s %d %v %q %v %v %v %v", r.Method, r.URL, r.Host, r.Proto, r.ContentLength, r.Header, body, err, hook, server, local != nil)
		}
	}
}

// What a client sees must not depend on who serves it.
func TestAnswersAreThoseOfTheServer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, bytes.Repeat([]byte("0123456789"), 10000), 0o600); err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x", 200<<10)
	for _, tt := range []struct {
		name  string
		plain int32
		parts []string
	}{
		{"no body", 1, []string{post("/read", "")}},
		{"body", 1, []string{post("/read", "hello", "Content-Type: text/plain", "User-Agent: test")}},
		{"body later", 1, cut(post("/read", "hello"), 5)},
		{"body in pieces", 1, cut(post("/read", large), 150000, 70000)},
		{"head in pieces", 0, cut(post("/read", "hello"), 30)},
		{"one after the other", 3, []string{post("/read", "1"), post("/read", "22"), post("/read", "")}},
		{"in one write", 3, []string{post("/read", "1") + post("/read", "22") + post("/read", "")}},
		{"larger than is taken", 0, []string{post("/read", large+large)}},
		{"named for the server", 0, []string{post("/server", "1")}},
		{"other after plain", 2, []string{post("/read", "1") + post("/read", "2") + "GET /read HTTP/1.1\r\nHost: a\r\n\r\n" + post("/read", "4")}},
		{"empty line behind a body", 2, []string{post("/read", "1") + "\r\n" + post("/read", "2")}},
		{"empty line behind a body, later", 2, []string{post("/read", "1"), "\r\n", post("/read", "2")}},
		{"two empty lines, and another kind", 1, []string{post("/read", "1"), "\n\r\n", "GET /read HTTP/1.1\r\nHost: a\r\n\r\n"}},
		{"nothing but an empty line", 1, []string{post("/read", "1"), "\r\n"}},
		{"too many empty lines", 1, []string{post("/read", "1") + "\r\n\r\n\r\n" + post("/read", "2")}},
		{"empty line first", 0, []string{"\r\n" + post("/read", "1")}},
		{"known head, other path", 2, []string{post("/read", "1"), post("/read", "2"), post("/server", "3")}},
		{"known head that is for the server", 0, []string{post("/server", "1"), post("/server", "2")}},
		{"chunked after plain", 1, []string{post("/read", "1") + "POST /read HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" + post("/read", "3")}},
		{"expects", 0, []string{"POST /read HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2\r\n\r\nab"}},
		{"malformed after plain", 1, []string{post("/read", "1") + "nonsense\r\n\r\n"}},
		{"HTTP/1.0", 0, []string{"POST /read HTTP/1.0\r\n\r\n"}},
		{"body cut off", 1, cut(post("/read", "hello world"), 5)[:1]},
		{"body left", 2, []string{post("/unread", "hello") + post("/read", "2")}},
		{"large body left", 2, []string{post("/unread", large) + post("/read", "2")}},
		{"no content", 2, []string{post("/empty", "1") + post("/read", "2")}},
		{"nothing written", 2, []string{post("/nothing", "") + post("/read", "2")}},
		{"long answer", 2, []string{post("/long", "") + post("/read", "2")}},
		{"long answer, announced", 2, []string{post("/said", "") + post("/read", "2")}},
		{"file", 2, []string{post("/file", "") + post("/read", "2")}},
		{"file in parts", 2, []string{post("/fileparts", "") + post("/read", "2")}},
		{"file, not announced", 2, []string{post("/fileunsaid", "") + post("/read", "2")}},
		{"less than announced", 1, []string{post("/toolittle", "") + post("/read", "2")}},
		{"more than announced", 1, []string{post("/toomuch", "") + post("/read", "2")}},
		{"closed by the handler", 1, []string{post("/close", "") + post("/read", "2")}},
		{"header", 2, []string{post("/two", "") + post("/read", "2")}},
		{"aborted", 1, []string{post("/abort", "") + post("/read", "2")}},
		{"panicked", 1, []string{post("/panic", "") + post("/read", "2")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			front, alone := serve(t, true, handle(file)), serve(t, false, handle(file))
			got, want := front.ask(t, tt.parts...), alone.ask(t, tt.parts...)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("got\n%.2000s\nwant\n%.2000s", fmt.Sprint(got), fmt.Sprint(want))
			}
			if n := front.plain.Load(); n != tt.plain {
				t.Errorf("%d requests were served in front, want %d", n, tt.plain)
			}
			if got, want := strings.Contains(front.log.String(), "broken"), strings.Contains(alone.log.String(), "broken"); got != want {
				t.Errorf("panic logged: %v, want %v", got, want)
			}
		})
	}
}
