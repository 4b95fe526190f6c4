"""scapy's IEEE 802.15.4 layers and AES-CCM of the package cryptography, as the far end.

One argument: a JSON object with `key`, `ours` and `own` (extended addresses), and `frames`: for
each frame that our side secured, the octets with FCS (`frame`), `level`, `mode`, `counter` and
`payload`. scapy dissects each frame and AES-CCM opens it. Then scapy builds a frame of each kind,
secured by AES-CCM. Prints one line of JSON with these `frames` and with `faults`; exits with 1 if
there are faults.
"""

import json
import logging
import struct
import sys

logging.getLogger("scapy").setLevel(logging.ERROR)

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESCCM
from scapy.layers.dot15d4 import Dot15d4, Dot15d4AuxSecurityHeader, Dot15d4Data, Dot15d4FCS
from scapy.packet import raw

PAN, OURS, OWN, INDEX = 0xABCD, 2, 1, 7
MIC = {1: 4, 2: 8, 3: 16, 4: 0, 5: 4, 6: 8, 7: 16}
SOURCE = {2: 0x11223344, 3: 0x1122334455667788}
FCS = 2


def nonce(extended, counter, level):
    """Clause 9.3.3: source address, frame counter, security level."""
    return extended + struct.pack(">IB", counter, level)


def ccm_star(key, nonce, level, header, payload):
    """Secures a payload. Level 4 is plain counter mode, which AESCCM lacks."""
    if level == 4:
        first = b"\x01" + nonce + b"\x00\x01"
        encryptor = Cipher(algorithms.AES(key), modes.CTR(first)).encryptor()
        return encryptor.update(payload) + encryptor.finalize()
    cipher = AESCCM(key, tag_length=MIC[level])
    if level > 4:
        return cipher.encrypt(nonce, payload, header)
    return payload + cipher.encrypt(nonce, b"", header + payload)


def ccm_star_open(key, nonce, level, header, secured):
    if level == 4:
        return ccm_star(key, nonce, level, header, secured)
    cipher = AESCCM(key, tag_length=MIC[level])
    if level > 4:
        return cipher.decrypt(nonce, secured, header)
    payload, mic = secured[: -MIC[level]], secured[-MIC[level] :]
    cipher.decrypt(nonce, mic, header + payload)
    return payload


def judge(case, key, extended):
    """Returns the fault of our frame, or None."""
    octets = bytes.fromhex(case["frame"])
    frame = Dot15d4FCS(octets)
    if frame.compute_fcs(octets[:-FCS]) != octets[-FCS:]:
        return "the FCS is wrong"
    data = frame[Dot15d4Data]
    found = data.aux_sec_header
    wanted = {
        "sec_sc_seclevel": case["level"],
        "sec_sc_keyidmode": case["mode"],
        "sec_framecounter": case["counter"],
    }
    if case["mode"]:
        wanted["sec_keyid_keyindex"] = INDEX
    if case["mode"] in SOURCE:
        wanted["sec_keyid_keysource"] = SOURCE[case["mode"]]
    for name, value in wanted.items():
        if found.getfieldval(name) != value:
            return f"{name} is {found.getfieldval(name)} and not {value}"
    addresses = (frame.fcf_security, frame.fcf_framever, data.dest_panid, data.dest_addr, data.src_addr)
    if addresses != (1, 1, PAN, OWN, OURS):
        return f"addresses, version or the security bit: {addresses}"
    # Control, number, PAN, two short addresses; then scapy's re-encoded security header.
    header_len = 9 + len(raw(found))
    secured = octets[header_len:-FCS]
    try:
        opened = ccm_star_open(
            key, nonce(extended, case["counter"], case["level"]), case["level"], octets[:header_len], secured
        )
    except InvalidTag:
        return "the MIC is wrong"
    if opened != bytes.fromhex(case["payload"]):
        return f"it says {opened.hex()}"
    return None


def lay_out(case, key, extended, number):
    """Builds scapy's frame of the same kind, secured by AES-CCM, with FCS."""
    security = Dot15d4AuxSecurityHeader(
        sec_sc_seclevel=case["level"], sec_sc_keyidmode=case["mode"], sec_framecounter=number
    )
    if case["mode"]:
        security.sec_keyid_keyindex = INDEX
    if case["mode"] in SOURCE:
        security.sec_keyid_keysource = SOURCE[case["mode"]]
    control = Dot15d4(
        fcf_frametype=1,
        fcf_security=1,
        fcf_panidcompress=1,
        fcf_framever=1,
        fcf_srcaddrmode=2,
        fcf_destaddrmode=2,
        seqnum=number & 0xFF,
    )
    header = raw(
        control / Dot15d4Data(dest_panid=PAN, dest_addr=OURS, src_addr=OWN, aux_sec_header=security)
    )
    payload = f"scapy at level {case['level']} in mode {case['mode']}".encode()
    secured = ccm_star(key, nonce(extended, number, case["level"]), case["level"], header, payload)
    whole = header + secured
    return {"frame": (whole + Dot15d4FCS().compute_fcs(whole)).hex(), "payload": payload.hex()}


def main():
    work = json.loads(sys.argv[1])
    key = bytes.fromhex(work["key"])
    faults, frames = [], []
    for number, case in enumerate(work["frames"], 1):
        fault = judge(case, key, bytes.fromhex(work["ours"]))
        if fault:
            faults.append(f"level {case['level']}, mode {case['mode']}: {fault}: {case['frame']}")
        frames.append(lay_out(case, key, bytes.fromhex(work["own"]), number))
    print(json.dumps({"faults": faults, "frames": frames}))
    sys.exit(1 if faults else 0)


main()
