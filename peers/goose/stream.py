"""Routed sampled values (IEC 61850-90-5) of libiec61850, AES-128-GCM. Argument: PORT, and COUNT of ASDUs.

The session functions are not wrapped for Python, but the package's library exports them. Prints
"listening", then each ASDU as a line of JSON, and ends after COUNT or five seconds without one.
"""

import ctypes
import json
import pathlib
import sys
import threading
import time

import pyiec61850

KEY = bytes(range(16))
KEY_NUMBER = 1
AES_128_GCM = 1
APPID = 0x4001


def library():
    (path,) = pathlib.Path(pyiec61850.__file__).parent.glob("_pyiec61850*.so")
    found = ctypes.CDLL(str(path))
    for name in ["RSession_create", "SVReceiver_createRemote", "SVSubscriber_create"]:
        getattr(found, name).restype = ctypes.c_void_p
    found.SVSubscriber_ASDU_getSvId.restype = ctypes.c_char_p
    found.SVSubscriber_ASDU_getConfRev.restype = ctypes.c_uint32
    found.SVSubscriber_ASDU_getSmpCnt.restype = ctypes.c_uint16
    return found


port, count = (int(text) for text in sys.argv[1:])
lib = library()
session = ctypes.c_void_p(lib.RSession_create())
lib.RSession_setLocalAddress(session, b"127.0.0.1", port)
lib.RSession_addKey(session, KEY_NUMBER, KEY, len(KEY), AES_128_GCM, 0)
lib.RSession_setActiveKey(session, KEY_NUMBER)
receiver = ctypes.c_void_p(lib.SVReceiver_createRemote(session))
subscriber = ctypes.c_void_p(lib.SVSubscriber_create(None, APPID))
came = threading.Semaphore(0)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
def show(_, __, asdu):
    asdu = ctypes.c_void_p(asdu)
    line = {
        "sv_id": lib.SVSubscriber_ASDU_getSvId(asdu).decode(),
        "sample": lib.SVSubscriber_ASDU_getSmpCnt(asdu),
        "revision": lib.SVSubscriber_ASDU_getConfRev(asdu),
        "octets": lib.SVSubscriber_ASDU_getDataSize(asdu),
    }
    print(json.dumps(line), flush=True)
    came.release()


lib.SVSubscriber_setListener(subscriber, show, None)
lib.SVReceiver_addSubscriber(receiver, subscriber)
lib.SVReceiver_start(receiver)
time.sleep(0.2)
print("listening", flush=True)
for _ in range(count):
    if not came.acquire(timeout=5):
        break
# The receiver's thread ends with the process.
