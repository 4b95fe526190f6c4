/*
 * A plugin of QEMU (docs/devel/tcg-plugins): a digest of the executed addresses and of the accessed ones
 * between the two readings of SysTick that enclose a measurement.
 *
 * A line for each measurement: instructions, their digest, accesses, their digest.
 */
#include "plugin.h"
#include <string.h>

struct trace {
    uint64_t count, digest;
};

static FILE *out;
static unsigned loads;
static struct trace executed, accessed;

/* FNV-1a over the octets of a number. */
static void add(struct trace *trace, uint64_t number)
{
    for (int shift = 0; shift < 64; shift += 8)
        trace->digest = (trace->digest ^ (number >> shift & 0xff)) * 0x100000001b3;
    trace->count++;
}

static void begin(void)
{
    executed = accessed = (struct trace){0, 0xcbf29ce484222325};
}

static void execute(unsigned cpu, void *data)
{
    (void)cpu;
    add(&executed, (uint64_t)(uintptr_t)data);
}

static void access_memory(unsigned cpu, uint32_t about, uint64_t address, void *data)
{
    (void)cpu, (void)data;
    bool store = qemu_plugin_mem_is_store(about);
    if (address != SYSTICK || store) {
        add(&accessed, address << 3 | qemu_plugin_mem_size_shift(about) << 1 | store);
        return;
    }
    loads = (loads + 1) % (2 * LOADS);
    if (loads == LOADS)
        begin();
    if (loads == LOADS + 1)
        fprintf(out, "%llu %016llx %llu %016llx\n", (unsigned long long)executed.count,
                (unsigned long long)executed.digest, (unsigned long long)accessed.count,
                (unsigned long long)accessed.digest);
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
