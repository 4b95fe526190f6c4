; Routines of the MSP430 EABI (SLAA534 section 6) that compiled code calls. The F2617's hardware
; multiplier is shared with interrupts, so they are off while it is in use.

    .macro MULTIPLIER_BEGIN
    push r2
    bic #8, r2
    mov r3, r3
    .endm

    .macro MULTIPLIER_END
    pop r2
    ret
    .endm

; r12 = r12 * r13
    .section .text.__mspabi_mpyi, "ax", @progbits
    .globl __mspabi_mpyi
__mspabi_mpyi:
    MULTIPLIER_BEGIN
    mov r12, &0x0130
    mov r13, &0x0138
    mov &0x013a, r12
    MULTIPLIER_END

; r13:r12 = r13:r12 * r15:r14
    .section .text.__mspabi_mpyl, "ax", @progbits
    .globl __mspabi_mpyl
__mspabi_mpyl:
    MULTIPLIER_BEGIN
    mov r12, &0x0130
    mov r14, &0x0138
    mov &0x013a, r11
    mov &0x013c, &0x013a
    mov r12, &0x0134
    mov r15, &0x0138
    mov r13, &0x0134
    mov r14, &0x0138
    mov &0x013a, r13
    mov r11, r12
    MULTIPLIER_END

; r15:r14:r13:r12 = r11:r10:r9:r8 * r15:r14:r13:r12
    .macro PRODUCT a, b
    mov \a, &0x0134
    mov \b, &0x0138
    .endm

    .macro PRODUCT_AND_CARRY a, b
    PRODUCT \a, \b
    add &0x013e, r6
    .endm

; Moves the sum down by a word.
    .macro NEXT
    mov &0x013c, &0x013a
    mov r6, &0x013c
    mov #0, r6
    .endm

    .section .text.__mspabi_mpyll, "ax", @progbits
    .globl __mspabi_mpyll
__mspabi_mpyll:
    push r4
    push r5
    push r6
    push r7
    push r2
    bic #8, r2
    mov r3, r3
    mov #0, r6
    mov r8, &0x0130
    mov r12, &0x0138
    mov &0x013a, r4
    NEXT
    PRODUCT_AND_CARRY r8, r13
    PRODUCT_AND_CARRY r9, r12
    mov &0x013a, r5
    NEXT
    PRODUCT_AND_CARRY r8, r14
    PRODUCT_AND_CARRY r9, r13
    PRODUCT_AND_CARRY r10, r12
    mov &0x013a, r7
    NEXT
    PRODUCT r8, r15
    PRODUCT r9, r14
    PRODUCT r10, r13
    PRODUCT r11, r12
    mov &0x013a, r15
    mov r7, r14
    mov r5, r13
    mov r4, r12
    pop r2
    pop r7
    pop r6
    pop r5
    pop r4
    ret

; r13:r12 <<= r14
    .section .text.__mspabi_slll, "ax", @progbits
    .globl __mspabi_slll
__mspabi_slll:
    cmp #0, r14
    jeq 2f
1:  add r12, r12
    addc r13, r13
    sub #1, r14
    jne 1b
2:  ret

; r13:r12 >>= r14, unsigned
    .section .text.__mspabi_srll, "ax", @progbits
    .globl __mspabi_srll
__mspabi_srll:
    cmp #0, r14
    jeq 2f
1:  bic #1, r2
    rrc r13
    rrc r12
    sub #1, r14
    jne 1b
2:  ret

; r13:r12 >>= r14, signed
    .section .text.__mspabi_sral, "ax", @progbits
    .globl __mspabi_sral
__mspabi_sral:
    cmp #0, r14
    jeq 2f
1:  rra r13
    rrc r12
    sub #1, r14
    jne 1b
2:  ret

; memcpy(r12 to, r13 from, r14 length): in words if both addresses are even. The assembler lacks
; `mov @r13+, 0(r15)`.
    .section .text.memcpy, "ax", @progbits
    .globl memcpy
memcpy:
    mov r12, r15
    mov r12, r11
    bis r13, r11
    bit #1, r11
    jne 3f
    sub #2, r14
    jnc 2f
1:  .short 0x4dbf, 0
    add #2, r15
    sub #2, r14
    jc 1b
2:  add #2, r14
3:  cmp #0, r14
    jeq 5f
4:  .short 0x4dff, 0
    add #1, r15
    sub #1, r14
    jne 4b
5:  ret

; memset(r12 to, r13 byte, r14 length)
    .section .text.memset, "ax", @progbits
    .globl memset
memset:
    mov r12, r15
    bit #1, r12
    jne 3f
    mov.b r13, r13
    mov r13, r11
    swpb r11
    bis r13, r11
    sub #2, r14
    jnc 2f
1:  mov r11, 0(r15)
    add #2, r15
    sub #2, r14
    jc 1b
2:  add #2, r14
3:  cmp #0, r14
    jeq 5f
4:  mov.b r13, 0(r15)
    add #1, r15
    sub #1, r14
    jne 4b
5:  ret

; Target of a panic.
    .section .text.abort, "ax", @progbits
    .globl abort
abort:
    mov #3, &0x01c0
    jmp abort
