package load_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"cutie/cmd/cutie/load"
)

func TestHeadReadsWhatMatters(t *testing.T) {
	const text = "HTTP/1.1 200 OK\r\n" +
		"content-LENGTH: 12\r\n" +
		"Content-Type:text/plain \r\n" +
		"X-Empty:\r\n" +
		"CONTENT-LOCATION:\t http://a/content/q/j000000000001\r\n" +
		"Retry-After: 3\r\n" +
		"Connection: keep-alive, Close\r\n\r\nHello, world"
	r := bufio.NewReader(strings.NewReader(text))
	var h load.Head
	if err := h.Read(r); err != nil {
		t.Fatal(err)
	}
	if h.Status != 200 || h.Length != 12 || !h.Close || h.RetryAfter != 3 ||
		string(h.ContentType) != "text/plain" || string(h.ContentLocation) != "http://a/content/q/j000000000001" {
		t.Errorf("got %+v type %q location %q", h, h.ContentType, h.ContentLocation)
	}
	if rest, _ := io.ReadAll(r); string(rest) != "Hello, world" {
		t.Errorf("left %q behind the head", rest)
	}
}

func TestHeadForgetsTheOneBefore(t *testing.T) {
	r := bufio.NewReader(strings.NewReader(
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Location: /a\r\nContent-Type: b/c\r\nConnection: close\r\n\r\n" +
			"HTTP/1.1 204 No Content\r\n\r\n"))
	var h load.Head
	for range 2 {
		if err := h.Read(r); err != nil {
			t.Fatal(err)
		}
	}
	if h.Status != 204 || h.Length != 0 || h.Close || len(h.ContentLocation) > 0 || len(h.ContentType) > 0 {
		t.Errorf("got %+v", h)
	}
	if err := h.Read(r); err != io.EOF {
		t.Errorf("at the end: %v, want io.EOF", err)
	}
}

func TestHeadRefusesWhatIsNotStrict(t *testing.T) {
	cases := []struct{ name, text string }{
		{"another version", "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"},
		{"no number", "HTTP/1.1 2x0 OK\r\nContent-Length: 0\r\n\r\n"},
		{"number too long", "HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n"},
		{"number too large", "HTTP/1.1 600 OK\r\nContent-Length: 0\r\n\r\n"},
		{"line feed alone", "HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n"},
		{"no length", "HTTP/1.1 200 OK\r\n\r\n"},
		{"negative length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"},
		{"empty length", "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n"},
		{"huge length", "HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999999\r\n\r\n"},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n"},
		{"length and chunked", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"},
		{"another coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"},
		{"space before colon", "HTTP/1.1 200 OK\r\nContent-Length : 1\r\n\r\n"},
		{"folded", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n b\r\n\r\n"},
		{"no colon", "HTTP/1.1 200 OK\r\nContent-Length\r\n\r\n"},
		{"control in value", "HTTP/1.1 200 OK\r\nX: a\x00b\r\nContent-Length: 1\r\n\r\n"},
		{"line without end", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("a", 100<<10) + "\r\n\r\n"},
		{"head without end", "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: abcdefgh\r\n", 10<<10) + "\r\n"},
	}
	for _, c := range cases {
		var h load.Head
		if err := h.Read(bufio.NewReader(strings.NewReader(c.text))); !errors.Is(err, load.ErrMalformed) {
			t.Errorf("%s: %v, want ErrMalformed", c.name, err)
		}
	}
}

func TestHeadCutOffAnywhere(t *testing.T) {
	const text = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	for i := 1; i < len(text); i++ {
		var h load.Head
		if err := h.Read(bufio.NewReader(strings.NewReader(text[:i]))); err != io.ErrUnexpectedEOF {
			t.Errorf("cut at %d: %v, want io.ErrUnexpectedEOF", i, err)
		}
	}
}

// readAnswer reads a whole response, by Read or by Drain.
func readAnswer(data []byte, drain bool) (h load.Head, body, rest []byte, err error) {
	r := bufio.NewReaderSize(bytes.NewReader(data), 4<<10)
	if err = h.Read(r); err != nil {
		return h, nil, nil, err
	}
	var b load.Body
	b.Reset(r, &h)
	if drain {
		err = b.Drain()
	} else {
		body, err = io.ReadAll(&b)
	}
	rest, _ = io.ReadAll(r)
	return h, body, rest, err
}

func TestBodyOfChunks(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n"
	cases := []struct {
		text, want string
		ok         bool
	}{
		{"0\r\n\r\n", "", true},
		{"5\r\nHello\r\nA\r\n, world!!\n\r\n0\r\n\r\n", "Hello, world!!\n", true},
		{"00a\r\n0123456789\r\n0\r\nX-Sum: 1\r\n\r\n", "0123456789", true},
		{"5\r\nHello", "Hello", false},
		{"5\r\nHello\r\n", "Hello", false},
		{"5\r\nHello\r\n0\r\n", "Hello", false},
		{"5\r\nHello!\r\n0\r\n\r\n", "Hello", false},
		{"\r\n\r\n", "", false},
		{"g\r\n\r\n", "", false},
		{"-1\r\n\r\n", "", false},
		{"5;ext=1\r\nHello\r\n0\r\n\r\n", "", false},
		{"10000000000000000\r\n\r\n", "", false},
	}
	for _, c := range cases {
		_, body, rest, err := readAnswer([]byte(head+c.text+"next"), false)
		if c.ok && (err != nil || string(body) != c.want || string(rest) != "next") {
			t.Errorf("%q: %q, %v, left %q; want %q", c.text, body, err, rest, c.want)
		}
		_, body, _, err = readAnswer([]byte(head+c.text), false)
		if !c.ok && (err == nil || string(body) != c.want) {
			t.Errorf("%q: %q, %v; want %q and an error", c.text, body, err, c.want)
		}
		_, _, _, drained := readAnswer([]byte(head+c.text), true)
		if (drained == nil) != c.ok {
			t.Errorf("%q: Drain %v, Read %v", c.text, drained, err)
		}
	}
}

// What our parser accepts, the standard library reads in the same way.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHello",
		"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
		"HTTP/1.1 304\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nHello\r\n0\r\nA: b\r\n\r\n",
		"HTTP/1.1 503 Busy\r\nretry-after: 7\r\nCONTENT-length: 0\r\nContent-Location: /content/q/j\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h, body, rest, err := readAnswer(data, false)
		_, _, restDrained, drained := readAnswer(data, true)
		if (err == nil) != (drained == nil) || err == nil && !bytes.Equal(rest, restDrained) {
			t.Fatalf("Read: %v, %q left; Drain: %v, %q left", err, rest, drained, restDrained)
		}
		if err != nil {
			return
		}
		res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(data)), nil)
		if err != nil {
			t.Fatalf("accepted what net/http refuses: %v", err)
		}
		want, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatalf("accepted a body that net/http refuses: %v", err)
		}
		if h.Status != res.StatusCode || !bytes.Equal(body, want) {
			t.Errorf("got %d %q, want %d %q", h.Status, body, res.StatusCode, want)
		}
		if got, want := string(h.ContentLocation), res.Header.Values("Content-Location"); len(want) > 0 && got != want[len(want)-1] {
			t.Errorf("got location %q, want %q", got, want)
		}
	})
}
