"""Sampled values (9-2LE) of libiec61850, as the book's merging unit publishes them. Arguments: INTERFACE and SECONDS.

4,000 frames a second, of eight integers with quality each. The publisher is not wrapped for Python, but the package's
library exports it.
"""

import ctypes
import pathlib
import sys
import time

import pyiec61850

RATE = 4000


class Communication(ctypes.Structure):
    _fields_ = [
        ("priority", ctypes.c_uint8),
        ("vlan", ctypes.c_uint16),
        ("appid", ctypes.c_uint16),
        ("destination", ctypes.c_uint8 * 6),
    ]


def library():
    (path,) = pathlib.Path(pyiec61850.__file__).parent.glob("_pyiec61850*.so")
    found = ctypes.CDLL(str(path))
    for name in ["SVPublisher_create", "SVPublisher_addASDU"]:
        getattr(found, name).restype = ctypes.c_void_p
    return found


interface, seconds = sys.argv[1].encode(), float(sys.argv[2])
lib = library()
to = Communication(4, 0, 0x4000, (ctypes.c_uint8 * 6).from_buffer_copy(bytes.fromhex("010ccd040000")))
publisher = ctypes.c_void_p(lib.SVPublisher_create(ctypes.byref(to), interface))
if not publisher:
    sys.exit("no publisher on this interface")
asdu = ctypes.c_void_p(lib.SVPublisher_addASDU(publisher, b"antedateMU01", None, ctypes.c_uint32(1)))
places = [(lib.SVPublisher_ASDU_addINT32(asdu), lib.SVPublisher_ASDU_addQuality(asdu)) for _ in range(8)]
lib.SVPublisher_setupComplete(publisher)
lib.SVPublisher_ASDU_setSmpSynch(asdu, ctypes.c_uint16(2))
begin = time.monotonic()
for number in range(int(seconds * RATE)):
    for channel, (value, _) in enumerate(places):
        lib.SVPublisher_ASDU_setINT32(asdu, value, ctypes.c_int32(number * 10 + channel))
    lib.SVPublisher_ASDU_setSmpCnt(asdu, ctypes.c_uint16(number % RATE))
    lib.SVPublisher_publish(publisher)
    pause = begin + (number + 1) / RATE - time.monotonic()
    if pause > 0:
        time.sleep(pause)
