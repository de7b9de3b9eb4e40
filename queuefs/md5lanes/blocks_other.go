//go:build !amd64 || purego

package md5lanes

import "unsafe"

const vectors = false

func blocks8(state *[4][lanes]uint32, data *[lanes]unsafe.Pointer, n int) {
	panic("no vectors")
}
