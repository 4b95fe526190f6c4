@ A Poly1305 block of a template, on ARMv7-M.
@
@ antedate_poly1305_fill(r0 sum, r1 weight, r2 value, r3 block): XORs the value's 16 bytes into the
@ block, adds the block times the weight to the sum, and writes zeros over the weight. The value's
@ limbs are in r4 to r8, the weight's in r9 to r12 and lr. Columns of the product go from last to
@ first: a product above 2^130 counts five times, so each limb of the weight is multiplied by five
@ in place after its last column without that factor.

    .syntax unified
    .thumb

@ Adds h0 to h4 times five limbs to the column at r0 + \at.
    .macro ANTEDATE_POLY1305_COLUMN at, a, b, c, d, e
    ldrd r2, r3, [r0, #\at]
    umlal r2, r3, r4, \a
    umlal r2, r3, r5, \b
    umlal r2, r3, r6, \c
    umlal r2, r3, r7, \d
    umlal r2, r3, r8, \e
    strd r2, r3, [r0, #\at]
    .endm

    .section .text.antedate_poly1305_fill, "ax", %progbits
    .globl antedate_poly1305_fill
    .type antedate_poly1305_fill, %function
    .thumb_func
antedate_poly1305_fill:
    push {{r4-r11, lr}}
    ldr r4, [r2]
    ldr r5, [r2, #4]
    ldr r6, [r2, #8]
    ldr r7, [r2, #12]
    ldr r9, [r3]
    ldr r10, [r3, #4]
    ldr r11, [r3, #8]
    ldr r12, [r3, #12]
    eors r4, r4, r9
    eor r5, r5, r10
    eor r6, r6, r11
    eor r7, r7, r12
    str r4, [r3]
    str r5, [r3, #4]
    str r6, [r3, #8]
    str r7, [r3, #12]
    lsrs r8, r7, #8
    lsls r7, r7, #18
    orr r7, r7, r6, lsr #14
    lsls r6, r6, #12
    orr r6, r6, r5, lsr #20
    lsls r5, r5, #6
    orr r5, r5, r4, lsr #26
    bic r7, r7, #0xfc000000
    bic r6, r6, #0xfc000000
    bic r5, r5, #0xfc000000
    bic r4, r4, #0xfc000000
    ldmia r1, {{r9-r12, lr}}
    movs r2, #0
    movs r3, #0
    strd r2, r3, [r1]
    strd r2, r3, [r1, #8]
    str r2, [r1, #16]
    ANTEDATE_POLY1305_COLUMN 32, lr, r12, r11, r10, r9
    add lr, lr, lr, lsl #2
    ANTEDATE_POLY1305_COLUMN 24, r12, r11, r10, r9, lr
    add r12, r12, r12, lsl #2
    ANTEDATE_POLY1305_COLUMN 16, r11, r10, r9, lr, r12
    add r11, r11, r11, lsl #2
    ANTEDATE_POLY1305_COLUMN 8, r10, r9, lr, r12, r11
    add r10, r10, r10, lsl #2
    ANTEDATE_POLY1305_COLUMN 0, r9, lr, r12, r11, r10
    pop {{r4-r11, pc}}
