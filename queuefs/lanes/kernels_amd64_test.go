//go:build !purego

package lanes

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"sync"
	"testing"
)

// TestOlderProcessors hashes without some of the instructions, beside others.
func TestOlderProcessors(t *testing.T) {
	hadVectors, hadSHA := vectors, shaNI
	defer func() { vectors, shaNI = hadVectors, hadSHA }()
	for i := range 4 {
		vectors, shaNI = hadVectors && i&1 == 0, hadSHA && i&2 == 0
		var wg sync.WaitGroup
		for n := range 11 {
			wg.Go(func() {
				data := bytes.Repeat([]byte{byte(n), 1, 2}, 40_000+10_001*n)
				s := New()
				s.Write(data[:n])
				s.Write(data[n:])
				m, h := md5.Sum(data), sha256.Sum256(data)
				if !bytes.Equal(s.MD5(nil), m[:]) || !bytes.Equal(s.SHA256(nil), h[:]) {
					t.Errorf("vectors %v, SHA-NI %v: other digests of %d octets", vectors, shaNI, len(data))
				}
			})
		}
		wg.Wait()
	}
}
