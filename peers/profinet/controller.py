#!/usr/bin/env python3
"""profinet-py as the IO controller of our IO device.

The argument is JSON: the interface, the device's address, the name it has or shall get, the IP address
of a new device, the cycle and the number of cycles that its data holds. Every line of output is JSON; the
last one has all counters. It ends when its standard input ends.
"""

import json
import logging
import select
import sys
import time

from profinet import dcp, rt
from profinet.cyclic import CyclicController
from profinet.exceptions import ProfinetError
from profinet.rpc import IOCRSetup, IOSlot, RPCCon, get_station_info
from profinet.util import ethernet_socket, get_mac, s2mac

# The process data's length: input is a copy of the output.
LENGTH = 12
# Seconds of silence after which the connection is made anew, and the bound of all of its tries.
SILENCE = 0.4
PATIENCE = 12.0
RECORD = (1, 1, 7, b"antedate")


def say(what, **more):
    print(json.dumps({"event": what, **more}), flush=True)


class NoWait:
    """The library waits two seconds after each DCP Set; our device is done when it answers."""

    def __getattr__(self, name):
        return getattr(time, name)

    def sleep(self, seconds):
        time.sleep(min(seconds, 0.05))


dcp.time = NoWait()


class Controller:
    def __init__(self, case):
        self.case = case
        self.interface = case["interface"]
        self.mac = get_mac(self.interface)
        self.counts = dict.fromkeys(
            ["connections", "sent", "received", "missed", "invalid", "echoes", "alarms", "records", "lost"], 0
        )
        self.rpc = self.cyclic = self.listener = None
        self.number = 0
        self.echoed = 0

    # Discovery and configuration.

    def identify(self):
        """The device's properties, by its name."""
        sock = ethernet_socket(self.interface)
        try:
            return get_station_info(sock, self.mac, self.case["name"], timeout_sec=3, strict_xid=True)
        finally:
            sock.close()

    def configure(self):
        """Gives a new device its name and address."""
        sock = ethernet_socket(self.interface)
        try:
            xid = dcp.send_discover(sock, self.mac)
            found = dcp.read_response(sock, self.mac, timeout_sec=1, once=True, expected_xid=xid, strict_xid=True)
            device = self.case["device"]
            new = dcp.DCPDeviceDescription(s2mac(device), found[s2mac(device)])
            assert new.name == "" and new.ip == "0.0.0.0", f"not a new device: {new}"
            assert dcp.set_param(sock, self.mac, device, "name", self.case["name"]), "the name was not set"
            address = self.case["address"]
            assert dcp.set_ip(sock, self.mac, device, address, "255.255.255.0", "0.0.0.0"), "no address set"
            assert dcp.get_param(sock, self.mac, device, "name") == self.case["name"].encode()
            refused = False
            try:
                dcp.set_param(sock, self.mac, device, "name", "Not_A_Name")
            except ProfinetError:
                refused = True
            assert refused, "an impossible name was taken"
        finally:
            sock.close()
        say("configured")

    # Connection.

    def slots(self, info):
        """The plugged modules, read by a supervisor's connection, with our lengths of data."""
        rpc = RPCCon(info, timeout=2.0)
        try:
            rpc.connect(self.mac)
            found = rpc.discover_slots()
            identity = rpc.read_im0()
            assert identity.vendor_id == 0xFFFF and b"ANTEDATE" in bytes(identity.order_id), identity
            self.counts["records"] += 2
        finally:
            rpc.close()
        assert [(slot.slot, slot.subslot) for slot in found] == [(0, 1), (1, 1)], found
        return [
            IOSlot(
                slot=slot.slot,
                subslot=slot.subslot,
                input_length=LENGTH * (slot.slot == 1),
                output_length=LENGTH * (slot.slot == 1),
                module_ident=slot.module_ident,
                submodule_ident=slot.submodule_ident,
            )
            for slot in found
        ]

    def connect(self):
        """Connects, writes and reads a record, ends the parameters, waits until the device is ready."""
        info = self.identify()
        assert info.ip == self.case["address"], f"the device has the address {info.ip}"
        setup = IOCRSetup(
            slots=self.slots(info),
            send_clock_factor=32,
            reduction_ratio=self.case["cycle_ms"],
            watchdog_factor=self.case["hold"],
            data_hold_factor=self.case["hold"],
        )
        self.rpc = RPCCon(info, timeout=2.0)
        result = self.rpc.connect(self.mac, with_alarm_cr=True, iocr_setup=setup)
        assert result.input_frame_id and result.output_frame_id, result
        configs = rt.build_iocr_configs(
            setup.slots,
            result.input_frame_id,
            result.output_frame_id,
            setup.send_clock_factor,
            setup.reduction_ratio,
            setup.watchdog_factor,
        )
        self.cyclic = CyclicController(self.interface, self.mac, s2mac(info.mac), *configs, max_consecutive_timeouts=0)
        self.cyclic.on_input(self.input)
        self.listener = self.rpc.create_alarm_listener(self.interface)
        self.listener.add_callback(self.alarm)
        self.listener.start()
        self.cyclic.start()
        slot, subslot, index, data = RECORD
        self.rpc.write(0, slot, subslot, index, data)
        assert bytes(self.rpc.read(0, slot, subslot, index).payload) == data, "another record came back"
        self.counts["records"] += 2
        self.rpc.prm_end()
        self.rpc.application_ready(timeout=3.0)
        self.counts["connections"] += 1

    def input(self, slot, subslot, data):
        """Input data with a good status."""
        echoed = int.from_bytes(data[:4], "big")
        # Older data than before, or data that was never sent, is no echo.
        if self.echoed < echoed <= self.number:
            self.echoed = echoed
            self.counts["echoes"] += 1

    def alarm(self, _alarm):
        self.counts["alarms"] += 1

    def close(self):
        """Stops, releases, and adds up the counters."""
        if self.cyclic is not None:
            self.cyclic.stop()
            stats = self.cyclic.stats
            self.counts["sent"] += stats.frames_sent
            self.counts["received"] += stats.frames_received
            self.counts["missed"] += stats.frames_missed
            self.counts["invalid"] += stats.frames_invalid
        if self.listener is not None:
            self.listener.stop()
        if self.rpc is not None:
            self.rpc.close()
        self.rpc = self.cyclic = self.listener = None

    def establish(self):
        """Connects; tries again while the device has the old connection, or is out of reach."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return self.connect()
            except (ProfinetError, OSError, TimeoutError) as error:
                self.close()
                if time.monotonic() > end:
                    raise
                say("again", why=f"{type(error).__name__}: {error}")
                time.sleep(0.2)

    def operate(self):
        """Exchanges data until standard input ends."""
        frames, heard = 0, time.monotonic()
        told, progress = False, heard
        while not select.select([sys.stdin], [], [], 0.02)[0]:
            self.number += 1
            self.cyclic.set_output_data(1, 1, self.number.to_bytes(4, "big") + bytes(LENGTH - 4))
            now = time.monotonic()
            if self.cyclic.stats.frames_received != frames:
                frames, heard = self.cyclic.stats.frames_received, now
            elif now - heard > max(SILENCE, self.case["cycle_ms"] * self.case["hold"] / 1e3):
                say("lost")
                self.counts["lost"] += 1
                self.close()
                self.establish()
                frames, heard, told = 0, time.monotonic(), False
            if not told and self.counts["alarms"] > 0 and frames > 20 and self.echoed > 0:
                told = True
                say("operating", connections=self.counts["connections"])
            if now - progress > 0.5:
                progress = now
                say("progress", echoes=self.counts["echoes"])


def main():
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr)
    case = json.loads(sys.argv[1])
    controller = Controller(case)
    try:
        if case["new"]:
            controller.configure()
        controller.establish()
        controller.operate()
    finally:
        controller.close()
    say("end", **controller.counts)


if __name__ == "__main__":
    main()
