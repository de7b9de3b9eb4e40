package lanes

import (
	"encoding"
	"encoding/binary"
	"hash"
)

// What the standard library writes of the state of a hash: the name of the
// format, the words, the block that is not full yet, the octets so far.
const (
	wordsAt  = 4
	maxWords = 8
	maxState = wordsAt + 4*maxWords + blockSize + 8
)

func stateLen(words int) int { return wordsAt + 4*words + blockSize + 8 }

// load reads the words of the state of h, which is at the end of a block.
func (s *Sums) load(h hash.Hash, words []uint32) {
	state, err := h.(encoding.BinaryAppender).AppendBinary(s.state[:0])
	if err != nil || len(state) != stateLen(len(words)) {
		panic("state of a hash is not what it was") // the standard library keeps its formats
	}
	for i := range words {
		words[i] = binary.BigEndian.Uint32(state[wordsAt+4*i:])
	}
}

// store gives h the words that n more octets led to.
func (s *Sums) store(h hash.Hash, words []uint32, n int) {
	state, err := h.(encoding.BinaryAppender).AppendBinary(s.state[:0])
	if err != nil {
		panic(err)
	}
	for i, w := range words {
		binary.BigEndian.PutUint32(state[wordsAt+4*i:], w)
	}
	length := state[len(state)-8:]
	binary.BigEndian.PutUint64(length, binary.BigEndian.Uint64(length)+uint64(n))
	if err := h.(encoding.BinaryUnmarshaler).UnmarshalBinary(state); err != nil {
		panic(err)
	}
}

// shaOrder is where the kernel wants each word of a SHA-256: F, E, B, A, H, G,
// D, C.
var shaOrder = [8]int{3, 2, 7, 6, 1, 0, 5, 4}
