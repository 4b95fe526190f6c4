"""Sends and receives frames of EtherType 0x8892, 60 to 1514 octets, with a packet socket.

frames.py receive INTERFACE SOURCE   prints `ready`; succeeds when all frames arrived unchanged
frames.py send INTERFACE SOURCE      sends the frames

SOURCE is the last octet of the source address, in hexadecimal.
"""

import socket
import struct
import sys
import time

ETHERTYPE = 0x8892
LENGTHS = [60, 61, 128, 1400, 1450, 1513, 1514]
ROUNDS = 5


def frames(source):
    for number in range(ROUNDS):
        for length in LENGTHS:
            head = bytes.fromhex(f"02000000000e 0200000000{source} 8892 bbf0".replace(" ", ""))
            yield head + bytes((number * 31 + at) % 256 for at in range(length - len(head)))


def main(verb, interface, source):
    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE))
    port.bind((interface, ETHERTYPE))
    if verb == "send":
        for frame in frames(source):
            port.send(frame)
            time.sleep(0.005)
        return
    port.settimeout(10)
    # packet(7): PACKET_ADD_MEMBERSHIP, PACKET_MR_PROMISC. The destination is not the interface's own.
    membership = struct.pack("IHH8s", socket.if_nametoindex(interface), 1, 0, bytes(8))
    port.setsockopt(263, 1, membership)
    print("ready", flush=True)
    for frame in frames(source):
        came, address = port.recvfrom(4096)
        while address[2] == socket.PACKET_OUTGOING:
            came, address = port.recvfrom(4096)
        if came != frame:
            sys.exit(f"{len(frame)} octets were sent, {len(came)} came: {came[:24].hex()}")
    print("all came")


main(*sys.argv[1:])
