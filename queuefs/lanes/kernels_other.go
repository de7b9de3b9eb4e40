//go:build !amd64 || purego

package lanes

import "unsafe"

const vectors, shaNI = false, false

func md5x8(state *[4][lanes]uint32, data *[lanes]unsafe.Pointer, n int) { panic("no vectors") }

func sha256x2(a, b *[8]uint32, p, q unsafe.Pointer, n int) { panic("no SHA-NI") }
