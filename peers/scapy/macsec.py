"""scapy's MACsecSA as the far end of a gateway (IEEE 802.1AE-2018, clauses 9, 10 and 14).

One argument: a JSON object with `suite`, `key`, `salt`, `gateway` and `own` (SCIs), `encrypt`. The
namespace has both sides of the gateway: `machine` faces the field port, `wire` the uplink. scapy
opens the gateway's outgoing frames and protects incoming ones. Prints one line of JSON; exits with
1 if a frame differs.
"""

import json
import os
import socket
import sys

from scapy.contrib.macsec import MACsec, MACsecSA
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw, raw

MACHINE = "02:00:00:00:00:01"
REMOTE = "02:00:00:00:00:0f"
OUTGOING = 4


class Port:
    """A raw socket that receives incoming frames only."""

    def __init__(self, interface):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.socket.bind((interface, 0))

    def send(self, frame):
        self.socket.send(frame)

    def receive(self, wanted, timeout=1.0):
        """Returns the next incoming frame that matches `wanted`, or None."""
        self.socket.settimeout(timeout)
        try:
            while True:
                frame, about = self.socket.recvfrom(65536)
                if about[2] != OUTGOING and wanted(frame):
                    return frame
        except TimeoutError:
            return None


def frames(source, destination):
    """Yields frames: shortest, around the short-length bound, full size, tagged, multicast."""
    header = Ether(src=source, dst=destination)
    for length in (2, 4, 30, 31, 32, 33, 34, 44, 45, 46, 47, 48, 64, 100, 576, 1000, 1486, 1498, 1500):
        yield raw(Ether(src=source, dst=destination, type=0x88B5) / Raw(os.urandom(length)))
    yield raw(header / IP(src="10.1.0.1", dst="10.1.0.2") / UDP(sport=1, dport=2) / Raw(os.urandom(512)))
    yield raw(Ether(src=source, dst="01:0e:cf:00:00:00", type=0x8892) / Raw(bytes.fromhex("8001") + os.urandom(44)))
    # On the machine side the kernel delivers VLAN tags beside the frame; on the wire they are sealed inside.
    yield raw(header / Dot1Q(vlan=7, prio=6) / Raw(bytes.fromhex("88b5") + os.urandom(60)))


class Far:
    """The far end: a secure association in each direction."""

    def __init__(self, case):
        key, xpn = bytes.fromhex(case["key"]), "xpn" in case["suite"]
        salt = bytes.fromhex(case["salt"]) if xpn else None

        def association(sci, ssci):
            return MACsecSA(
                bytes.fromhex(sci), 0, 1, key, 16, case["encrypt"], True, xpn, ssci if xpn else None, salt
            )

        # SSCIs by the key file: the gateway is member 1, this end member 2.
        self.hears = association(case["gateway"], 1)
        self.speaks = association(case["own"], 2)

    def protect(self, frame):
        tagged = self.speaks.encrypt(self.speaks.encap(Ether(frame)))
        self.speaks.pn += 1
        return raw(tagged)

    def open(self, frame):
        parsed = Ether(frame)
        # Octets behind the ICV of a short frame are Ethernet padding (9.7).
        if parsed[MACsec].SL:
            parsed = Ether(frame[: 28 + parsed[MACsec].SL + 16])
        return raw(self.hears.decap(self.hears.decrypt(parsed)))


def main():
    case = json.loads(sys.argv[1])
    machine, wire, far = Port("machine"), Port("wire"), Far(case)
    faults, outward, inward, plain = [], 0, 0, 0

    def secured(frame):
        return frame[12:14] == b"\x88\xe5"

    for frame in frames(MACHINE, REMOTE):
        machine.send(frame)
        sealed = wire.receive(secured)
        if sealed is None:
            faults.append(f"{len(frame)} octets did not come out")
            continue
        # Two random octets occur in a sealed frame by chance once in some thousand.
        plain += len(frame) >= 14 + 8 and frame[14:] in sealed
        opened = far.open(sealed)
        if opened != frame:
            faults.append(f"out: {frame.hex()} became {opened.hex()}")
        outward += 1
    for frame in frames(REMOTE, MACHINE):
        tagged = frame[12:14] == b"\x81\x00"
        # The kernel removes the tag before the raw socket.
        expected = frame[:12] + frame[16:] if tagged else frame
        sealed = far.protect(frame)
        # A short frame is padded on a real line.
        wire.send(sealed.ljust(60, b"\0"))
        # Matches by source address, so wrong sizes are reported and the kernel's own frames ignored.
        opened = machine.receive(lambda f: f[6:12] == frame[6:12])
        if opened is None:
            faults.append(f"{len(frame)} octets did not come in")
        elif opened[: len(expected)] != expected or any(opened[len(expected) :]):
            faults.append(f"in: {expected.hex()} became {opened.hex()}")
        inward += 1
    if case["encrypt"] and plain:
        faults.append(f"{plain} frames show their payload on the wire")
    # One changed octet in each part: addresses, SecTAG, SCI, payload, ICV. All must be refused.
    for place in (2, 8, 17, 22, 40, -1):
        forged = bytearray(far.protect(raw(Ether(src=REMOTE, dst=MACHINE, type=0x88B5) / Raw(b"x" * 100))))
        forged[place] ^= 1
        wire.send(bytes(forged))
        came = machine.receive(lambda f: f[12:14] == b"\x88\xb5", timeout=0.1)
        if came is not None:
            faults.append(f"a frame with octet {place} changed came in")
    print(json.dumps({"out": outward, "in": inward, "faults": faults}))
    sys.exit(1 if faults else 0)


main()
