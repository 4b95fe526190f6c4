@ The permutation of Ascon (NIST SP 800-232 section 3) on ARMv7-M, without a branch or an address that
@ depends on the state.
@
@ Words are in two halves: before a round the low ones in r2 to r6, the high ones in r8 to r12. r1 is
@ the round's constant; r0, lr, and r7 or r2 are free. A rotation of a word is two shifts, which
@ cost nothing within an XOR.

    .syntax unified
    .thumb

@ Word ^ word >>> a ^ word >>> b (section 3.4). The new low half goes to \to; \lo is free then.
    .macro ANTEDATE_ASCON_LINEAR to, lo, hi, a, b
    eor \to, \lo, \lo, lsr #\a
    eor \to, \to, \hi, lsl #32-\a
    eor \to, \to, \lo, lsr #\b
    eor \to, \to, \hi, lsl #32-\b
    eor r0, \hi, \hi, lsr #\a
    eor r0, r0, \lo, lsl #32-\a
    eor r0, r0, \lo, lsl #32-\b
    eor \hi, r0, \hi, lsr #\b
    .endm

@ The same for rotations by 32 + a and 32 + b.
    .macro ANTEDATE_ASCON_LINEAR_CROSSED to, lo, hi, a, b
    eor \to, \lo, \hi, lsr #\a
    eor \to, \to, \lo, lsl #32-\a
    eor \to, \to, \hi, lsr #\b
    eor \to, \to, \lo, lsl #32-\b
    eor r0, \hi, \lo, lsr #\a
    eor r0, r0, \hi, lsl #32-\a
    eor r0, r0, \lo, lsr #\b
    eor \hi, r0, \hi, lsl #32-\b
    .endm

@ The same for rotations by a and 32 + b.
    .macro ANTEDATE_ASCON_LINEAR_MIXED to, lo, hi, a, b
    eor \to, \lo, \lo, lsr #\a
    eor \to, \to, \hi, lsl #32-\a
    eor \to, \to, \hi, lsr #\b
    eor \to, \to, \lo, lsl #32-\b
    eor r0, \hi, \hi, lsr #\a
    eor r0, r0, \lo, lsl #32-\a
    eor r0, r0, \lo, lsr #\b
    eor \hi, r0, \hi, lsl #32-\b
    .endm

@ antedate_ascon_permute(r0 state, r1 rounds).
    .section .text.antedate_ascon_permute, "ax", %progbits
    .globl antedate_ascon_permute
    .type antedate_ascon_permute, %function
    .thumb_func
antedate_ascon_permute:
    push {r0, r4-r11, lr}
    ldrd r2, r8, [r0]
    ldrd r3, r9, [r0, #8]
    ldrd r4, r10, [r0, #16]
    ldrd r5, r11, [r0, #24]
    ldrd r6, r12, [r0, #32]
    rsb r1, r1, r1, lsl #4
    adds r1, r1, #0x3c
@ Section 3.2, then 3.3 on the low halves, from r2-r6 to r3-r7.
1:  eors r4, r4, r1
    subs r1, r1, #15
    eors r2, r2, r6
    eors r6, r6, r5
    eors r4, r4, r3
    bic r0, r4, r3
    bic r7, r3, r2
    bic lr, r2, r6
    eors r2, r2, r0
    bic r0, r5, r4
    eors r3, r3, r0
    bic r0, r6, r5
    eors r4, r4, r0
    eor r5, r5, lr
    eors r7, r7, r6
    eor r6, r5, r4
    mvns r5, r4
    eor r4, r3, r2
    eor r3, r2, r7
@ On the high halves, in place.
    eor r8, r8, r12
    eor r12, r12, r11
    eor r10, r10, r9
    bic r0, r10, r9
    bic r2, r9, r8
    bic lr, r8, r12
    eor r8, r8, r0
    bic r0, r11, r10
    eor r9, r9, r0
    bic r0, r12, r11
    eor r10, r10, r0
    eor r11, r11, lr
    eor r12, r12, r2
    eor r9, r9, r8
    eor r8, r8, r12
    eor r11, r11, r10
    mvn r10, r10
    ANTEDATE_ASCON_LINEAR r2, r3, r8, 19, 28
    ANTEDATE_ASCON_LINEAR_CROSSED r3, r4, r9, 29, 7
    ANTEDATE_ASCON_LINEAR r4, r5, r10, 1, 6
    ANTEDATE_ASCON_LINEAR r5, r6, r11, 10, 17
    ANTEDATE_ASCON_LINEAR_MIXED r6, r7, r12, 7, 9
    cmp r1, #0x3c
    bne 1b
    pop {r0}
    strd r2, r8, [r0]
    strd r3, r9, [r0, #8]
    strd r4, r10, [r0, #16]
    strd r5, r11, [r0, #24]
    strd r6, r12, [r0, #32]
    pop {r4-r11, pc}
