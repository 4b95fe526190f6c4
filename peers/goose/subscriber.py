"""GOOSE subscriber (libiec61850). Arguments: INTERFACE COUNT.

Prints "listening", then each message as a line of JSON. Ends after COUNT messages, or after five
seconds without one.
"""

import json
import sys
import threading

from pyiec61850.goose import GooseSubscriber


def main():
    interface, count = sys.argv[1], int(sys.argv[2])
    came = threading.Semaphore(0)

    def show(message):
        line = {
            "state": message.st_num,
            "sequence": message.sq_num,
            "revision": message.conf_rev,
            "valid": message.is_valid,
            "error": message.parse_error,
            "values": message.values,
        }
        print(json.dumps(line), flush=True)
        came.release()

    subscriber = GooseSubscriber(interface, "antedateLD0/LLN0$GO$gcbTrip")
    subscriber.set_app_id(0x1000)
    subscriber.set_listener(show)
    subscriber.start()
    print("listening", flush=True)
    for _ in range(count):
        if not came.acquire(timeout=5):
            break
    subscriber.stop()


main()
