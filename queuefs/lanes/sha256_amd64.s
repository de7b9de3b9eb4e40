//go:build !purego

#include "textflag.h"

// Two streams at a time: an instruction waits for the one before it of its own
// stream, and not for those of the other. The state of the first is in X1 (the
// words A, B, E, F, from the top) and X2 (C, D, G, H), its words of the message
// are in X3 to X6; of the second in X7, X8, X9 to X12.

// ROUNDS does four rounds: the words of the message in m, k the offset of their
// constants.
#define ROUNDS(abef, cdgh, m, k) \
	MOVOU       k(BX), X0; \
	PADDL       m, X0; \
	SHA256RNDS2 X0, abef, cdgh; \
	PSHUFD      $0x0e, X0, X0; \
	SHA256RNDS2 X0, cdgh, abef

// WORDS reads the four words at p+off.
#define WORDS(p, off, m) \
	MOVOU  off(p), m; \
	PSHUFB X13, m

// FINISH makes m2 the next four words, FIPS 180-4, 6.2.2, after SHA256MSG1 has
// begun them; NEXT also begins those after them in m0.
#define FINISH(m0, m1, m2) \
	MOVO       m1, X14; \
	PALIGNR    $4, m0, X14; \
	PADDL      X14, m2; \
	SHA256MSG2 m1, m2

#define NEXT(m0, m1, m2) \
	FINISH(m0, m1, m2); \
	SHA256MSG1 m1, m0

// func sha256x2(a, b *[8]uint32, p, q unsafe.Pointer, n int)
//
// Adds n blocks at p to state a, and n blocks at q to state b, which may be the
// same.
TEXT ·sha256x2(SB), 0, $64-40
	MOVQ  a+0(FP), DI
	MOVQ  b+8(FP), SI
	MOVQ  p+16(FP), R8
	MOVQ  q+24(FP), R9
	MOVQ  n+32(FP), CX
	LEAQ  ·cubeRoots(SB), BX
	MOVOU 0(DI), X1
	MOVOU 16(DI), X2
	MOVOU 0(SI), X7
	MOVOU 16(SI), X8
	MOVOU flip<>(SB), X13

block:
	TESTQ CX, CX
	JZ    done
	MOVOU X1, 0(SP)
	MOVOU X2, 16(SP)
	MOVOU X7, 32(SP)
	MOVOU X8, 48(SP)

	WORDS(R8, 0, X3)
	WORDS(R9, 0, X9)
	ROUNDS(X1, X2, X3, 0)
	ROUNDS(X7, X8, X9, 0)
	WORDS(R8, 16, X4)
	WORDS(R9, 16, X10)
	ROUNDS(X1, X2, X4, 16)
	ROUNDS(X7, X8, X10, 16)
	SHA256MSG1 X4, X3
	SHA256MSG1 X10, X9
	WORDS(R8, 32, X5)
	WORDS(R9, 32, X11)
	ROUNDS(X1, X2, X5, 32)
	ROUNDS(X7, X8, X11, 32)
	SHA256MSG1 X5, X4
	SHA256MSG1 X11, X10
	WORDS(R8, 48, X6)
	WORDS(R9, 48, X12)
	ROUNDS(X1, X2, X6, 48)
	ROUNDS(X7, X8, X12, 48)
	NEXT(X5, X6, X3)
	NEXT(X11, X12, X9)
	ROUNDS(X1, X2, X3, 64)
	ROUNDS(X7, X8, X9, 64)
	NEXT(X6, X3, X4)
	NEXT(X12, X9, X10)
	ROUNDS(X1, X2, X4, 80)
	ROUNDS(X7, X8, X10, 80)
	NEXT(X3, X4, X5)
	NEXT(X9, X10, X11)
	ROUNDS(X1, X2, X5, 96)
	ROUNDS(X7, X8, X11, 96)
	NEXT(X4, X5, X6)
	NEXT(X10, X11, X12)
	ROUNDS(X1, X2, X6, 112)
	ROUNDS(X7, X8, X12, 112)
	NEXT(X5, X6, X3)
	NEXT(X11, X12, X9)
	ROUNDS(X1, X2, X3, 128)
	ROUNDS(X7, X8, X9, 128)
	NEXT(X6, X3, X4)
	NEXT(X12, X9, X10)
	ROUNDS(X1, X2, X4, 144)
	ROUNDS(X7, X8, X10, 144)
	NEXT(X3, X4, X5)
	NEXT(X9, X10, X11)
	ROUNDS(X1, X2, X5, 160)
	ROUNDS(X7, X8, X11, 160)
	NEXT(X4, X5, X6)
	NEXT(X10, X11, X12)
	ROUNDS(X1, X2, X6, 176)
	ROUNDS(X7, X8, X12, 176)
	NEXT(X5, X6, X3)
	NEXT(X11, X12, X9)
	ROUNDS(X1, X2, X3, 192)
	ROUNDS(X7, X8, X9, 192)
	NEXT(X6, X3, X4)
	NEXT(X12, X9, X10)
	ROUNDS(X1, X2, X4, 208)
	ROUNDS(X7, X8, X10, 208)
	FINISH(X3, X4, X5)
	FINISH(X9, X10, X11)
	ROUNDS(X1, X2, X5, 224)
	ROUNDS(X7, X8, X11, 224)
	FINISH(X4, X5, X6)
	FINISH(X10, X11, X12)
	ROUNDS(X1, X2, X6, 240)
	ROUNDS(X7, X8, X12, 240)

	MOVOU 0(SP), X3
	PADDL X3, X1
	MOVOU 16(SP), X3
	PADDL X3, X2
	MOVOU 32(SP), X3
	PADDL X3, X7
	MOVOU 48(SP), X3
	PADDL X3, X8
	ADDQ  $64, R8
	ADDQ  $64, R9
	DECQ  CX
	JMP   block

done:
	MOVOU X1, 0(DI)
	MOVOU X2, 16(DI)
	MOVOU X7, 0(SI)
	MOVOU X8, 16(SI)
	RET

// The octets of a word the other way round.
DATA flip<>+0(SB)/8, $0x0405060700010203
DATA flip<>+8(SB)/8, $0x0c0d0e0f08090a0b
GLOBL flip<>(SB), RODATA|NOPTR, $16
