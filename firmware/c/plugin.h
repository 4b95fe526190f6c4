/*
 * What plugins of QEMU (docs/devel/tcg-plugins) call, for Debian packages no header of it, where a
 * measurement begins and ends, and the installation. A plugin has begin, execute and access_memory.
 */
#ifndef ANTEDATE_PLUGIN_H
#define ANTEDATE_PLUGIN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;

int qemu_plugin_install(plugin_id id, const void *about, int count, char **arguments);
extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, void (*act)(plugin_id, struct qemu_plugin_tb *));
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *block, size_t at);
extern uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *one);
extern void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *one, void (*act)(unsigned, void *),
                                                   int registers, void *data);
extern void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *one,
                                             void (*act)(unsigned, uint32_t, uint64_t, void *), int registers,
                                             int way, void *data);
extern bool qemu_plugin_mem_is_store(uint32_t about);
extern unsigned qemu_plugin_mem_size_shift(uint32_t about);
extern void qemu_plugin_register_atexit_cb(plugin_id id, void (*act)(plugin_id, void *), void *data);

/* The version of the interface. */
int qemu_plugin_version = 1;

enum { NO_REGISTERS = 0, LOADS_AND_STORES = 3 };

/* SysTick's current value, and how often a reading of the time loads it (src/lib.rs). */
static const uint64_t SYSTICK = 0xe000e018;
enum { LOADS = 40 };

/* The results. */
static FILE *out;

static void begin(void);
static void execute(unsigned cpu, void *address);
static void access_memory(unsigned cpu, uint32_t about, uint64_t address, void *data);

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

#endif
