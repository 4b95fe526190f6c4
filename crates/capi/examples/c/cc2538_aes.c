/* The AES engine of a CC2538 (SWRU319, chapter 22) for a library built with `--aes callback`:
 *
 *     antedate_set_aes(cc2538_aes, NULL);
 *
 * The clock of the engine is on. The key goes to area 0 of the key store with each block, because a
 * context may be wiped and another key follow at its address. Both waits are bounded: an engine that
 * does not answer is a failure, and the library sends no packet with it.
 */
#include <stdint.h>

/* The registers and the addresses of the engine's DMA. A simulation has its own. */
#ifndef CC2538_READ
#define CC2538_READ(at) (*(volatile uint32_t *)(at))
#define CC2538_WRITE(at, value) (*(volatile uint32_t *)(at) = (value))
#define CC2538_ADDRESS(pointer) ((uint32_t)(pointer))
#endif

enum {
    DMA_IN_CONTROL = 0x4008b000,
    DMA_IN_ADDRESS = 0x4008b004,
    DMA_IN_LENGTH = 0x4008b00c,
    DMA_OUT_CONTROL = 0x4008b020,
    DMA_OUT_ADDRESS = 0x4008b024,
    DMA_OUT_LENGTH = 0x4008b02c,
    KEY_WRITE_AREA = 0x4008b400,
    KEY_WRITTEN_AREA = 0x4008b404,
    KEY_READ_AREA = 0x4008b40c,
    AES_CONTROL = 0x4008b550,
    AES_LENGTH_LOW = 0x4008b554,
    AES_LENGTH_HIGH = 0x4008b558,
    ALGORITHM = 0x4008b700,
    INTERRUPT_LEVEL = 0x4008b780,
    INTERRUPT_ENABLE = 0x4008b784,
    INTERRUPT_CLEAR = 0x4008b788,
    INTERRUPT_STATUS = 0x4008b790
};

#define ALGORITHM_KEY_STORE 1u
#define ALGORITHM_AES 2u
#define AES_ENCRYPT 4u
#define RESULT 1u
#define KEY_AREA 0u
#define BUSY (1u << 31)
/* Bus of the DMA, writing and reading of the key store. */
#define ERRORS (7u << 29)
/* Reads of a status; a block takes some hundred cycles. */
#define PATIENCE 10000

/* Waits for a result. Returns 0, and 1 for an error or none in time. */
static int32_t finished(void) {
    for (int i = 0; i < PATIENCE; i++) {
        uint32_t status = CC2538_READ(INTERRUPT_STATUS);
        if (status & (RESULT | ERRORS)) {
            CC2538_WRITE(INTERRUPT_CLEAR, status & (RESULT | ERRORS));
            return (status & ERRORS) != 0;
        }
    }
    return 1;
}

static int32_t load(const uint8_t key[16]) {
    CC2538_WRITE(ALGORITHM, ALGORITHM_KEY_STORE);
    CC2538_WRITE(KEY_WRITTEN_AREA, 1u << KEY_AREA);
    CC2538_WRITE(KEY_WRITE_AREA, 1u << KEY_AREA);
    CC2538_WRITE(DMA_IN_CONTROL, 1);
    CC2538_WRITE(DMA_IN_ADDRESS, CC2538_ADDRESS(key));
    CC2538_WRITE(DMA_IN_LENGTH, 16);
    return finished() || !(CC2538_READ(KEY_WRITTEN_AREA) & 1u << KEY_AREA);
}

static int32_t run(uint8_t block[16]) {
    CC2538_WRITE(ALGORITHM, ALGORITHM_AES);
    CC2538_WRITE(KEY_READ_AREA, KEY_AREA);
    for (int i = 0; CC2538_READ(KEY_READ_AREA) & BUSY; i++)
        if (i == PATIENCE)
            return 1;
    if (CC2538_READ(INTERRUPT_STATUS) & ERRORS)
        return finished();
    CC2538_WRITE(AES_CONTROL, AES_ENCRYPT);
    CC2538_WRITE(AES_LENGTH_LOW, 16);
    CC2538_WRITE(AES_LENGTH_HIGH, 0);
    CC2538_WRITE(DMA_IN_CONTROL, 1);
    CC2538_WRITE(DMA_IN_ADDRESS, CC2538_ADDRESS(block));
    CC2538_WRITE(DMA_IN_LENGTH, 16);
    CC2538_WRITE(DMA_OUT_CONTROL, 1);
    CC2538_WRITE(DMA_OUT_ADDRESS, CC2538_ADDRESS(block));
    CC2538_WRITE(DMA_OUT_LENGTH, 16);
    return finished();
}

/* An `antedate_aes`. */
int32_t cc2538_aes(void *engine, const uint8_t key[16], uint8_t block[16]) {
    (void)engine;
    CC2538_WRITE(INTERRUPT_LEVEL, 1);
    CC2538_WRITE(INTERRUPT_ENABLE, RESULT);
    int32_t failed = load(key) || run(block);
    CC2538_WRITE(ALGORITHM, 0);
    return failed;
}
