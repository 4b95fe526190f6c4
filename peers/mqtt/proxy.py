"""Unchanged applications behind `antedate mqtt proxy`, over Debian's Mosquitto.

Applications are paho-mqtt over 3.1.1 and 5. A witness at the broker reads with the independent reader
of envelope.py and sees no clear payload. Arguments: antedate program, empty directory. The last line of
output is the verdict.
"""

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time

import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from broker import Broker, free_port, until_open  # noqa: E402
from envelope import Group  # noqa: E402

PROGRAM, WORK = (os.path.abspath(word) for word in sys.argv[1:3])
os.chdir(WORK)


def run(*words):
    done = subprocess.run([PROGRAM, *words], capture_output=True, timeout=60)
    if done.returncode != 0:
        raise SystemExit(f"antedate {' '.join(words)}: {done.returncode} {done.stderr.decode()}")
    return done.stdout.decode()


class Proxy:
    """A proxy process with a state of its own."""

    def __init__(self, name, broker, *words, listen=None):
        self.name, self.port = name, free_port()
        self.listen = listen or f"127.0.0.1:{self.port}"
        self.words = ["mqtt", "proxy", "-h", "127.0.0.1", "-p", str(broker), "--state", name, "--listen", self.listen, *words]
        if not os.path.exists(name):
            run("mqtt", "init", name)
        self.start()

    def start(self):
        self.log = open(f"{self.name}.log", "ab")
        self.process = subprocess.Popen([PROGRAM, *self.words], stderr=self.log)
        if "/" in self.listen:
            for _ in range(300):
                if os.path.exists(self.listen):
                    return
                time.sleep(0.02)
            raise SystemExit(f"{self.name} makes no socket")
        if not until_open(self.port):
            raise SystemExit(f"{self.name} does not start: {self.said()}")

    def said(self):
        return open(f"{self.name}.log").read()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.terminate()
        assert self.process.wait(10) == 0, self.said()


class App:
    """An unchanged application."""

    def __init__(self, port, version="311", name="", filters=(), will=None, clean=True, auto=True, properties=None, session=None):
        protocol = paho.MQTTv5 if version == "5" else paho.MQTTv311
        more = {} if version == "5" else {"clean_session": clean}
        if isinstance(port, str):
            more["transport"] = "unix"
        self.client = paho.Client(
            paho.CallbackAPIVersion.VERSION2, name or f"app-{time.time_ns()}", protocol=protocol, manual_ack=not auto, **more
        )
        self.got, self.ready, self.answers, self.gone = [], threading.Event(), {}, threading.Event()
        self.connected, self.session = threading.Event(), None
        self.client.on_message = lambda _c, _u, m: self.got.append((m.topic, bytes(m.payload), m.qos, m.retain, m.mid))
        self.client.on_publish = lambda _c, _u, mid, reason, _p: self.answers.__setitem__(mid, reason)
        self.client.on_disconnect = lambda *_: self.gone.set()

        def connected(client, _u, flags, reason, _p):
            self.session, self.reason = flags.session_present, reason
            self.connected.set()
            if reason.is_failure:
                return
            client.subscribe([(topic, qos) for topic, qos in filters]) if filters else self.ready.set()

        self.client.on_connect = connected
        self.client.on_subscribe = lambda *_: self.ready.set()
        if will:
            self.client.will_set(*will)
        if version == "5":
            connect = properties or Properties(PacketTypes.CONNECT)
            if not clean:
                connect.SessionExpiryInterval = 3600
            more = {"clean_start": clean, "properties": connect}
        else:
            more = {}
        self.client.connect("127.0.0.1" if isinstance(port, int) else port, port if isinstance(port, int) else 1, **more)
        self.client.loop_start()
        assert self.ready.wait(40), f"no connection over {port}"

    def publish(self, topic, payload, qos=0, retain=False, properties=None):
        sent = self.client.publish(topic, payload, qos, retain, properties)
        sent.wait_for_publish(40)
        assert sent.is_published(), (topic, payload)
        return sent.mid

    def payloads(self, topic):
        return [payload for at, payload, *_ in self.got if at == topic]

    def wait(self, topic, payloads, seconds=40):
        """Waits for exactly these payloads on a topic."""
        end = time.time() + seconds
        while self.payloads(topic) != payloads and time.time() < end:
            time.sleep(0.01)
        assert self.payloads(topic) == payloads, (topic, payloads, self.got[-6:])

    def stop(self):
        self.client.disconnect()
        self.client.loop_stop()

    def die(self):
        """Ends as a killed process does."""
        self.client._sock.shutdown(socket.SHUT_RDWR)
        self.client._reconnect_on_failure = False
        self.client.loop_stop()


class Witness(App):
    """At the broker: every payload on a protected topic must be an envelope."""

    def __init__(self, port, reader):
        super().__init__(port, name="witness", filters=[("plant/#", 2), ("homeassistant/#", 2)])
        self.reader = reader

    def opened(self):
        return [(topic, self.reader.open(topic, payload)[0]) for topic, payload, *_ in self.got]


def services(proxies, broker, witness):
    """Every QoS and version, both ways, through two proxies and at one."""
    left, right = proxies
    for version in ("311", "5"):
        for qos in (0, 1, 2):
            topic = f"plant/{version}/{qos}"
            here, there = (App(proxy.port, version, filters=[("plant/+/+", qos)]) for proxy in (left, right))
            writer = App(left.port, version)
            payloads = [b"%d" % number for number in range(40)]
            for payload in payloads:
                writer.publish(topic, payload, qos)
            for app in (here, there):
                app.wait(topic, payloads)
                app.stop()
            writer.stop()
    opened = witness.opened()
    assert len(opened) == 240 and (("plant/5/2", b"39") in opened), len(opened)


def retained(proxies, broker):
    """Discovery as Home Assistant has it: retained configurations come at each start, and go."""
    left, right = proxies
    topic, state = "homeassistant/sensor/press7/config", "plant/press7/state"
    config = json.dumps({"name": "Force", "state_topic": state, "unit_of_measurement": "kN"}).encode()
    device = App(left.port, will=("plant/press7/availability", b"offline", 1, True))
    device.publish("plant/press7/availability", b"online", 1, True)
    device.publish(topic, config, 1, True)
    device.publish(state, b"81.5", 1, True)
    for start in range(3):
        # A fixed name, as Home Assistant's, and a start of the proxy between.
        hub = App(right.port, name="hub", filters=[("homeassistant/#", 1), ("plant/press7/#", 1)])
        hub.wait(topic, [config])
        hub.wait(state, [b"81.5"])
        hub.wait("plant/press7/availability", [b"online"])
        assert all(retain for *_, retain, _ in hub.got), hub.got
        hub.stop()
        if start == 1:
            right.stop()
            right.start()
    hub = App(right.port, name="hub", filters=[("homeassistant/#", 1), ("plant/press7/#", 1)])
    hub.wait("plant/press7/availability", [b"online"])
    # The configuration goes: those that listen are told, and nobody gets it later.
    device.publish(topic, b"", 1, True)
    hub.wait(topic, [config, b""])
    # The device dies: its sealed will comes.
    device.die()
    hub.wait("plant/press7/availability", [b"online", b"offline"])
    hub.stop()
    late = App(right.port, name="late", filters=[("homeassistant/#", 1), ("plant/press7/#", 1)])
    late.wait("plant/press7/availability", [b"offline"])
    assert late.payloads(topic) == [], late.got
    late.stop()


def sessions(proxies, version):
    """Nothing is lost and nothing comes twice over lost connections of an application and kills of the proxy."""
    left, right = proxies
    topic, name = f"plant/queue/{version}", f"worker-{version}"
    filters = [(topic, 1)]
    app = App(right.port, version, name, filters, clean=False)
    app.stop()
    writer = App(left.port)
    for number in range(300):
        writer.publish(topic, b"%d" % number, 1)
    # Takes some without an acknowledgement: they come again.
    app = App(right.port, version, name, (), clean=False, auto=False)
    end = time.time() + 40
    while not app.got and time.time() < end:
        time.sleep(0.01)
    assert app.got and app.session, "the session's queue does not come"
    app.die()
    right.kill()
    right.start()
    app = App(right.port, version, name, (), clean=False)
    app.wait(topic, [b"%d" % number for number in range(300)])
    app.stop()
    writer.stop()
    # The acknowledged ones do not come again.
    app = App(right.port, version, name, (), clean=False)
    time.sleep(0.3)
    assert app.got == [], app.got[:3]
    app.stop()


def refusals(proxies, broker):
    """What is not sealed does not pass, in either direction, and nothing waits for it."""
    left, right = proxies
    app = App(right.port, filters=[("#", 2)])
    attacker = App(broker.port, filters=[("plant/#", 2)])
    for qos in (0, 1, 2):
        attacker.publish("plant/valve", b"open", qos)
    writer = App(left.port)
    writer.publish("plant/valve", b"closed", 1)
    app.wait("plant/valve", [b"closed"])
    # A recorded envelope on another connection, or another topic.
    envelope = attacker.payloads("plant/valve")[-1]
    for topic in ("plant/valve", "plant/pump"):
        for qos in (0, 1, 2):
            attacker.publish(topic, envelope, qos)
    writer.publish("plant/valve", b"end", 2)
    app.wait("plant/valve", [b"closed", b"end"])
    assert app.payloads("plant/pump") == []
    # Topics of no group: 3.1.1 cannot be told, 5 is.
    clear = App(broker.port, filters=[("free/#", 0), ("other/#", 0)])
    for qos in (0, 1, 2):
        writer.publish("other/topic", b"secret", qos)
    modern = App(left.port, "5")
    mid = modern.publish("other/topic", b"secret", 1)
    assert modern.answers[mid].value == 0x87, modern.answers
    writer.publish("free/topic", b"weather", 1)
    clear.wait("free/topic", [b"weather"])
    app.wait("free/topic", [b"weather"])
    assert clear.payloads("other/topic") == []
    assert "belongs to no group" in left.said() and "--plain" in left.said()
    for one in (app, attacker, writer, clear, modern):
        one.stop()


def fifth(proxies):
    """Topic aliases, properties, the longest packet, shared subscriptions."""
    left, right = proxies
    properties = Properties(PacketTypes.CONNECT)
    properties.TopicAliasMaximum = 5
    properties.MaximumPacketSize = 2000
    reader = App(right.port, "5", filters=[("plant/alias/+", 1)], properties=properties)
    writer = App(left.port, "5")
    topic = "plant/alias/a"
    for number in range(3):
        more = Properties(PacketTypes.PUBLISH)
        more.TopicAlias = 1
        more.UserProperty = [("unit", "kN")]
        more.PayloadFormatIndicator = 1
        writer.publish(topic if number == 0 else "", b"%d" % number, 1, properties=more)
    reader.wait(topic, [b"0", b"1", b"2"])
    # Fits opened as well as sealed, and does not.
    writer.publish("plant/alias/b", b"x" * 1900, 1)
    writer.publish("plant/alias/b", b"x" * 2100, 1)
    writer.publish("plant/alias/b", b"end", 1)
    reader.wait("plant/alias/b", [b"x" * 1900, b"end"])
    # Each message to one of a shared subscription.
    pair = [App(right.port, "5", filters=[("$share/pair/plant/shared", 1)]) for _ in range(2)]
    for number in range(50):
        writer.publish("plant/shared", b"%d" % number, 1)
    end = time.time() + 40
    while sum(len(one.got) for one in pair) < 50 and time.time() < end:
        time.sleep(0.01)
    got = sorted(int(payload) for one in pair for payload in one.payloads("plant/shared"))
    assert got == list(range(50)) and all(one.got for one in pair), got
    for one in (reader, writer, *pair):
        one.stop()


def outage(proxies, broker):
    """Without a broker applications are told so, and come back by themselves."""
    left, right = proxies
    app = App(right.port, name="patient", filters=[("plant/back", 1)])
    app.client.reconnect_delay_set(0.2, 1)
    broker.kill()
    assert app.gone.wait(30), "the application does not see the outage"
    app.connected.clear()
    assert app.connected.wait(30) and app.reason.is_failure, "no answer during the outage"
    app.ready.clear()
    broker.start()
    assert app.ready.wait(40), "the application does not come back"
    writer = App(left.port)
    writer.publish("plant/back", b"again", 1)
    app.wait("plant/back", [b"again"])
    app.stop()
    writer.stop()
    assert "no connection to 127.0.0.1" in right.said() and "connected again" in right.said()


def managed(broker):
    """A group with a manager: the key comes by the broker, changes under traffic, and wills follow it."""
    devices = {}
    for name in ("gate", "hall"):
        run("keygen", "mqtt", "--device", name, "--out", f"{name}.device")
        devices[name] = re.search(r"[0-9a-f]{64}", open(f"{name}.device").read()).group(0)
    members = [word for name, public in devices.items() for word in ("--member", f"{name}={public}")]
    run("keygen", "mqtt", "--group", "dock", "--topic", "dock/#", *members, "--out", "manager.toml")
    run("keygen", "mqtt", "--for-members", "manager.toml", "--out", "dock.toml")
    rotate = ["mqtt", "rotate", "--group", "manager.toml", "-h", "127.0.0.1", "-p", str(broker.port)]
    gate, hall = (Proxy(name, broker.port, "--keys", "dock.toml", "--device", f"{name}.device") for name in devices)
    run(*rotate)
    end = time.time() + 40
    while not all("begins" in one.said() for one in (gate, hall)):
        assert time.time() < end, (gate.said(), hall.said())
        time.sleep(0.02)
    reader = App(hall.port, "5", name="reader", filters=[("dock/#", 1)])
    writer = App(gate.port, name="writer")
    mortal = App(gate.port, "5", name="mortal", will=("dock/gone", b"gone", 1, False))
    mortal.client.reconnect_delay_set(0.2, 1)
    sent = []
    for epoch in range(3):
        for number in range(50):
            sent.append(b"%d %d" % (epoch, number))
            writer.publish("dock/count", sent[-1], 1)
        mortal.ready.clear()
        run(*rotate, "--grace", "5")
    reader.wait("dock/count", sent)
    # The will is of the newest epoch: its client was sent away, and came back.
    assert mortal.ready.wait(40), gate.said()
    time.sleep(6)
    mortal.die()
    reader.wait("dock/gone", [b"gone"])
    for one in (reader, writer):
        one.stop()
    for one in (gate, hall):
        one.stop()


def main():
    broker = Broker("proxy", "max_inflight_messages 20\n")
    run("keygen", "mqtt", "--group", "line4", "--topic", "plant/#", "--topic", "homeassistant/#", "--out", "line4.toml")
    secret = re.search(r'secret = "([0-9a-f]{64})"', open("line4.toml").read()).group(1)
    reader = Group("line4", "aes-ccm-16-64-128", {1: bytes.fromhex(secret)})
    common = ["--keys", "line4.toml", "--plain", "free/#"]
    proxies = [Proxy(name, broker.port, *common, "--publisher", name) for name in ("left", "right")]
    witness = Witness(broker.port, reader)
    parts = [
        ("each QoS over 3.1.1 and 5", lambda: services(proxies, broker, witness)),
        ("retained discovery, its end, a will", lambda: retained(proxies, broker)),
        ("a session over kills, 3.1.1", lambda: sessions(proxies, "311")),
        ("a session over kills, 5", lambda: sessions(proxies, "5")),
        ("version 5: aliases, limits, shared", lambda: fifth(proxies)),
        ("witness", lambda: witness.opened()),
        ("refusals", lambda: refusals(proxies, broker)),
        ("a broker that is away", lambda: outage(proxies, broker)),
        ("rotation", lambda: managed(broker)),
    ]
    for name, part in parts:
        started = time.time()
        part()
        print(f"   proxy: {name} ({time.time() - started:.1f} s)", flush=True)
    witness.stop()
    # A Unix socket, for the own user alone.
    local = Proxy("local", broker.port, *common, "--publisher", "local", listen=f"{WORK}/socket")
    assert os.stat("socket").st_mode & 0o777 == 0o600
    app = App(f"{WORK}/socket", filters=[("plant/local", 1)])
    app.publish("plant/local", b"here", 1)
    app.wait("plant/local", [b"here"])
    app.stop()
    for one in (*proxies, local):
        one.stop()
    broker.kill()
    print(json.dumps({"passed": True}))


main()
