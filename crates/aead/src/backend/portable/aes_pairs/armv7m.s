@ Two blocks of AES, bit-sliced and without ShiftRows, on ARMv7-M; `aes_pairs.rs` has the layout.
@
@ Plane k of the state is in register 4 + k. r0 walks through the round keys.
@ r1, r2, r3 and r12 are free between two substitutions, which need all registers. No address and no
@ branch depends on the state or on a key. What the substitution lays on the stack is wiped.

    .syntax unified
    .thumb

@ The frame: words of the substitution, its return address, and the next round key.
    .equ ANTEDATE_AES_RETURN, 40
    .equ ANTEDATE_AES_KEYS, 40 + 4
    .equ ANTEDATE_AES_FRAME, 40 + 8
@ Above it: first block, second block, last round key.
    .equ ANTEDATE_AES_BLOCKS, ANTEDATE_AES_FRAME
    .equ ANTEDATE_AES_LAST, ANTEDATE_AES_FRAME + 8

@ Exchanges the bits of \low above \step with those of \high in the mask.
    .macro ANTEDATE_AES_EXCHANGE low, high, step, mask
    eor r1, \high, \low, lsr #\step
    and r1, r1, #\mask
    eor \high, \high, r1
    eor \low, \low, r1, lsl #\step
    .endm

@ The next row of y in \next, a column further and not yet turned by two bits; y plus that row.
    .macro ANTEDATE_AES_NEXT_ODD y, next
    eor \next, \y, \y, ror #8
    and \next, \next, #0xfcfcfcfc
    eor \next, \next, \y
    eor \y, \y, \next, ror #2
    .endm

@ A plane of MixColumns without ShiftRows. x: this row and the next, summed; y: the same of the plane
@ below, which is doubled.
    .macro ANTEDATE_AES_PLANE_ODD x, y, next
    eor r3, \x, \x, ror #8
    and r3, r3, #0xf0f0f0f0
    eor \x, \x, r3
    eor \x, \y, \x, ror #12
    eor \x, \x, \next, ror #2
    .endm

@ Turns rows 1 and 3 of y by two columns, into \next; y becomes that plus its next row.
    .macro ANTEDATE_AES_NEXT_EVEN y, next
    eor r3, \y, \y, lsr #4
    and r3, r3, #0x0f000f00
    eor \next, \y, r3
    eor \next, \next, r3, lsl #4
    eor \y, \next, \next, ror #8
    .endm

    .macro ANTEDATE_AES_PLANE_EVEN x, y, next
    eor \x, \y, \x, ror #16
    eor \x, \x, \next, ror #8
    .endm

@ MixColumns, from plane 7 down. Doubling moves plane 7 to planes 0, 1, 3 and 4.
    .macro ANTEDATE_AES_MIX kind
    ANTEDATE_AES_NEXT_\kind r11, r1
    mov r12, r11
    ANTEDATE_AES_NEXT_\kind r10, r2
    ANTEDATE_AES_PLANE_\kind r11, r10, r1
    ANTEDATE_AES_NEXT_\kind r9, r1
    ANTEDATE_AES_PLANE_\kind r10, r9, r2
    ANTEDATE_AES_NEXT_\kind r8, r2
    ANTEDATE_AES_PLANE_\kind r9, r8, r1
    ANTEDATE_AES_NEXT_\kind r7, r1
    ANTEDATE_AES_PLANE_\kind r8, r7, r2
    eor r8, r8, r12
    ANTEDATE_AES_NEXT_\kind r6, r2
    ANTEDATE_AES_PLANE_\kind r7, r6, r1
    eor r7, r7, r12
    ANTEDATE_AES_NEXT_\kind r5, r1
    ANTEDATE_AES_PLANE_\kind r6, r5, r2
    ANTEDATE_AES_NEXT_\kind r4, r2
    ANTEDATE_AES_PLANE_\kind r5, r4, r1
    eor r5, r5, r12
    ANTEDATE_AES_PLANE_\kind r4, r12, r2
    .endm

@ Turns rows 1 and 3 by two columns.
    .macro ANTEDATE_AES_TURN x
    eor r1, \x, \x, lsr #4
    and r1, r1, #0x0f000f00
    eor \x, \x, r1
    eor \x, \x, r1, lsl #4
    .endm

    .section .text.antedate_aes_pairs, "ax", %progbits

@ Adds a round key, and steps to the next.
    .type antedate_aes_add, %function
    .thumb_func
antedate_aes_add:
    ldmia r0!, {r1-r3, r12}
    eors r4, r4, r1
    eors r5, r5, r2
    eors r6, r6, r3
    eor r7, r7, r12
    ldmia r0!, {r1-r3, r12}
    eor r8, r8, r1
    eor r9, r9, r2
    eor r10, r10, r3
    eor r11, r11, r12
    bx lr

@ Transposes four matrices of 8 by 8 bits; changes r1.
    .type antedate_aes_bits, %function
    .thumb_func
antedate_aes_bits:
    ANTEDATE_AES_EXCHANGE r4, r5, 1, 0x55555555
    ANTEDATE_AES_EXCHANGE r6, r7, 1, 0x55555555
    ANTEDATE_AES_EXCHANGE r8, r9, 1, 0x55555555
    ANTEDATE_AES_EXCHANGE r10, r11, 1, 0x55555555
    ANTEDATE_AES_EXCHANGE r4, r6, 2, 0x33333333
    ANTEDATE_AES_EXCHANGE r5, r7, 2, 0x33333333
    ANTEDATE_AES_EXCHANGE r8, r10, 2, 0x33333333
    ANTEDATE_AES_EXCHANGE r9, r11, 2, 0x33333333
    ANTEDATE_AES_EXCHANGE r4, r8, 4, 0x0f0f0f0f
    ANTEDATE_AES_EXCHANGE r5, r9, 4, 0x0f0f0f0f
    ANTEDATE_AES_EXCHANGE r6, r10, 4, 0x0f0f0f0f
    ANTEDATE_AES_EXCHANGE r7, r11, 4, 0x0f0f0f0f
    bx lr

@ SubBytes without its constant: the circuit of `aes.rs`. Its order, its registers and its words of the
@ stack are those of the fewest cycles that a search found.
    .type antedate_aes_sbox, %function
    .thumb_func
antedate_aes_sbox:
    str lr, [sp, #ANTEDATE_AES_RETURN]
    eor r2, r11, r8
    eor r1, r8, r6
    eor r0, r11, r5
    eor r3, r0, r1
    eors r7, r3
    eor r12, r7, r10
    eor lr, r12, r2
    eor r12, r11, r6
    eors r7, r6
    and r6, r3, r7
    str r3, [sp, #0]
    eor r3, r7, r4
    eor r9, r9, r10
    eor r10, r9, r4
    eor r8, r8, r10
    str r8, [sp, #4]
    and r4, r4, r8
    eors r4, r6
    eor r5, r5, r10
    and r8, r5, r10
    str r5, [sp, #8]
    eor r5, r5, r12
    str r3, [sp, #12]
    ands r3, r5
    eors r6, r3
    eor r3, r7, r9
    str r7, [sp, #16]
    and r7, r12, r3
    str r5, [sp, #20]
    eor r5, r3, lr
    str r1, [sp, #24]
    ands r1, r5
    eor r3, r3, r12
    str r12, [sp, #28]
    and r12, r2, lr
    eor r7, r7, r12
    eor r1, r1, r12
    eors r6, r1
    eor r12, r10, r9
    str r12, [sp, #32]
    eor r12, r12, lr
    eors r4, r7
    eors r4, r3
    eor r9, r9, lr
    and r3, r0, r9
    eor r8, r8, r3
    eor r8, r8, r1
    eor r1, r0, r9
    eor r8, r8, r1
    eor r1, r11, r9
    eor r11, r11, r10
    str r0, [sp, #36]
    and r0, r11, r12
    eors r3, r0
    eors r7, r3
    eors r7, r1
    eor r3, r8, r7
    eor r1, lr, r2
    eors r6, r1
    and r0, r6, r8
    eors r6, r4
    eor r1, r4, r0
    ands r3, r1
    eors r3, r7
    eor r8, r8, r3
    eors r0, r7
    and r1, r6, r0
    eors r4, r1
    eor r1, r0, r3
    ands r7, r1
    eor r8, r8, r7
    eors r7, r0
    ands r7, r4
    eors r7, r6
    eor r6, r7, r8
    eor r1, r5, lr
    ands r1, r6
    and r10, r10, r7
    ldr r0, [sp, #28]
    ands r0, r6
    str r7, [sp, #28]
    eors r7, r4
    and r9, r9, r7
    and r12, r12, r4
    and r11, r11, r4
    eors r4, r3
    ands r2, r4
    and lr, lr, r4
    eors r4, r6
    ands r5, r4
    ldr r6, [sp, #24]
    ands r4, r6
    eors r0, r4
    eor r6, r5, lr
    eor r6, r6, r9
    eor lr, r10, r6
    eors r4, r2
    eor r10, r10, r4
    eor r2, r10, r1
    eors r5, r2
    eor r2, r5, r11
    eor r11, r3, r8
    ldr r1, [sp, #16]
    and r1, r1, r11
    eor r1, r1, r9
    ldr r9, [sp, #0]
    and r11, r11, r9
    ldr r9, [sp, #36]
    and r7, r7, r9
    ldr r9, [sp, #20]
    and r9, r9, r8
    eor r10, r10, r9
    eor r10, r10, r11
    eor r11, r6, r10
    ldr r6, [sp, #4]
    ands r6, r3
    eor r9, r9, r6
    ldr r6, [sp, #32]
    ands r3, r6
    eor r6, r7, r3
    eors r6, r1
    eors r4, r6
    eors r2, r6
    eor r6, r9, r2
    eor r9, r0, r2
    eor r9, r9, lr
    eor r3, r3, r12
    ldr r2, [sp, #28]
    ldr r0, [sp, #8]
    ands r2, r0
    eor r2, r2, r12
    eors r4, r2
    eors r7, r2
    eors r5, r7
    ldr r7, [sp, #12]
    and r7, r7, r8
    eor r8, r7, r10
    eor r7, r3, r8
    eor r8, r8, r1
    eor r10, lr, r8
    ldr pc, [sp, #ANTEDATE_AES_RETURN]

@ antedate_aes_pair(r0 round keys, r1 first block, r2 second block, r3 last round key).
    .globl antedate_aes_pair
    .type antedate_aes_pair, %function
    .thumb_func
antedate_aes_pair:
    push {r1-r11, lr}
    sub sp, sp, #ANTEDATE_AES_FRAME
    ldr r4, [r1]
    ldr r6, [r1, #4]
    ldr r8, [r1, #8]
    ldr r10, [r1, #12]
    ldr r5, [r2]
    ldr r7, [r2, #4]
    ldr r9, [r2, #8]
    ldr r11, [r2, #12]
    bl antedate_aes_bits
    bl antedate_aes_add
1:  str r0, [sp, #ANTEDATE_AES_KEYS]
    bl antedate_aes_sbox
    ANTEDATE_AES_MIX ODD
    ldr r0, [sp, #ANTEDATE_AES_KEYS]
    bl antedate_aes_add
    str r0, [sp, #ANTEDATE_AES_KEYS]
    bl antedate_aes_sbox
    ldr r0, [sp, #ANTEDATE_AES_KEYS]
    ldr r1, [sp, #ANTEDATE_AES_LAST]
    cmp r0, r1
    beq 2f
    ANTEDATE_AES_MIX EVEN
    bl antedate_aes_add
    b 1b
2:  ANTEDATE_AES_TURN r4
    ANTEDATE_AES_TURN r5
    ANTEDATE_AES_TURN r6
    ANTEDATE_AES_TURN r7
    ANTEDATE_AES_TURN r8
    ANTEDATE_AES_TURN r9
    ANTEDATE_AES_TURN r10
    ANTEDATE_AES_TURN r11
    bl antedate_aes_add
    bl antedate_aes_bits
    bl antedate_aes_wipe
    add sp, sp, #ANTEDATE_AES_FRAME
    pop {r0-r2}
    str r4, [r0]
    str r6, [r0, #4]
    str r8, [r0, #8]
    str r10, [r0, #12]
    str r5, [r1]
    str r7, [r1, #4]
    str r9, [r1, #8]
    str r11, [r1, #12]
    pop {r4-r11, pc}

@ Wipes the words of the substitution; changes r1.
    .type antedate_aes_wipe, %function
    .thumb_func
antedate_aes_wipe:
    movs r1, #0
    str r1, [sp, #0]
    str r1, [sp, #4]
    str r1, [sp, #8]
    str r1, [sp, #12]
    str r1, [sp, #16]
    str r1, [sp, #20]
    str r1, [sp, #24]
    str r1, [sp, #28]
    str r1, [sp, #32]
    str r1, [sp, #36]
    bx lr

@ antedate_aes_substitute(r0 planes).
    .globl antedate_aes_substitute
    .type antedate_aes_substitute, %function
    .thumb_func
antedate_aes_substitute:
    push {r0, r4-r11, lr}
    sub sp, sp, #ANTEDATE_AES_FRAME
    ldmia r0, {r4-r11}
    bl antedate_aes_sbox
    bl antedate_aes_wipe
    add sp, sp, #ANTEDATE_AES_FRAME
    pop {r0}
    stmia r0, {r4-r11}
    pop {r4-r11, pc}

@ antedate_aes_transpose(r0 eight words).
    .globl antedate_aes_transpose
    .type antedate_aes_transpose, %function
    .thumb_func
antedate_aes_transpose:
    push {r4-r11, lr}
    ldmia r0, {r4-r11}
    bl antedate_aes_bits
    stmia r0, {r4-r11}
    pop {r4-r11, pc}
