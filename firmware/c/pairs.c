/*
 * A plugin of QEMU: how often each instruction came right after which, between the two readings of SysTick
 * that enclose a measurement.
 *
 * Lines of two addresses and a count for each measurement, and a line with a dot at its end.
 */
#include "plugin.h"
#include <stdlib.h>

/* Different pairs of a measurement: a power of two. */
enum { PLACES = 1 << 16 };

struct pair {
    uint64_t key, count;
};

static unsigned loads, used;
static uint32_t before;
static struct pair pairs[PLACES];

static void begin(void)
{
    memset(pairs, 0, sizeof pairs);
    used = 0;
}

static void execute(unsigned cpu, void *data)
{
    (void)cpu;
    uint32_t now = (uint32_t)(uintptr_t)data;
    /* Zero is the key of no pair: the vectors lie there. */
    uint64_t key = (uint64_t)before << 32 | now;
    size_t at = key * 0x9e3779b97f4a7c15 >> 48;
    before = now;
    while (pairs[at].key != key && pairs[at].key != 0)
        at = (at + 1) % PLACES;
    if (pairs[at].key == 0 && ++used == PLACES) {
        fputs("pairs: too many of them\n", stderr);
        exit(1);
    }
    pairs[at].key = key;
    pairs[at].count++;
}

static void access_memory(unsigned cpu, uint32_t about, uint64_t address, void *data)
{
    (void)cpu, (void)data;
    if (address != SYSTICK || qemu_plugin_mem_is_store(about))
        return;
    loads = (loads + 1) % (2 * LOADS);
    if (loads == LOADS)
        begin();
    if (loads != LOADS + 1)
        return;
    for (size_t at = 0; at < PLACES; at++)
        if (pairs[at].key != 0)
            fprintf(out, "%llu %llu %llu\n", (unsigned long long)(pairs[at].key >> 32),
                    (unsigned long long)(pairs[at].key & 0xffffffff), (unsigned long long)pairs[at].count);
    fputs(".\n", out);
}
