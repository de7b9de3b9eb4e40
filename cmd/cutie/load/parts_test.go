package load_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/textproto"
	"strings"
	"testing"

	"cutie/cmd/cutie/load"
)

// part is one job of a multipart answer.
type part struct{ location, body string }

// readParts reads with a buffer as small as it gets, so that delimiters lie
// across its ends.
func readParts(contentType string, body []byte) (parts []part, err error) {
	m, err := load.NewParts(bufio.NewReaderSize(bytes.NewReader(body), 128), []byte(contentType))
	if err != nil {
		return nil, err
	}
	for {
		location, length, err := m.Next()
		if err != nil || m.Done() {
			return parts, err
		}
		p := part{location: string(location)}
		var b strings.Builder
		n, err := m.CopyTo(&b)
		if err != nil {
			return parts, err
		}
		p.body = b.String()
		if n != int64(len(p.body)) || length >= 0 && length != n {
			return parts, fmt.Errorf("%d octets written, %d returned, %d promised", len(p.body), n, length)
		}
		parts = append(parts, p)
	}
}

func TestPartsReadWhatTheStandardLibraryWrites(t *testing.T) {
	var want []part
	for n := range 40 {
		want = append(want, part{fmt.Sprintf("/content/jobs/j%012d", n), strings.Repeat("\r\n--", n)})
	}
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, p := range want {
		pw, err := w.CreatePart(textproto.MIMEHeader{
			"Content-Location": {p.location},
			"Content-Length":   {fmt.Sprint(len(p.body))},
		})
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(pw, p.body)
	}
	w.Close()
	contentType := "multipart/mixed; boundary=" + w.Boundary()
	got, err := readParts(contentType, b.Bytes())
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d parts, %v; want %d", len(got), err, len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("part %d: got %q, want %q", i, got[i], want[i])
		}
	}

	for cut := range b.Len() {
		if _, err := readParts(contentType, b.Bytes()[:cut]); err == nil && cut < b.Len()-2 {
			t.Fatalf("cut at %d of %d: no error", cut, b.Len())
		}
	}
}

func TestPartsRefuse(t *testing.T) {
	cases := []struct{ name, contentType, body string }{
		{"another type", "multipart/form-data; boundary=b", "--b\r\n\r\n\r\n--b--\r\n"},
		{"no boundary", "multipart/mixed", "--b\r\n\r\n\r\n--b--\r\n"},
		{"no type", "", "--b\r\n\r\n\r\n--b--\r\n"},
		{"another boundary", "multipart/mixed; boundary=b", "--c\r\n\r\n\r\n--c--\r\n"},
		{"text behind the boundary", "multipart/mixed; boundary=b", "--b\r\n\r\n\r\n--bc\r\n\r\n--b--\r\n"},
		{"field without colon", "multipart/mixed; boundary=b", "--b\r\nContent\r\n\r\n\r\n--b--\r\n"},
		{"two lengths", "multipart/mixed; boundary=b", "--b\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n\r\n--b--\r\n"},
	}
	for _, c := range cases {
		if got, err := readParts(c.contentType, []byte(c.body)); err == nil {
			t.Errorf("%s: accepted as %q", c.name, got)
		}
	}
}

// What our reader accepts, the standard library reads in the same way.
func FuzzParts(f *testing.F) {
	f.Add([]byte("--b\r\nContent-Location: /x\r\n\r\nHello\r\n--b\r\n\r\n\r\n--b--"))
	f.Add([]byte("--b\r\nContent-Length: 2\r\n\r\n\r\n\r\n--b--\r\nepilogue"))
	f.Add([]byte("--b\r\nA: b\r\n\r\n--b\r\n--b--\r\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := readParts("multipart/mixed; boundary=b", body)
		if err != nil {
			return
		}
		r := multipart.NewReader(bytes.NewReader(body), "b")
		for i, p := range got {
			want, err := r.NextRawPart()
			if err != nil {
				t.Fatalf("part %d: accepted what mime/multipart refuses: %v", i, err)
			}
			b, err := io.ReadAll(want)
			if err != nil || string(b) != p.body {
				t.Fatalf("part %d: got %q, want %q, %v", i, p.body, b, err)
			}
		}
		if _, err := r.NextRawPart(); err != io.EOF {
			t.Fatalf("behind %d parts: %v, want io.EOF", len(got), err)
		}
	})
}

func TestBoundaryMayBeQuoted(t *testing.T) {
	contentType := mime.FormatMediaType("multipart/mixed", map[string]string{"boundary": "a b:c"})
	got, err := readParts(contentType, []byte("--a b:c\r\n\r\nHello\r\n--a b:c--\r\n"))
	if err != nil || len(got) != 1 || got[0].body != "Hello" {
		t.Errorf("got %q, %v", got, err)
	}
}
