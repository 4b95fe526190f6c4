"""Routed GOOSE (IEC 61850-90-5) of libiec61850, AES-128-GCM. Arguments: publish PORT EVENTS REPEATS, or
subscribe PORT COUNT.

The session functions are not wrapped for Python, but the package's library exports them. Values are a
boolean and an integer that follow from the event number. The subscriber prints "listening", then each
message as a line of JSON, and ends after COUNT messages or five seconds without one.
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
BLOCK = b"antedateLD0/LLN0$GO$gcbTrip"
LOOPBACK = b"127.0.0.1"


def library():
    (path,) = pathlib.Path(pyiec61850.__file__).parent.glob("_pyiec61850*.so")
    found = ctypes.CDLL(str(path))
    pointers = [
        "RSession_create",
        "GoosePublisher_createRemote",
        "GooseReceiver_createRemote",
        "GooseSubscriber_create",
        "GooseSubscriber_getDataSetValues",
        "MmsValue_getElement",
        "MmsValue_newBoolean",
        "MmsValue_newIntegerFromInt32",
        "LinkedList_create",
    ]
    for name in pointers:
        getattr(found, name).restype = ctypes.c_void_p
    found.MmsValue_getBoolean.restype = ctypes.c_bool
    return found


def session(lib, port, listens):
    made = ctypes.c_void_p(lib.RSession_create())
    if listens:
        lib.RSession_setLocalAddress(made, LOOPBACK, port)
    else:
        lib.RSession_setRemoteAddress(made, LOOPBACK, port)
    lib.RSession_addKey(made, KEY_NUMBER, KEY, len(KEY), AES_128_GCM, 0)
    lib.RSession_setActiveKey(made, KEY_NUMBER)
    return made


def publish(port, events, repeats):
    lib = library()
    made = session(lib, port, False)
    if lib.RSession_start(made):
        sys.exit("the session does not start")
    publisher = ctypes.c_void_p(lib.GoosePublisher_createRemote(made, 0x1000))
    lib.GoosePublisher_setGoCbRef(publisher, BLOCK)
    lib.GoosePublisher_setGoID(publisher, b"antedate")
    lib.GoosePublisher_setDataSetRef(publisher, b"antedateLD0/LLN0$dsTrip")
    lib.GoosePublisher_setConfRev(publisher, 3)
    lib.GoosePublisher_setTimeAllowedToLive(publisher, 500)
    for event in range(1, events + 1):
        if event > 1:
            lib.GoosePublisher_increaseStNum(publisher)
        values = ctypes.c_void_p(lib.LinkedList_create())
        lib.LinkedList_add(values, ctypes.c_void_p(lib.MmsValue_newBoolean(ctypes.c_bool(event % 2 == 1))))
        lib.LinkedList_add(values, ctypes.c_void_p(lib.MmsValue_newIntegerFromInt32(event * 1000 - 7)))
        for _ in range(repeats):
            lib.GoosePublisher_publish(publisher, values)
            time.sleep(0.02)


def subscribe(port, count):
    lib = library()
    made = session(lib, port, True)
    receiver = ctypes.c_void_p(lib.GooseReceiver_createRemote(made))
    subscriber = ctypes.c_void_p(lib.GooseSubscriber_create(BLOCK, None))
    lib.GooseSubscriber_setAppId(subscriber, 0x1000)
    came = threading.Semaphore(0)

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    def show(of, _):
        of = ctypes.c_void_p(of)
        values = ctypes.c_void_p(lib.GooseSubscriber_getDataSetValues(of))
        element = [ctypes.c_void_p(lib.MmsValue_getElement(values, at)) for at in (0, 1)]
        line = {
            "state": lib.GooseSubscriber_getStNum(of),
            "sequence": lib.GooseSubscriber_getSqNum(of),
            "error": lib.GooseSubscriber_getParseError(of),
            "values": [lib.MmsValue_getBoolean(element[0]), lib.MmsValue_toInt32(element[1])],
        }
        print(json.dumps(line), flush=True)
        came.release()

    lib.GooseSubscriber_setListener(subscriber, show, None)
    lib.GooseReceiver_addSubscriber(receiver, subscriber)
    lib.GooseReceiver_start(receiver)
    time.sleep(0.2)
    print("listening", flush=True)
    for _ in range(count):
        if not came.acquire(timeout=5):
            break
    # The receiver's thread ends with the process.


verb, arguments = sys.argv[1], [int(text) for text in sys.argv[2:]]
{"publish": publish, "subscribe": subscribe}[verb](*arguments)
