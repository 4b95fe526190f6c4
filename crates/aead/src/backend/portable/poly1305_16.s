; Poly1305 on an MSP430 with the 16 by 16 bit multiply-accumulate unit (SLAU144 chapter 8), in
; constant time.
;
; The words of h are in registers, those of r in memory. The products of a column are summed to 48
; bits: the lower 32 are the multiplier's result, the upper 16 are r13. Interrupts share the
; multiplier, so they are off while it is in use, about 1,300 cycles.

    .macro TIMES h, at
    mov \h, &0x0134
    mov \at(r14), &0x0138
    add &0x013e, r13
    .endm

; Stores the column's lowest word to the product, and moves the sum down by a word.
    .macro DOWN at
    mov &0x013a, \at(r1)
    mov &0x013c, &0x013a
    mov r13, &0x013c
    mov #0, r13
    .endm

    .macro SAVE_SEVEN
    push r4
    push r5
    push r6
    push r7
    push r8
    push r9
    push r10
    .endm

    .macro RESTORE_SEVEN
    pop r10
    pop r9
    pop r8
    pop r7
    pop r6
    pop r5
    pop r4
    ret
    .endm

; Loads nine words into registers.
    .macro LOAD from
    mov @\from+, r4
    mov @\from+, r5
    mov @\from+, r6
    mov @\from+, r7
    mov @\from+, r8
    mov @\from+, r9
    mov @\from+, r10
    mov @\from+, r11
    mov @\from+, r15
    .endm

; Adds eight consecutive words.
    .macro ADD_EIGHT from
    add @\from+, r4
    addc @\from+, r5
    addc @\from+, r6
    addc @\from+, r7
    addc @\from+, r8
    addc @\from+, r9
    addc @\from+, r10
    addc @\from+, r11
    .endm

; Adds a register to the lowest word.
    .macro ADD_LOW with
    add \with, r4
    adc r5
    adc r6
    adc r7
    adc r8
    adc r9
    adc r10
    adc r11
    .endm

; Folds the part above 2^130 down: the top word without its two lowest bits is four times that
; part.
    .macro FOLD by
    mov r15, \by
    and #3, r15
    bic #3, \by
    push \by
    bic #1, r2
    rrc @r1
    rra @r1
    add @r1+, \by
    ADD_LOW \by
    adc r15
    .endm

; Shifts the nine words at the top of the stack by one bit.
    .macro SHIFT
    bic #1, r2
    rrc 16(r1)
    rrc 14(r1)
    rrc 12(r1)
    rrc 10(r1)
    rrc 8(r1)
    rrc 6(r1)
    rrc 4(r1)
    rrc 2(r1)
    rrc @r1
    .endm

; Adds to the nine words at r12 the product of those at r13 and r14, and reduces the result below
; 2^130 + 2^11. Factors are below 2^132.
    .section .text.antedate_poly1305_multiply_add, "ax", @progbits
    .globl antedate_poly1305_multiply_add
antedate_poly1305_multiply_add:
    SAVE_SEVEN
    push r12
    push r2
    bic #8, r2
    mov r3, r3
    sub #34, r1
    LOAD r13
    mov #0, &0x013a
    mov #0, &0x013c
    mov #0, r13
    TIMES r4, 0
    DOWN 0
    TIMES r5, 0
    TIMES r4, 2
    DOWN 2
    TIMES r6, 0
    TIMES r5, 2
    TIMES r4, 4
    DOWN 4
    TIMES r7, 0
    TIMES r6, 2
    TIMES r5, 4
    TIMES r4, 6
    DOWN 6
    TIMES r8, 0
    TIMES r7, 2
    TIMES r6, 4
    TIMES r5, 6
    TIMES r4, 8
    DOWN 8
    TIMES r9, 0
    TIMES r8, 2
    TIMES r7, 4
    TIMES r6, 6
    TIMES r5, 8
    TIMES r4, 10
    DOWN 10
    TIMES r10, 0
    TIMES r9, 2
    TIMES r8, 4
    TIMES r7, 6
    TIMES r6, 8
    TIMES r5, 10
    TIMES r4, 12
    DOWN 12
    TIMES r11, 0
    TIMES r10, 2
    TIMES r9, 4
    TIMES r8, 6
    TIMES r7, 8
    TIMES r6, 10
    TIMES r5, 12
    TIMES r4, 14
    DOWN 14
    TIMES r15, 0
    TIMES r11, 2
    TIMES r10, 4
    TIMES r9, 6
    TIMES r8, 8
    TIMES r7, 10
    TIMES r6, 12
    TIMES r5, 14
    TIMES r4, 16
    DOWN 16
    TIMES r15, 2
    TIMES r11, 4
    TIMES r10, 6
    TIMES r9, 8
    TIMES r8, 10
    TIMES r7, 12
    TIMES r6, 14
    TIMES r5, 16
    DOWN 18
    TIMES r15, 4
    TIMES r11, 6
    TIMES r10, 8
    TIMES r9, 10
    TIMES r8, 12
    TIMES r7, 14
    TIMES r6, 16
    DOWN 20
    TIMES r15, 6
    TIMES r11, 8
    TIMES r10, 10
    TIMES r9, 12
    TIMES r8, 14
    TIMES r7, 16
    DOWN 22
    TIMES r15, 8
    TIMES r11, 10
    TIMES r10, 12
    TIMES r9, 14
    TIMES r8, 16
    DOWN 24
    TIMES r15, 10
    TIMES r11, 12
    TIMES r10, 14
    TIMES r9, 16
    DOWN 26
    TIMES r15, 12
    TIMES r11, 14
    TIMES r10, 16
    DOWN 28
    TIMES r15, 14
    TIMES r11, 16
    DOWN 30
    TIMES r15, 16
    DOWN 32
; The multiplier is free. Words 8 to 16 of the product stay on the stack: the part above the lowest
; two bits of word 8 weighs 2^130.
    mov 34(r1), r2
    pop r4
    pop r5
    pop r6
    pop r7
    pop r8
    pop r9
    pop r10
    pop r11
    mov @r1, r15
    and #3, r15
    mov 20(r1), r12
    ADD_EIGHT r12
    addc @r12+, r15
    mov @r1, r13
    bic #3, r13
    add r13, r4
    addc 2(r1), r5
    addc 4(r1), r6
    addc 6(r1), r7
    addc 8(r1), r8
    addc 10(r1), r9
    addc 12(r1), r10
    addc 14(r1), r11
    addc 16(r1), r15
    SHIFT
    SHIFT
    ADD_EIGHT r1
    addc @r1+, r15
    FOLD r13
    mov r15, -2(r12)
    mov r11, -4(r12)
    mov r10, -6(r12)
    mov r9, -8(r12)
    mov r8, -10(r12)
    mov r7, -12(r12)
    mov r6, -14(r12)
    mov r5, -16(r12)
    mov r4, -18(r12)
    add #4, r1
    RESTORE_SEVEN

; Writes the tag to r14: the nine words at r12, fully reduced, plus the 16 bytes at r13. The top
; word is below 2^13.
    .section .text.antedate_poly1305_tag, "ax", @progbits
    .globl antedate_poly1305_tag
antedate_poly1305_tag:
    SAVE_SEVEN
    LOAD r12
    FOLD r12
; Adds 5 more if the number plus 5 reaches 2^130; moves preserve the carry.
    mov r4, r12
    add #5, r12
    mov r5, r12
    adc r12
    mov r6, r12
    adc r12
    mov r7, r12
    adc r12
    mov r8, r12
    adc r12
    mov r9, r12
    adc r12
    mov r10, r12
    adc r12
    mov r11, r12
    adc r12
    mov r15, r12
    adc r12
    rra r12
    rra r12
    mov r12, r15
    add r12, r12
    add r12, r12
    add r15, r12
    ADD_LOW r12
    ADD_EIGHT r13
    mov r4, 0(r14)
    mov r5, 2(r14)
    mov r6, 4(r14)
    mov r7, 6(r14)
    mov r8, 8(r14)
    mov r9, 10(r14)
    mov r10, 12(r14)
    mov r11, 14(r14)
    RESTORE_SEVEN
