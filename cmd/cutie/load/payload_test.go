package load_test

import (
	"bytes"
	"compress/flate"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"cutie/cmd/cutie/load"
)

func newPayload(t *testing.T, size int) *load.Payload {
	t.Helper()
	p, err := load.NewPayload(size)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// jobs returns n payloads of client number client.
func jobs(p *load.Payload, client, n int) (all [][]byte) {
	s := p.Source(client)
	for range n {
		var m load.Message
		var b bytes.Buffer
		m.AddJob(s)
		m.WriteTo(&b)
		all = append(all, b.Bytes())
	}
	return all
}

func TestPayloadsHaveTheirSizeAndDiffer(t *testing.T) {
	for _, size := range []int{8, 31, 32, 33, 1024, 16 << 10, 70000} {
		p := newPayload(t, size)
		seen := make(map[string]bool)
		for _, j := range append(jobs(p, 0, 100), jobs(newPayload(t, size), 0, 100)...) {
			if len(j) != size {
				t.Fatalf("size %d: %d octets", size, len(j))
			}
			seen[string(j)] = true
		}
		// The shortest have no room for what tells runs apart.
		if want := 200; len(seen) != want && size >= 32 || len(seen) < 100 {
			t.Errorf("size %d: %d different payloads of %d", size, len(seen), want)
		}
	}
}

func TestPayloadsDoNotCompress(t *testing.T) {
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, flate.BestCompression)
	j := jobs(newPayload(t, 64<<10), 3, 1)[0]
	w.Write(j)
	w.Close()
	if b.Len() < len(j) {
		t.Errorf("%d octets compress to %d", len(j), b.Len())
	}
}

func TestPayloadSizeIsLimited(t *testing.T) {
	for _, size := range []int{-1, load.MaxSize + 1} {
		if _, err := load.NewPayload(size); err == nil {
			t.Errorf("size %d is accepted", size)
		}
	}
}

func TestMessageIsWrittenWholeAndCanBeUsedAgain(t *testing.T) {
	for _, size := range []int{10, 1000, 100_000} {
		p := newPayload(t, size)
		s := p.Source(1)
		var m load.Message
		for n := range 4 {
			m.Reset()
			want := 0
			for range n {
				m.Add([]byte("head "), []byte("more "))
				m.AddJob(s)
				m.Add([]byte("\r\n"))
				want += len("head more \r\n") + size
			}
			for range 2 { // writing does not use it up
				var b bytes.Buffer
				written, err := m.WriteTo(&b)
				if err != nil || int(written) != want || b.Len() != want || m.Len() != want {
					t.Fatalf("size %d, %d jobs: wrote %d, %d arrived, Len %d, %v; want %d", size, n, written, b.Len(), m.Len(), err, want)
				}
				for rest := b.Bytes(); len(rest) > 0; rest = rest[size+12:] {
					if !bytes.HasPrefix(rest, []byte("head more ")) || string(rest[size+10:size+12]) != "\r\n" {
						t.Fatalf("size %d, %d jobs: texts and payloads are out of order", size, n)
					}
				}
			}
		}
	}
}

func TestCheckerFindsEveryChange(t *testing.T) {
	p := newPayload(t, 1000)
	good := jobs(p, 7, 1)[0]
	check := func(p *load.Payload, b []byte) error {
		c := p.Checker()
		c.Copy(bytes.NewReader([]byte("what came before")), -1)
		err := c.Copy(iotest.OneByteReader(bytes.NewReader(b)), -1)
		if whole := c.Copy(bytes.NewReader(b), int64(len(b))); (whole == nil) != (err == nil) {
			t.Errorf("octet by octet: %v, at once: %v", err, whole)
		}
		return err
	}
	if err := check(p, good); err != nil {
		t.Errorf("unchanged: %v", err)
	}
	if err := check(newPayload(t, 5000), good); err != nil {
		t.Errorf("of another run: %v", err)
	}
	if err := check(p, []byte("not of ours, but long enough to have a stamp")); err != nil {
		t.Errorf("of another maker: %v", err)
	}
	for i := 32; i < len(good); i++ {
		bad := bytes.Clone(good)
		bad[i] ^= 1
		if err := check(p, bad); !errors.Is(err, load.ErrPayload) {
			t.Fatalf("octet %d changed: %v", i, err)
		}
	}
	if err := check(p, good[:999]); !errors.Is(err, load.ErrPayload) {
		t.Errorf("one octet short: %v", err)
	}
	if err := check(p, append(bytes.Clone(good), 0)); !errors.Is(err, load.ErrPayload) {
		t.Errorf("one octet more: %v", err)
	}
	if err := p.Checker().Copy(bytes.NewReader(good[:500]), 1000); err != io.ErrUnexpectedEOF {
		t.Errorf("cut off: %v, want io.ErrUnexpectedEOF", err)
	}
}
