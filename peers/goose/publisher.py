"""A GOOSE publisher (libiec61850): EVENTS states on INTERFACE, each sent REPEATS times; before them state 1, sent once.

The values follow from the number of the event, so that whoever receives them can check them:
a boolean, an integer and a text.
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
        # The state number starts at 1. The subscriber's first call-back loads half of Python, and the library drops what
        # comes meanwhile, so the first message stands alone.
        publisher.publish(values(1))
        time.sleep(1)
        for event in range(2, events + 2):
            # A new state starts its sequence anew (IEC 61850-8-1, 18.1.2.5).
            publisher.increase_st_num()
            # No faster than Python can take them at the other end.
            for _ in range(repeats):
                publisher.publish(values(event))
                time.sleep(0.02)


main()
