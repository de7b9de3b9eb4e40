package compose

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	reference "compress/flate"

	"github.com/klauspost/compress/flate"
)

// blocksOf returns a text as blocks, without a last one.
func blocksOf(t testing.TB, level int, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, level)
	if err != nil {
		t.Fatal(err)
	}
	w.Write(text)
	w.Flush()
	return out.Bytes()
}

// someTexts are texts with blocks of all kinds.
func someTexts() map[string][]byte {
	random := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 3000)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	skewed := make([]byte, 40_000) // codes of 15 bits
	for i := range skewed {
		skewed[i] = byte(min(random.ExpFloat64()*2, 255))
	}
	var entries []byte
	for i := range 120 {
		entries = fmt.Appendf(entries, "<url><loc>http://source.test/%d</loc><rs:md hash=\"%x\"/></url>\n", i, sha256.Sum256([]byte{byte(i)}))
	}
	return map[string][]byte{
		"nothing": nil, "short": []byte("a"), "fixed": []byte("abcabcabcabcabd"), "run": bytes.Repeat([]byte("x"), 70_000),
		"noise": noise, "skewed": skewed, "entries": entries, "noise and run": append(slices.Clone(noise), make([]byte, 500)...),
	}
}

// TestProofAcceptsTheTextAlone compares texts with their blocks, and with blocks of other
// texts, at all levels.
func TestProofAcceptsTheTextAlone(t *testing.T) {
	t.Parallel()
	p := proofs.Get().(*proof)
	for name, text := range someTexts() {
		for level := flate.HuffmanOnly; level <= flate.BestCompression; level++ {
			blocks := blocksOf(t, level, text)
			if !p.holds(blocks, text) {
				t.Errorf("%s, level %d: refused", name, level)
			}
			if p.holds(blocks, append(slices.Clone(text), 'x')) || p.holds(append(slices.Clone(blocks), 0), text) {
				t.Errorf("%s, level %d: a longer one is accepted", name, level)
			}
			if len(text) == 0 {
				continue
			}
			other := slices.Clone(text)
			other[len(other)/2] ^= 1
			if p.holds(blocks, other) || p.holds(blocks, text[:len(text)-1]) || p.holds(blocks[:len(blocks)-1], text) {
				t.Errorf("%s, level %d: another one is accepted", name, level)
			}
		}
		if gz := compress(text); !isGzip(gz, text) || isGzip(gz, append([]byte("x"), text...)) {
			t.Errorf("%s: not the gzip of its text", name)
		}
	}
}

// agrees compares a proof with the reference decoder: accepted blocks give the text there,
// and end.
func agrees(t *testing.T, p *proof, blocks, text []byte) (accepted bool) {
	t.Helper()
	if !p.holds(blocks, text) {
		return false
	}
	in := bytes.NewReader(append(slices.Clone(blocks), lastBlock...))
	got, err := io.ReadAll(reference.NewReader(in))
	if err != nil || !bytes.Equal(got, text) || in.Len() > 0 {
		t.Fatalf("accepted %x for %q: reference gives %q, %v, and leaves %d octets", blocks, text, got, err, in.Len())
	}
	return true
}

// TestProofRefusesWhatReadersRefuse flips each bit of blocks of all kinds.
func TestProofRefusesWhatReadersRefuse(t *testing.T) {
	t.Parallel()
	p := proofs.Get().(*proof)
	for name, text := range someTexts() {
		text = text[:min(len(text), 1500)]
		blocks := blocksOf(t, gzipLevel, text)
		flips := 0
		for i := range len(blocks) * 8 {
			blocks[i/8] ^= 1 << (i % 8)
			if agrees(t, p, blocks, text) {
				flips++
			}
			blocks[i/8] ^= 1 << (i % 8)
		}
		if !agrees(t, p, blocks, text) || flips > len(blocks) {
			t.Errorf("%s: %d flipped bits of %d octets say the same", name, flips, len(blocks))
		}
	}
}

func FuzzProof(f *testing.F) {
	for _, text := range someTexts() {
		text = text[:min(len(text), 300)]
		f.Add(blocksOf(f, gzipLevel, text), text)
	}
	f.Fuzz(func(t *testing.T, blocks, text []byte) {
		p := proofs.Get().(*proof)
		defer proofs.Put(p)
		agrees(t, p, blocks, text)
		if !p.holds(blocksOf(t, gzipLevel, text), text) {
			t.Errorf("its blocks are refused for %q", text)
		}
		if got, err := io.ReadAll(io.LimitReader(reference.NewReader(bytes.NewReader(append(slices.Clone(blocks), lastBlock...))), 1<<20)); err == nil {
			agrees(t, p, blocks, got)
		}
	})
}

func BenchmarkProof(b *testing.B) {
	var text []byte
	for i := 0; len(text) < 64<<10; i++ {
		text = fmt.Appendf(text, "<url><loc>http://source.test/queues/jobs/payload/%012d</loc><lastmod>2026-11-26T10:11:12.%06dZ</lastmod>"+
			"<rs:md change=\"created\" datetime=\"2026-11-26T10:11:12.%06dZ\" hash=\"sha-256:%x\" length=\"1024\"/></url>\n", i, i*37, i*37, sha256.Sum256([]byte{byte(i), byte(i >> 8)}))
	}
	gz := compress(text)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if !isGzip(gz, text) {
			b.Fatal("refused")
		}
	}
}
