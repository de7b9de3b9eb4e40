package express

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

// plainHeads are taken, each with the body length that it announces.
var plainHeads = map[string]int64{
	"POST /content/jobs HTTP/1.1\r\nHost: a\r\n\r\n":                                                            0,
	"POST /consume/jobs HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nContent-Length: 0\r\n\r\n":                          0,
	"POST /a/b-c._~ HTTP/1.1\r\nhost:[::1]:80\r\ncontent-length:  12 \r\nACCEPT: */*\r\n\r\nrest":               12,
	"POST / HTTP/1.1\r\nHost: a\r\nUser-Agent: x \"y\"; z\r\nContent-Type: text/plain\r\n\r\n":                  0,
	"POST / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer abc\r\nCutie-Sidecar: a%20b\r\nContent-MD5: x\r\n\r\n": 0,
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 007\r\nAccept:\r\n\r\n":                                      7,
}

// otherHeads are for the server.
var otherHeads = []string{
	"",
	"\r\n\r\n",
	"\r\nPOST / HTTP/1.1\r\nHost: a\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\n",
	"POST / HTTP/1.1\r\n\r\n",
	"POST / HTTP/1.1\nHost: a\n\n",
	"POST / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
	"post / HTTP/1.1\r\nHost: a\r\n\r\n",
	"POST  / HTTP/1.1\r\nHost: a\r\n\r\n",
	"POST /  HTTP/1.1\r\nHost: a\r\n\r\n",
	"POST / HTTP/1.0\r\nHost: a\r\n\r\n",
	"POST / HTTP/1.1 \r\nHost: a\r\n\r\n",
	"POST HTTP/1.1\r\nHost: a\r\n\r\n",
	"POST * HTTP/1.1\r\nHost: a\r\n\r\n",
	"POST http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
	"POST //a/b HTTP/1.1\r\nHost: a\r\n\r\n",
	"POST /?x HTTP/1.1\r\nHost: a\r\n\r\n",
	"POST /#x HTTP/1.1\r\nHost: a\r\n\r\n",
	"POST /%41 HTTP/1.1\r\nHost: a\r\n\r\n",
	"POST /\x00 HTTP/1.1\r\nHost: a\r\n\r\n",
	"POST /\u00e4 HTTP/1.1\r\nHost: a\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: \r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a b\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a/b\r\n\r\n",
	"POST / HTTP/1.1\r\nHost : a\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\n Accept: b\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nAccept: b\r\n c\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nAccept\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nAccept: a\r\naccept: b\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nAccept: a\tb\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nAccept: \x7f\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nAccept: \u00e4\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1_0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nTrailer: X\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: b\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nOrigin: b\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nPrefer: wait=5\r\n\r\n",
	"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}

func TestHeadIsPlain(t *testing.T) {
	for text, length := range plainHeads {
		var h head
		if _, ok := h.read([]byte(text)); !ok {
			t.Errorf("%q is not taken", text)
		} else if h.length != length {
			t.Errorf("%q: length %d, want %d", text, h.length, length)
		}
		compareHead(t, text)
	}
	for _, text := range otherHeads {
		var h head
		if _, ok := h.read([]byte(text)); ok {
			t.Errorf("%q is taken", text)
		}
	}
}

// A head that is known is taken without being parsed; one that differs at all
// is parsed.
func TestHeadIsKnownAgain(t *testing.T) {
	const first = "POST /a HTTP/1.1\r\nHost: a\r\nAccept: b\r\n\r\n"
	var h head
	for _, tt := range []struct {
		text, target, accept string
		ok                   bool
	}{
		{first + "body", "/a", "b", true},
		{first, "/a", "b", true},
		{strings.Replace(first, "Accept: b", "Accept: c", 1), "/a", "c", true},
		{strings.Replace(first, "/a", "/b", 1), "/b", "b", true},
		{first[:len(first)-2], "", "", false},
		{strings.Replace(first, "\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n", 1), "", "", false},
	} {
		_, ok := h.read([]byte(tt.text))
		if ok != tt.ok {
			t.Errorf("%q: taken %v, want %v", tt.text, ok, tt.ok)
		}
		if !ok {
			continue
		}
		r := h.request(context.Background(), "")
		if r.RequestURI != tt.target || r.Header.Get("Accept") != tt.accept {
			t.Errorf("%q: got %s, Accept %q", tt.text, r.RequestURI, r.Header.Get("Accept"))
		}
		r.Header.Set("Accept", "changed") // by a handler, for itself
		r.URL.Path = "/changed"
	}
}

// compareHead checks that a head which is taken says what the server reads in
// it.
func compareHead(t *testing.T, text string) {
	var h head
	if _, ok := h.read([]byte(text)); !ok {
		return
	}
	in := bufio.NewReaderSize(strings.NewReader(text), 1<<20)
	want, err := http.ReadRequest(in)
	if err != nil {
		t.Fatalf("%q is taken, but the server refuses it: %v", text, err)
	}
	got := h.request(context.Background(), "")
	if got.Method != want.Method || got.RequestURI != want.RequestURI || !reflect.DeepEqual(got.URL, want.URL) ||
		got.Host != want.Host || got.Proto != want.Proto || got.ContentLength != want.ContentLength ||
		len(want.TransferEncoding) > 0 || want.Close || !reflect.DeepEqual(got.Header, want.Header) {
		t.Errorf("%q:\ngot  %+v\nwant %+v", text, got, want)
	}
	// What is behind the head begins at the same octet.
	if want.ContentLength == 0 {
		rest, _ := io.ReadAll(in)
		if !bytes.Equal(rest, []byte(text)[len(h.text):]) {
			t.Errorf("%q: %q is behind it, want %q", text, text[len(h.text):], rest)
		}
	}
}

func FuzzHead(f *testing.F) {
	for text := range plainHeads {
		f.Add(text)
	}
	for _, text := range otherHeads {
		f.Add(text)
	}
	f.Fuzz(compareHead)
}
