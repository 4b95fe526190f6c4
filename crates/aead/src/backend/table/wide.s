@ The rounds of AES-128 on ARMv7-M.
@
@ The state is in r4 to r7 or r8 to r11, one column each; r0 walks through the round keys, r2 is the
@ table, r12 a counter; r3 and r1 are indices, in the last round r3 and lr. A round takes three
@ instructions for each byte: extract, look up, and XOR rotated to the place of its row. Look-ups come in
@ pairs, behind both indices: a load waits for an index from the instruction before it, and overlaps
@ with a load before it.

    .syntax unified
    .thumb

    .macro ANTEDATE_COLUMN to, a, b, c, d
    uxtb r3, \a
    ubfx r1, \b, #8, #8
    ldr r3, [r2, r3, lsl #2]
    ldr r1, [r2, r1, lsl #2]
    eor \to, \to, r3
    eor \to, \to, r1, ror #24
    ubfx r3, \c, #16, #8
    lsr r1, \d, #24
    ldr r3, [r2, r3, lsl #2]
    ldr r1, [r2, r1, lsl #2]
    eor \to, \to, r3, ror #16
    eor \to, \to, r1, ror #8
    .endm

@ A column of the last round, without MixColumns; r2 points to the table's second byte.
    .macro ANTEDATE_LAST to, a, b, c, d
    uxtb r3, \a
    ubfx lr, \b, #8, #8
    ldrb r3, [r2, r3, lsl #2]
    ldrb lr, [r2, lr, lsl #2]
    eor \to, \to, r3
    eor \to, \to, lr, lsl #8
    ubfx r3, \c, #16, #8
    lsr lr, \d, #24
    ldrb r3, [r2, r3, lsl #2]
    ldrb lr, [r2, lr, lsl #2]
    eor \to, \to, r3, lsl #16
    eor \to, \to, lr, lsl #24
    .endm

@ Rounds 1 to 9, from r8-r11 to r4-r7; enters the loop in its middle. r0 is at round key 1 before
@ and at round key 10 after.
    .section .text.antedate_aes_rounds, "ax", %progbits
    .type antedate_aes_rounds, %function
    .thumb_func
antedate_aes_rounds:
    movw r2, #:lower16:{table}
    movt r2, #:upper16:{table}
    mov r12, #5
    b 2f
1:  ldmia r0!, {{r8-r11}}
    ANTEDATE_COLUMN r8, r4, r5, r6, r7
    ANTEDATE_COLUMN r9, r5, r6, r7, r4
    ANTEDATE_COLUMN r10, r6, r7, r4, r5
    ANTEDATE_COLUMN r11, r7, r4, r5, r6
2:  ldmia r0!, {{r4-r7}}
    ANTEDATE_COLUMN r4, r8, r9, r10, r11
    ANTEDATE_COLUMN r5, r9, r10, r11, r8
    ANTEDATE_COLUMN r6, r10, r11, r8, r9
    ANTEDATE_COLUMN r7, r11, r8, r9, r10
    subs r12, r12, #1
    bne 1b
    add r2, r2, #1
    bx lr

@ antedate_aes_encrypt(r0 first key, r1 block, r2 last key): keys 1 to 9 follow the first.
    .section .text.antedate_aes_encrypt, "ax", %progbits
    .globl antedate_aes_encrypt
    .type antedate_aes_encrypt, %function
    .thumb_func
antedate_aes_encrypt:
    push {{r1, r2, r4-r11, lr}}
    ldmia r0!, {{r4-r7}}
    ldr r8, [r1]
    ldr r9, [r1, #4]
    ldr r10, [r1, #8]
    ldr r11, [r1, #12]
    eor r8, r8, r4
    eor r9, r9, r5
    eor r10, r10, r6
    eor r11, r11, r7
    bl antedate_aes_rounds
antedate_aes_last:
    pop {{r1, r12}}
    ldmia r12, {{r8-r11}}
    ANTEDATE_LAST r8, r4, r5, r6, r7
    ANTEDATE_LAST r9, r5, r6, r7, r4
    ANTEDATE_LAST r10, r6, r7, r4, r5
    ANTEDATE_LAST r11, r7, r4, r5, r6
    str r8, [r1]
    str r9, [r1, #4]
    str r10, [r1, #8]
    str r11, [r1, #12]
    pop {{r4-r11, pc}}

@ antedate_aes_advance(r0 key 1, r1 chain, r2 last key): as above, without the first key.
    .section .text.antedate_aes_advance, "ax", %progbits
    .globl antedate_aes_advance
    .type antedate_aes_advance, %function
    .thumb_func
antedate_aes_advance:
    push {{r1, r2, r4-r11, lr}}
    ldr r8, [r1]
    ldr r9, [r1, #4]
    ldr r10, [r1, #8]
    ldr r11, [r1, #12]
    bl antedate_aes_rounds
    b antedate_aes_last

@ antedate_aes_finish(r0 key 1, r1 chain, r2 mask, r3 tag): only columns 0 and 1; the mask is the
@ last key.
    .section .text.antedate_aes_finish, "ax", %progbits
    .globl antedate_aes_finish
    .type antedate_aes_finish, %function
    .thumb_func
antedate_aes_finish:
    push {{r2, r3, r4-r11, lr}}
    ldr r8, [r1]
    ldr r9, [r1, #4]
    ldr r10, [r1, #8]
    ldr r11, [r1, #12]
    bl antedate_aes_rounds
    pop {{r1, r12}}
    ldr r8, [r1]
    ldr r9, [r1, #4]
    ANTEDATE_LAST r8, r4, r5, r6, r7
    ANTEDATE_LAST r9, r5, r6, r7, r4
    str r8, [r12]
    str r9, [r12, #4]
    pop {{r4-r11, pc}}
