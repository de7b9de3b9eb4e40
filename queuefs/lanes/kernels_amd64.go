//go:build !purego

package lanes

import (
	"unsafe"

	"github.com/klauspost/cpuid/v2"
)

// Whether the kernels run on this processor.
var (
	vectors = cpuid.CPU.Supports(cpuid.AVX2)
	shaNI   = cpuid.CPU.Supports(cpuid.SHA, cpuid.SSSE3)
)

//go:noescape
func md5x8(state *[4][lanes]uint32, data *[lanes]unsafe.Pointer, n int)

//go:noescape
func sha256x2(a, b *[8]uint32, p, q unsafe.Pointer, n int)
