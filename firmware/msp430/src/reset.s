; Reset handler: sets the stack pointer, initialises variables, then calls the program.
    .section .vector, "a", @progbits
    .short reset

    .section .text.reset, "ax", @progbits
    .globl reset
reset:
    mov #stack_top, r1
    mov #data_source, r12
    mov #data_start, r13
1:  cmp #data_end, r13
    jeq 2f
    mov @r12+, r14
    mov r14, 0(r13)
    add #2, r13
    jmp 1b
2:  mov #bss_start, r13
3:  cmp #bss_end, r13
    jeq 4f
    mov #0, 0(r13)
    add #2, r13
    jmp 3b
4:  call #program
5:  jmp 5b
