/*
 * A plugin of QEMU: how often each instruction came right after which, between the two readings of SysTick
 * that enclose a measurement.
 *
 * Lines of two addresses and a count for each measurement, and a line with a dot at its end.
 */
#include "plugin.h"
#include <stdlib.h>
#include <string.h>

/* Different pairs of a measurement: a power of two. */
enum { PLACES = 1 << 16 };

struct pair {
    uint64_t key, count;
};

static FILE *out;
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

static void translate(plugin_id id, struct qemu_plugin_tb *block)
{
    (void)id;
    for (size_t at = 0; at < qemu_plugin_tb_n_insns(block); at++) {
        struct qemu_plugin_insn *one = qemu_plugin_tb_get_insn(block, at);
        void *place = (void *)(uintptr_t)qemu_plugin_insn_vaddr(one);
        qemu_plugin_register_vcpu_insn_exec_cb(one, execute, NO_REGISTERS, place);
        qemu_plugin_register_vcpu_mem_cb(one, access_memory, NO_REGISTERS, LOADS_AND_STORES, NULL);
    }
}

static void end(plugin_id id, void *data)
{
    (void)id, (void)data;
    fclose(out);
}

int qemu_plugin_install(plugin_id id, const void *about, int count, char **arguments)
{
    (void)about;
    if (count != 1 || strncmp(arguments[0], "out=", 4) != 0 || !(out = fopen(arguments[0] + 4, "w")))
        return -1;
    begin();
    qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
    qemu_plugin_register_atexit_cb(id, end, NULL);
    return 0;
}
