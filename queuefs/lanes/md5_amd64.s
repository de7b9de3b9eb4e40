//go:build !purego

#include "textflag.h"

// Eight streams at a time: a register of AVX2 holds one word of each. The
// state is A, B, C, D in Y0 to Y3, each step turns them by one.

// NEXT adds f, which is in Y8, the word of the message and the constant to a,
// turns it by s and adds b (RFC 1321, 3.4).
#define NEXT(a, b, word, constant, s) \
	VPADDD       (word*32)(SP), a, a; \
	VPBROADCASTD ·sines+(constant*4)(SB), Y9; \
	VPADDD       Y9, a, a; \
	VPADDD       Y8, a, a; \
	VPSLLD       $s, a, Y9; \
	VPSRLD       $(32-s), a, a; \
	VPOR         Y9, a, a; \
	VPADDD       b, a, a

// F is (b AND c) OR (NOT b AND d).
#define F(a, b, c, d, word, constant, s) \
	VPXOR c, d, Y8; \
	VPAND b, Y8, Y8; \
	VPXOR d, Y8, Y8; \
	NEXT(a, b, word, constant, s)

// G is (b AND d) OR (c AND NOT d).
#define G(a, b, c, d, word, constant, s) \
	VPXOR b, c, Y8; \
	VPAND d, Y8, Y8; \
	VPXOR c, Y8, Y8; \
	NEXT(a, b, word, constant, s)

// H is b XOR c XOR d.
#define H(a, b, c, d, word, constant, s) \
	VPXOR c, d, Y8; \
	VPXOR b, Y8, Y8; \
	NEXT(a, b, word, constant, s)

// I is c XOR (b OR NOT d); Y10 is all ones.
#define I(a, b, c, d, word, constant, s) \
	VPXOR Y10, d, Y8; \
	VPOR  b, Y8, Y8; \
	VPXOR c, Y8, Y8; \
	NEXT(a, b, word, constant, s)

// WORDS makes, of the eight words at off in the blocks of all streams, eight
// registers with one word of each stream, and puts them to the stack.
#define WORDS(off) \
	VMOVDQU     off(R8), Y0; \
	VMOVDQU     off(R9), Y1; \
	VMOVDQU     off(R10), Y2; \
	VMOVDQU     off(R11), Y3; \
	VMOVDQU     off(R12), Y4; \
	VMOVDQU     off(R13), Y5; \
	VMOVDQU     off(AX), Y6; \
	VMOVDQU     off(BX), Y7; \
	VPUNPCKLDQ  Y1, Y0, Y8; \
	VPUNPCKHDQ  Y1, Y0, Y9; \
	VPUNPCKLDQ  Y3, Y2, Y10; \
	VPUNPCKHDQ  Y3, Y2, Y11; \
	VPUNPCKLDQ  Y5, Y4, Y12; \
	VPUNPCKHDQ  Y5, Y4, Y13; \
	VPUNPCKLDQ  Y7, Y6, Y14; \
	VPUNPCKHDQ  Y7, Y6, Y15; \
	VPUNPCKLQDQ Y10, Y8, Y0; \
	VPUNPCKHQDQ Y10, Y8, Y1; \
	VPUNPCKLQDQ Y11, Y9, Y2; \
	VPUNPCKHQDQ Y11, Y9, Y3; \
	VPUNPCKLQDQ Y14, Y12, Y4; \
	VPUNPCKHQDQ Y14, Y12, Y5; \
	VPUNPCKLQDQ Y15, Y13, Y6; \
	VPUNPCKHQDQ Y15, Y13, Y7; \
	HALVES(Y0, Y4, off, 0); \
	HALVES(Y1, Y5, off, 1); \
	HALVES(Y2, Y6, off, 2); \
	HALVES(Y3, Y7, off, 3)

// HALVES joins the lower and the upper halves of x and y: words n and n+4.
#define HALVES(x, y, off, n) \
	VPERM2I128 $0x20, y, x, Y8; \
	VPERM2I128 $0x31, y, x, Y9; \
	VMOVDQU    Y8, (off*8+n*32)(SP); \
	VMOVDQU    Y9, (off*8+n*32+128)(SP)

// func md5x8(state *[4][lanes]uint32, data *[lanes]unsafe.Pointer, n int)
//
// Adds n blocks of each stream to its state.
TEXT ·md5x8(SB), 0, $512-24
	MOVQ state+0(FP), DI
	MOVQ data+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ 0(SI), R8
	MOVQ 8(SI), R9
	MOVQ 16(SI), R10
	MOVQ 24(SI), R11
	MOVQ 32(SI), R12
	MOVQ 40(SI), R13
	MOVQ 48(SI), AX
	MOVQ 56(SI), BX

block:
	TESTQ CX, CX
	JZ    done
	WORDS(0)
	WORDS(32)
	VMOVDQU  0(DI), Y0
	VMOVDQU  32(DI), Y1
	VMOVDQU  64(DI), Y2
	VMOVDQU  96(DI), Y3
	VPCMPEQD Y10, Y10, Y10

	F(Y0, Y1, Y2, Y3, 0, 0, 7)
	F(Y3, Y0, Y1, Y2, 1, 1, 12)
	F(Y2, Y3, Y0, Y1, 2, 2, 17)
	F(Y1, Y2, Y3, Y0, 3, 3, 22)
	F(Y0, Y1, Y2, Y3, 4, 4, 7)
	F(Y3, Y0, Y1, Y2, 5, 5, 12)
	F(Y2, Y3, Y0, Y1, 6, 6, 17)
	F(Y1, Y2, Y3, Y0, 7, 7, 22)
	F(Y0, Y1, Y2, Y3, 8, 8, 7)
	F(Y3, Y0, Y1, Y2, 9, 9, 12)
	F(Y2, Y3, Y0, Y1, 10, 10, 17)
	F(Y1, Y2, Y3, Y0, 11, 11, 22)
	F(Y0, Y1, Y2, Y3, 12, 12, 7)
	F(Y3, Y0, Y1, Y2, 13, 13, 12)
	F(Y2, Y3, Y0, Y1, 14, 14, 17)
	F(Y1, Y2, Y3, Y0, 15, 15, 22)

	G(Y0, Y1, Y2, Y3, 1, 16, 5)
	G(Y3, Y0, Y1, Y2, 6, 17, 9)
	G(Y2, Y3, Y0, Y1, 11, 18, 14)
	G(Y1, Y2, Y3, Y0, 0, 19, 20)
	G(Y0, Y1, Y2, Y3, 5, 20, 5)
	G(Y3, Y0, Y1, Y2, 10, 21, 9)
	G(Y2, Y3, Y0, Y1, 15, 22, 14)
	G(Y1, Y2, Y3, Y0, 4, 23, 20)
	G(Y0, Y1, Y2, Y3, 9, 24, 5)
	G(Y3, Y0, Y1, Y2, 14, 25, 9)
	G(Y2, Y3, Y0, Y1, 3, 26, 14)
	G(Y1, Y2, Y3, Y0, 8, 27, 20)
	G(Y0, Y1, Y2, Y3, 13, 28, 5)
	G(Y3, Y0, Y1, Y2, 2, 29, 9)
	G(Y2, Y3, Y0, Y1, 7, 30, 14)
	G(Y1, Y2, Y3, Y0, 12, 31, 20)

	H(Y0, Y1, Y2, Y3, 5, 32, 4)
	H(Y3, Y0, Y1, Y2, 8, 33, 11)
	H(Y2, Y3, Y0, Y1, 11, 34, 16)
	H(Y1, Y2, Y3, Y0, 14, 35, 23)
	H(Y0, Y1, Y2, Y3, 1, 36, 4)
	H(Y3, Y0, Y1, Y2, 4, 37, 11)
	H(Y2, Y3, Y0, Y1, 7, 38, 16)
	H(Y1, Y2, Y3, Y0, 10, 39, 23)
	H(Y0, Y1, Y2, Y3, 13, 40, 4)
	H(Y3, Y0, Y1, Y2, 0, 41, 11)
	H(Y2, Y3, Y0, Y1, 3, 42, 16)
	H(Y1, Y2, Y3, Y0, 6, 43, 23)
	H(Y0, Y1, Y2, Y3, 9, 44, 4)
	H(Y3, Y0, Y1, Y2, 12, 45, 11)
	H(Y2, Y3, Y0, Y1, 15, 46, 16)
	H(Y1, Y2, Y3, Y0, 2, 47, 23)

	I(Y0, Y1, Y2, Y3, 0, 48, 6)
	I(Y3, Y0, Y1, Y2, 7, 49, 10)
	I(Y2, Y3, Y0, Y1, 14, 50, 15)
	I(Y1, Y2, Y3, Y0, 5, 51, 21)
	I(Y0, Y1, Y2, Y3, 12, 52, 6)
	I(Y3, Y0, Y1, Y2, 3, 53, 10)
	I(Y2, Y3, Y0, Y1, 10, 54, 15)
	I(Y1, Y2, Y3, Y0, 1, 55, 21)
	I(Y0, Y1, Y2, Y3, 8, 56, 6)
	I(Y3, Y0, Y1, Y2, 15, 57, 10)
	I(Y2, Y3, Y0, Y1, 6, 58, 15)
	I(Y1, Y2, Y3, Y0, 13, 59, 21)
	I(Y0, Y1, Y2, Y3, 4, 60, 6)
	I(Y3, Y0, Y1, Y2, 11, 61, 10)
	I(Y2, Y3, Y0, Y1, 2, 62, 15)
	I(Y1, Y2, Y3, Y0, 9, 63, 21)

	VPADDD  0(DI), Y0, Y0
	VPADDD  32(DI), Y1, Y1
	VPADDD  64(DI), Y2, Y2
	VPADDD  96(DI), Y3, Y3
	VMOVDQU Y0, 0(DI)
	VMOVDQU Y1, 32(DI)
	VMOVDQU Y2, 64(DI)
	VMOVDQU Y3, 96(DI)

	ADDQ $64, R8
	ADDQ $64, R9
	ADDQ $64, R10
	ADDQ $64, R11
	ADDQ $64, R12
	ADDQ $64, R13
	ADDQ $64, AX
	ADDQ $64, BX
	DECQ CX
	JMP  block

done:
	VZEROUPPER
	RET
