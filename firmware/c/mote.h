/* A Cortex-M3 in QEMU for programs in C: semihosting, and instructions counted by SysTick as in
 * `cortex-m3/src/lib.rs`. */
#ifndef MOTE_H
#define MOTE_H

#include <stddef.h>
#include <stdint.h>

/* Calls the emulator. */
static inline void semihosting(uint32_t operation, const void *parameter) {
    register uint32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = parameter;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

static inline void print(const char *text) { semihosting(0x04, text); }

/* Prints a line: a name and a number. */
static inline void report(const char *what, uint32_t number) {
    char digits[12];
    int at = 11;
    digits[at] = 0;
    digits[--at] = '\n';
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    print(what);
    print(" ");
    print(digits + at);
}

/* Ends the program: SYS_EXIT_EXTENDED with the reason ADP_Stopped_ApplicationExit. */
static inline _Noreturn void leave(uint32_t code) {
    const uint32_t block[2] = {0x20026, code};
    for (;;) semihosting(0x20, block);
}

/* The time in instructions from an arbitrary origin: 40 readings, seven instructions apart, hit
 * each phase of a tick once. */
static inline __attribute__((always_inline)) uint32_t now(void) {
    uint32_t sum = 0, left = 40, value;
    __asm__ volatile("2: ldr %[value], [%[counter]]\n"
                     "sub %[sum], %[sum], %[value]\n"
                     "nop\n"
                     "nop\n"
                     "nop\n"
                     "subs %[left], %[left], #1\n"
                     "bne 2b\n"
                     : [sum] "+r"(sum), [left] "+r"(left), [value] "=&r"(value)
                     : [counter] "r"(0xe000e018u)
                     : "cc", "memory");
    return sum;
}

/* Instructions of a statement. Its results must be used or volatile. */
#define COST(cost, statement)            \
    do {                                 \
        const uint32_t since_ = now();   \
        statement;                       \
        (cost) = now() - since_;         \
    } while (0)

#endif
