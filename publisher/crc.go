package publisher

// CRC-32 (RFC 1952, 8) is the remainder of a text, taken as a polynomial over
// GF(2). So that of two texts, one behind the other, follows from theirs: that
// of the first is multiplied by x as often as the second has bits, that of the
// second is added. As there, the highest bit of a number is the coefficient
// of 1.

// behind returns by what a CRC-32 is multiplied when n octets follow. It takes
// 30 times as long as a product.
func behind(n uint32) uint32 {
	p := uint32(1) << 31
	square := uint32(1) << (31 - 8) // x to the power of 8
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			p = product(p, square)
		}
		square = product(square, square)
	}
	return p
}

// product returns a times b modulo the polynomial of CRC-32.
func product(a, b uint32) (p uint32) {
	const polynomial = 0xedb88320
	for ; a != 0; a <<= 1 {
		p ^= b & -(a >> 31)
		b = b>>1 ^ polynomial&-(b&1)
	}
	return p
}
