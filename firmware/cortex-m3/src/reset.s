@ Reset handler: initialises variables and SysTick, then calls the program.
    .section .vectors, "a", %progbits
    .word stack_top
    .word reset
    .word fault
    .word fault
    .word fault
    .word fault
    .word fault

    .section .text.reset, "ax", %progbits
    .thumb
    .syntax unified
    .globl reset
    .type reset, %function
    .thumb_func
reset:
    ldr r0, =data_source
    ldr r1, =data_start
    ldr r2, =data_end
1:  cmp r1, r2
    beq 2f
    ldr r3, [r0], #4
    str r3, [r1], #4
    b 1b
2:  ldr r1, =bss_start
    ldr r2, =bss_end
    movs r3, #0
3:  cmp r1, r2
    beq 4f
    str r3, [r1], #4
    b 3b
@ SysTick: reload value, current value, then on, with the CPU's clock and without interrupt.
4:  ldr r0, =0xe000e010
    ldr r1, =0x00ffffff
    str r1, [r0, #4]
    str r1, [r0, #8]
    movs r1, #5
    str r1, [r0]
    bl program
5:  b 5b

@ A fault ends the program with code 5 through semihosting.
    .globl fault
    .type fault, %function
    .thumb_func
fault:
    ldr r1, =fault_block
    movs r0, #0x20
    bkpt 0xab
    b fault
    .p2align 2
fault_block:
    .word 0x20026, 5
    .ltorg
