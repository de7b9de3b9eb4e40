package main

import (
	"bytes"
	"compress/flate"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

// jobs returns n payloads of client number client.
func jobs(p *payloads, client, n int) (all [][]byte) {
	s := p.source(client)
	for range n {
		stamp, rest := s.next()
		all = append(all, append(stamp, rest...))
	}
	return all
}

func TestPayloadsHaveTheirSizeAndDiffer(t *testing.T) {
	for _, size := range []int{8, 31, 32, 33, 1024, 16 << 10, 70000} {
		p := newPayloads(size)
		seen := make(map[string]bool)
		for _, j := range append(jobs(p, 0, 100), jobs(newPayloads(size), 0, 100)...) {
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
	j := jobs(newPayloads(64<<10), 3, 1)[0]
	w.Write(j)
	w.Close()
	if b.Len() < len(j) {
		t.Errorf("%d octets compress to %d", len(j), b.Len())
	}
}

func TestCheckerFindsEveryChange(t *testing.T) {
	p := newPayloads(1000)
	good := jobs(p, 7, 1)[0]
	check := func(p *payloads, b []byte) error {
		s := p.source(0)
		s.check(bytes.NewReader([]byte("the one before")))
		err := s.check(iotest.OneByteReader(bytes.NewReader(b)))
		if whole := s.check(bytes.NewReader(b)); (whole == nil) != (err == nil) {
			t.Errorf("octet by octet: %v, at once: %v", err, whole)
		}
		return err
	}
	if err := check(p, good); err != nil {
		t.Errorf("unchanged: %v", err)
	}
	if err := check(newPayloads(5000), good); err != nil {
		t.Errorf("of another run: %v", err)
	}
	if err := check(p, []byte("not of ours, but long enough to have a stamp")); err != nil {
		t.Errorf("of another maker: %v", err)
	}
	for i := 32; i < len(good); i++ {
		bad := bytes.Clone(good)
		bad[i] ^= 1
		if err := check(p, bad); !errors.Is(err, errPayload) {
			t.Fatalf("octet %d changed: %v", i, err)
		}
	}
	if err := check(p, good[:999]); !errors.Is(err, errPayload) {
		t.Errorf("one octet short: %v", err)
	}
	if err := check(p, append(bytes.Clone(good), 0)); !errors.Is(err, errPayload) {
		t.Errorf("one octet more: %v", err)
	}
	broken := io.MultiReader(bytes.NewReader(good[:500]), iotest.ErrReader(io.ErrUnexpectedEOF))
	if err := p.source(0).check(broken); err != io.ErrUnexpectedEOF {
		t.Errorf("cut off: %v, want io.ErrUnexpectedEOF", err)
	}
}
