//go:build !purego

#include "textflag.h"

// Eight streams at a time: a register of AVX2 holds one word of each. The
// state is A, B, C, D in Y0 to Y3, each step turns them by one.

// NEXT adds f, which is in Y8, the word of the message and the constant to a,
// turns it by s and adds b (RFC 1321, 3.4).
#define NEXT(a, b, word, constant, s) \
	VPADDD       (word*32)(SP), a, a; \
	VPBROADCASTD sines<>+(constant*4)(SB), Y9; \
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

// func blocks8(state *[4][lanes]uint32, data *[lanes]unsafe.Pointer, n int)
//
// Adds n blocks of each stream to its state.
TEXT ·blocks8(SB), 0, $512-24
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

// The sines of RFC 1321, 3.4.
DATA sines<>+0(SB)/4, $0xd76aa478
DATA sines<>+4(SB)/4, $0xe8c7b756
DATA sines<>+8(SB)/4, $0x242070db
DATA sines<>+12(SB)/4, $0xc1bdceee
DATA sines<>+16(SB)/4, $0xf57c0faf
DATA sines<>+20(SB)/4, $0x4787c62a
DATA sines<>+24(SB)/4, $0xa8304613
DATA sines<>+28(SB)/4, $0xfd469501
DATA sines<>+32(SB)/4, $0x698098d8
DATA sines<>+36(SB)/4, $0x8b44f7af
DATA sines<>+40(SB)/4, $0xffff5bb1
DATA sines<>+44(SB)/4, $0x895cd7be
DATA sines<>+48(SB)/4, $0x6b901122
DATA sines<>+52(SB)/4, $0xfd987193
DATA sines<>+56(SB)/4, $0xa679438e
DATA sines<>+60(SB)/4, $0x49b40821
DATA sines<>+64(SB)/4, $0xf61e2562
DATA sines<>+68(SB)/4, $0xc040b340
DATA sines<>+72(SB)/4, $0x265e5a51
DATA sines<>+76(SB)/4, $0xe9b6c7aa
DATA sines<>+80(SB)/4, $0xd62f105d
DATA sines<>+84(SB)/4, $0x02441453
DATA sines<>+88(SB)/4, $0xd8a1e681
DATA sines<>+92(SB)/4, $0xe7d3fbc8
DATA sines<>+96(SB)/4, $0x21e1cde6
DATA sines<>+100(SB)/4, $0xc33707d6
DATA sines<>+104(SB)/4, $0xf4d50d87
DATA sines<>+108(SB)/4, $0x455a14ed
DATA sines<>+112(SB)/4, $0xa9e3e905
DATA sines<>+116(SB)/4, $0xfcefa3f8
DATA sines<>+120(SB)/4, $0x676f02d9
DATA sines<>+124(SB)/4, $0x8d2a4c8a
DATA sines<>+128(SB)/4, $0xfffa3942
DATA sines<>+132(SB)/4, $0x8771f681
DATA sines<>+136(SB)/4, $0x6d9d6122
DATA sines<>+140(SB)/4, $0xfde5380c
DATA sines<>+144(SB)/4, $0xa4beea44
DATA sines<>+148(SB)/4, $0x4bdecfa9
DATA sines<>+152(SB)/4, $0xf6bb4b60
DATA sines<>+156(SB)/4, $0xbebfbc70
DATA sines<>+160(SB)/4, $0x289b7ec6
DATA sines<>+164(SB)/4, $0xeaa127fa
DATA sines<>+168(SB)/4, $0xd4ef3085
DATA sines<>+172(SB)/4, $0x04881d05
DATA sines<>+176(SB)/4, $0xd9d4d039
DATA sines<>+180(SB)/4, $0xe6db99e5
DATA sines<>+184(SB)/4, $0x1fa27cf8
DATA sines<>+188(SB)/4, $0xc4ac5665
DATA sines<>+192(SB)/4, $0xf4292244
DATA sines<>+196(SB)/4, $0x432aff97
DATA sines<>+200(SB)/4, $0xab9423a7
DATA sines<>+204(SB)/4, $0xfc93a039
DATA sines<>+208(SB)/4, $0x655b59c3
DATA sines<>+212(SB)/4, $0x8f0ccc92
DATA sines<>+216(SB)/4, $0xffeff47d
DATA sines<>+220(SB)/4, $0x85845dd1
DATA sines<>+224(SB)/4, $0x6fa87e4f
DATA sines<>+228(SB)/4, $0xfe2ce6e0
DATA sines<>+232(SB)/4, $0xa3014314
DATA sines<>+236(SB)/4, $0x4e0811a1
DATA sines<>+240(SB)/4, $0xf7537e82
DATA sines<>+244(SB)/4, $0xbd3af235
DATA sines<>+248(SB)/4, $0x2ad7d2bb
DATA sines<>+252(SB)/4, $0xeb86d391
GLOBL sines<>(SB), RODATA|NOPTR, $256
