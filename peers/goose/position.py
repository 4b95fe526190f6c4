"""The control block gcbPosition of docs/examples/goose/antedate.scd, with libiec61850.

Arguments: INTERFACE publish EVENTS REVISION, INTERFACE subscribe COUNT, or INTERFACE replay CAPTURE,
which sends the frames of a pcap file once more. Publishes the states 1 to
EVENTS, each once: a structure of position, quality and time, a power, a behaviour. A subscriber
prints "listening", then each message as a line of JSON, with bits as text.
"""

import json
import socket
import struct
import sys
import threading
import time

import pyiec61850.goose.subscriber as wrapper
import pyiec61850.pyiec61850 as iec61850
from pyiec61850.goose import GoosePublisher, GooseSubscriber

CONTROL_BLOCK = "antedateLD0/LLN0$GO$gcbPosition"
MILLISECONDS = 1_790_000_000_000


class Publisher(GoosePublisher):
    """Also takes functions that make a value: the wrapper has no structures."""

    def _create_mms_value(self, value):
        return value() if callable(value) else super()._create_mms_value(value)


def position(state):
    def bits(size, ones):
        value = iec61850.MmsValue_newBitString(size)
        for at in ones:
            iec61850.MmsValue_setBitStringBit(value, at, True)
        return value

    def make():
        structure = iec61850.MmsValue_createEmptyStructure(3)
        # 01: off, 10: on. Bit 11 of a quality: test.
        iec61850.MmsValue_setElement(structure, 0, bits(2, [0] if state % 2 else [1]))
        iec61850.MmsValue_setElement(structure, 1, bits(13, [11]))
        iec61850.MmsValue_setElement(structure, 2, iec61850.MmsValue_newUtcTimeByMsTime(MILLISECONDS))
        return structure

    return make


def publish(interface, events, revision):
    with Publisher(interface) as publisher:
        publisher.set_go_cb_ref(CONTROL_BLOCK)
        publisher.set_go_id("antedate-position")
        publisher.set_data_set("antedateLD0/LLN0$dsPosition")
        publisher.set_app_id(0x1001)
        publisher.set_conf_rev(revision)
        publisher.set_dst_mac(bytes.fromhex("010ccd010002"))
        publisher.set_vlan(0, 6)
        publisher.set_time_allowed_to_live(500)
        publisher.start()
        for state in range(1, events + 1):
            publisher.publish([position(state), state / 2, 1])
            publisher.increase_st_num()
            time.sleep(0.05)


def extract(value):
    kind = iec61850.MmsValue_getType(value)
    if kind == iec61850.MMS_STRUCTURE:
        count = iec61850.MmsValue_getArraySize(value)
        return [extract(iec61850.MmsValue_getElement(value, at)) for at in range(count)]
    if kind == iec61850.MMS_BIT_STRING:
        size = iec61850.MmsValue_getBitStringSize(value)
        return "".join(str(int(iec61850.MmsValue_getBitStringBit(value, at))) for at in range(size))
    if kind == iec61850.MMS_UTC_TIME:
        return iec61850.MmsValue_getUtcTimeInMs(value)
    return plain(value)


plain = wrapper._extract_mms_value
wrapper._extract_mms_value = extract


def subscribe(interface, count):
    came = threading.Semaphore(0)

    def show(message):
        line = {
            "state": message.st_num,
            "sequence": message.sq_num,
            "revision": message.conf_rev,
            "valid": message.is_valid,
            "error": message.parse_error,
            "time_allowed_to_live": message.time_allowed_to_live,
            "needs_commissioning": message.needs_commissioning,
            "go_id": message.go_id,
            "data_set": message.data_set,
            "values": message.values,
        }
        print(json.dumps(line), flush=True)
        came.release()

    subscriber = GooseSubscriber(interface, CONTROL_BLOCK)
    subscriber.set_app_id(0x1001)
    subscriber.set_listener(show)
    subscriber.start()
    print("listening", flush=True)
    for _ in range(count):
        if not came.acquire(timeout=5):
            break
    subscriber.stop()


def replay(interface, capture):
    with open(capture, "rb") as file, socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
        out.bind((interface, 0))
        assert struct.unpack("<I", file.read(24)[:4])[0] in (0xA1B2C3D4, 0xA1B23C4D)
        count = 0
        while head := file.read(16):
            frame = file.read(struct.unpack("<4I", head)[2])
            if b"\x88\xb8" in frame[12:18]:
                out.send(frame)
                count += 1
        print(count)


def main():
    interface, verb, what = sys.argv[1:4]
    if verb == "publish":
        publish(interface, int(what), int(sys.argv[4]))
    elif verb == "subscribe":
        subscribe(interface, int(what))
    else:
        replay(interface, what)


main()
