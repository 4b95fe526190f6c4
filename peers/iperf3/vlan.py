"""Tags all frames that INTERFACE sends and untags those it receives: vlan.py INTERFACE VID.

For kernels without VLAN interfaces: two small classifier programs (bpf(2)) at ingress and egress.
The tag stays beside the frame, as with a VLAN interface, so offloaded super-frames are tagged too.
"""

import ctypes
import os
import platform
import struct
import subprocess
import sys

BPF = {"x86_64": 321, "aarch64": 280}[platform.machine()]
PROG_LOAD, OBJ_PIN, SCHED_CLS = 5, 6, 3
VLAN_PUSH, VLAN_POP = 18, 19
libc = ctypes.CDLL(None, use_errno=True)


def instruction(code, destination=0, source=0, immediate=0):
    return struct.pack("<BBhi", code, destination | source << 4, 0, immediate)


def bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes.ljust(128, b"\0"))
    result = libc.syscall(BPF, command, buffer, len(buffer))
    if result < 0:
        raise OSError(ctypes.get_errno(), f"bpf({command}): {os.strerror(ctypes.get_errno())}")
    return result


def load(call, vid, path):
    """Loads a program that calls the helper with the packet (in r1) and returns TC_ACT_OK (0)."""
    code = b""
    if call == VLAN_PUSH:
        code += instruction(0xB7, 2, immediate=struct.unpack("=H", struct.pack(">H", 0x8100))[0])
        code += instruction(0xB7, 3, immediate=vid)
    code += instruction(0x85, immediate=call) + instruction(0xB7, 0, immediate=0) + instruction(0x95)
    text, licence = ctypes.create_string_buffer(code, len(code)), ctypes.create_string_buffer(b"GPL")
    program = bpf(
        PROG_LOAD,
        struct.pack("=IIQQ", SCHED_CLS, len(code) // 8, ctypes.addressof(text), ctypes.addressof(licence)),
    )
    name = ctypes.create_string_buffer(path.encode())
    bpf(OBJ_PIN, struct.pack("=QI", ctypes.addressof(name), program))


def tc(*words):
    subprocess.run(["tc", *words], check=True)


def main():
    interface, vid = sys.argv[1], int(sys.argv[2])
    os.makedirs("/sys/fs/bpf", exist_ok=True)
    if not os.path.ismount("/sys/fs/bpf"):
        subprocess.run(["mount", "-t", "bpf", "bpf", "/sys/fs/bpf"], check=True)
    tc("qdisc", "add", "dev", interface, "clsact")
    for call, place in ((VLAN_PUSH, "egress"), (VLAN_POP, "ingress")):
        path = f"/sys/fs/bpf/antedate-{os.getpid()}-{place}"
        load(call, vid, path)
        tc("filter", "add", "dev", interface, place, "bpf", "direct-action", "object-pinned", path)
        os.unlink(path)


main()
