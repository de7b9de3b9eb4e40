package lanes_test

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"cutie/queuefs/lanes"
)

// octets returns n octets that look like nothing.
func octets(seed uint64, n int) []byte {
	var key [32]byte
	key[0], key[1] = byte(seed), byte(seed>>8)
	p := make([]byte, n)
	rand.NewChaCha8(key).Read(p)
	return p
}

// Streams of all lengths, in pieces of all sizes, alone and beside many
// others, have the digests that the standard library computes.
func TestSameAsAlone(t *testing.T) {
	for _, streams := range []int{1, 2, 3, 8, 9, 40} {
		t.Run(fmt.Sprint(streams, " streams"), func(t *testing.T) {
			var wg sync.WaitGroup
			for i := range streams {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(uint64(i), uint64(streams)))
					h := lanes.New()
					for range 20 {
						data := octets(r.Uint64(), r.IntN(300_000))
						h.Reset()
						for p := data; len(p) > 0; {
							n := min(len(p), 1+r.IntN(1<<(1+r.IntN(18))))
							if k, err := h.Write(p[:n]); k != n || err != nil {
								t.Errorf("Write of %d octets: %d, %v", n, k, err)
							}
							p = p[n:]
							if r.IntN(8) == 0 {
								compare(t, h, data[:len(data)-len(p)])
							}
						}
						compare(t, h, data)
					}
				})
			}
			wg.Wait()
		})
	}
}

func compare(t *testing.T, h *lanes.Sums, data []byte) {
	t.Helper()
	if got, want := h.MD5(nil), md5.Sum(data); !bytes.Equal(got, want[:]) {
		t.Errorf("MD5 of %d octets is %x, not %x", len(data), got, want)
	}
	if got, want := h.SHA256(nil), sha256.Sum256(data); !bytes.Equal(got, want[:]) {
		t.Errorf("SHA-256 of %d octets is %x, not %x", len(data), got, want)
	}
}

func FuzzSameAsAlone(f *testing.F) {
	f.Add(uint64(1), 100_000, 64<<10, 3)
	f.Add(uint64(2), 64<<10, 8<<10, 8)
	f.Add(uint64(3), 8191, 8192, 2)
	f.Fuzz(func(t *testing.T, seed uint64, size, piece, streams int) {
		if size < 0 || size > 1<<20 || piece < 1 || piece > 1<<20 || size/piece > 1<<12 || streams < 1 || streams > 20 {
			t.Skip()
		}
		var wg sync.WaitGroup
		for i := range streams {
			wg.Go(func() {
				data := octets(seed+uint64(i), size)
				h := lanes.New()
				for p := data; len(p) > 0; p = p[min(len(p), piece):] {
					h.Write(p[:min(len(p), piece)])
				}
				compare(t, h, data)
			})
		}
		wg.Wait()
	})
}

// What was written is read, and nothing kept of it.
func TestLeavesInputAlone(t *testing.T) {
	data := octets(1, 100_000)
	was := bytes.Clone(data)
	h := lanes.New()
	h.Write(data)
	clear(data)
	compare(t, h, was)
}

// alone are the hashes of the standard library.
type alone struct{ md5, sha hash.Hash }

func (a alone) Write(p []byte) (int, error) {
	a.md5.Write(p)
	return a.sha.Write(p)
}

func BenchmarkSums(b *testing.B) {
	for _, kind := range []struct {
		name string
		new  func() io.Writer
	}{{"alone", func() io.Writer { return alone{md5.New(), sha256.New()} }}, {"lanes", func() io.Writer { return lanes.New() }}} {
		for _, size := range []int{8 << 10, 64 << 10, 256 << 10} {
			for _, streams := range []int{1, 2, 4, 8, 64} {
				b.Run(fmt.Sprintf("%s/size=%d/streams=%d", kind.name, size, streams), func(b *testing.B) {
					b.SetBytes(int64(size))
					work := make(chan int)
					var wg sync.WaitGroup
					for range streams {
						wg.Go(func() {
							h, piece := kind.new(), make([]byte, size)
							for range work {
								h.Write(piece)
							}
						})
					}
					for b.Loop() {
						work <- 1
					}
					close(work)
					wg.Wait()
				})
			}
		}
	}
}

// A hash may be kept and used again anywhere, also where channels may not.
func TestHashLeavesABubble(t *testing.T) {
	var hashes []*lanes.Sums
	data := octets(1, 100_000)
	use := func() {
		var wg sync.WaitGroup
		for _, h := range hashes {
			wg.Go(func() {
				h.Reset()
				h.Write(data)
				compare(t, h, data)
			})
		}
		wg.Wait()
	}
	synctest.Test(t, func(*testing.T) {
		for range 20 {
			hashes = append(hashes, lanes.New())
		}
		use()
	})
	use()
}
