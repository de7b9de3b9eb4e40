//go:build !purego

package md5lanes

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// vectors tells whether blocks8 runs on this processor.
var vectors = cpu.X86.HasAVX2

//go:noescape
func blocks8(state *[4][lanes]uint32, data *[lanes]unsafe.Pointer, n int)
