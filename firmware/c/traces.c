/*
 * A plugin of QEMU (docs/devel/tcg-plugins): a digest of the executed addresses and of the accessed ones
 * between the two readings of SysTick that enclose a measurement.
 *
 * A line for each measurement: instructions, their digest, accesses, their digest.
 */
#include "plugin.h"

struct trace {
    uint64_t count, digest;
};

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
