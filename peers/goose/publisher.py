"""GOOSE publisher (libiec61850). Arguments: INTERFACE EVENTS REPEATS.

Sends state 1 once, then the states 2 to EVENTS + 1, each REPEATS times. The values (a boolean, an
integer and a text) follow from the event number, so receivers can check them.
"""

import sys
import time

from pyiec61850.goose import GoosePublisher

CONTROL_BLOCK = "antedateLD0/LLN0$GO$gcbTrip"


def values(event):
    return [event % 2 == 1, event * 1000 - 7, f"event {event}"]


def main():
    interface, events, repeats = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with GoosePublisher(interface) as publisher:
        publisher.set_go_cb_ref(CONTROL_BLOCK)
        publisher.set_go_id("antedate")
        publisher.set_data_set("antedateLD0/LLN0$dsTrip")
        publisher.set_app_id(0x1000)
        publisher.set_conf_rev(3)
        publisher.set_dst_mac(bytes.fromhex("010ccd010001"))
        publisher.set_time_allowed_to_live(500)
        publisher.start()
        # State numbers start at 1. The library drops messages during the subscriber's slow first
        # call-back, so the first message is sent alone.
        publisher.publish(values(1))
        time.sleep(1)
        for event in range(2, events + 2):
            # A new state resets the sequence number (IEC 61850-8-1, 18.1.2.5).
            publisher.increase_st_num()
            # Paced for the Python subscriber.
            for _ in range(repeats):
                publisher.publish(values(event))
                time.sleep(0.02)


main()
