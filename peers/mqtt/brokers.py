"""Our client and Python package over brokers other than Mosquitto, with paho-mqtt at the other end.

Arguments: antedate program, empty directory, messages in a queue, then NAME=PROGRAM of brokers: nats
(nats-server), mochi (the program of peers/mochi), aedes (the installed broker.js of peers/aedes), hivemq (a
file with the class path of peers/hivemq). The last line of output is the verdict.
"""

import json
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import antedate
import paho.mqtt.client as paho

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from broker import free_port, until_open  # noqa: E402
from envelope import Group  # noqa: E402

PROGRAM, WORK = (os.path.abspath(word) for word in sys.argv[1:3])
os.chdir(WORK)
# Messages that wait at the broker for a session.
QUEUED = int(sys.argv[3])
LONG = max(20, QUEUED // 200)
# The versions of MQTT and the most QoS that a broker has: NATS before 2.10 has no QoS 2.
ABLE = {"nats": (("311",), 1), "aedes": (("311",), 2), "mochi": (("311", "5"), 2), "hivemq": (("311", "5"), 2)}


def command(name, program, port):
    if name == "aedes":
        return ["node", program, str(port)]
    if name == "mochi":
        return [program, str(port)]
    if name == "hivemq":
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../hivemq/Broker.java")
        return ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", open(program).read().strip(), source, str(port), f"{WORK}/hivemq"]
    with open("nats.conf", "w") as conf:
        conf.write(
            f"listen: 127.0.0.1:{free_port()}\nserver_name: antedate\njetstream {{ store_dir: {json.dumps(WORK + '/nats')} }}\n"
            f"mqtt {{ listen: 127.0.0.1:{port}, max_ack_pending: 1000 }}\n"
        )
    return [program, "-c", "nats.conf"]


def run(*words, timeout=60):
    done = subprocess.run([PROGRAM, *words], capture_output=True, timeout=timeout)
    if done.returncode != 0:
        raise SystemExit(f"antedate {' '.join(words)}: {done.returncode} {done.stderr.decode()}")
    return done.stdout


def listen(*words):
    """What a subscriber prints in a second. A slow machine has more for the broker's answer."""
    for seconds in ("1", "5", "20"):
        done = subprocess.run([PROGRAM, *words, "-W", seconds], capture_output=True, timeout=60)
        if done.returncode == 0:
            return done.stdout
    raise SystemExit(f"antedate {' '.join(words)}: {done.stderr.decode()}")


class Paho:
    """A subscriber that opens with the independent reader, or a publisher."""

    def __init__(self, port, version, group, filters=()):
        protocol = paho.MQTTv5 if version == "5" else paho.MQTTv311
        self.client = paho.Client(paho.CallbackAPIVersion.VERSION2, f"paho-{time.time_ns()}", protocol=protocol)
        # HiveMQ takes ten at once, which paho does not heed: it is disconnected, and repeats the first ten for ever.
        self.client.max_inflight_messages_set(10)
        self.client.max_queued_messages_set(0)
        self.got, ready = [], threading.Event()
        self.client.on_message = lambda _c, _u, m: self.got.append((m.topic, group.open(m.topic, m.payload)[0]))
        self.client.on_connect = lambda c, *_: c.subscribe(list(filters)) if filters else ready.set()
        self.client.on_subscribe = lambda *_: ready.set()
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        assert ready.wait(10), "paho does not connect"

    def wait(self, what):
        end = time.time() + 10
        while what not in self.got and time.time() < end:
            time.sleep(0.01)
        assert what in self.got, (what, self.got[-5:])

    def stop(self):
        self.client.disconnect()
        self.client.loop_stop()


def over(name, port, version, most):
    """Each QoS both ways, a retained message, a session's queue, a will."""
    place = f"{name}-{version}"
    run("keygen", "mqtt", "--group", place, "--topic", f"{place}/#", "--out", f"{place}.toml")
    secret = re.search(r'secret = "([0-9a-f]{64})"', open(f"{place}.toml").read()).group(1)
    reader = Group(place, "aes-ccm-16-64-128", {1: bytes.fromhex(secret)})
    for state in ("ours", "sub", "will", "theirs"):
        antedate.create_state(f"{place}.{state}")
    common = ["-p", str(port), "-V", version, "--keys", f"{place}.toml"]
    pub = ["mqtt", "pub", *common, "--state", f"{place}.ours", "--publisher", "ours"]
    theirs = antedate.Guard([f"{place}.toml"], state=f"{place}.theirs", publisher="theirs")
    writer = Paho(port, version, reader)
    for qos in range(most + 1):
        topic = f"{place}/q{qos}"
        # Ours to theirs.
        other = Paho(port, version, reader, [(f"{place}/+", qos)])
        run(*pub, "-t", topic, "-q", str(qos), "-m", f"ours {qos}")
        other.wait((topic, b"ours %d" % qos))
        other.stop()
        # Theirs to ours: a session takes what comes while it is away.
        session = ["mqtt", "sub", *common, "--state", f"{place}.sub", "-i", f"{place}-{qos}", "-c", "-q", str(qos), "-t", f"{place}/in{qos}"]
        if qos > 0:
            listen(*session)
            for number in range(QUEUED):
                topic = f"{place}/in{qos}"
                # As many on their way as paho has.
                sent = writer.client.publish(topic, theirs.seal(topic, b"%d" % number), qos)
                if number % 10_000 == 9_999:
                    # Packet identifiers are of 16 bits.
                    sent.wait_for_publish(LONG)
            sent.wait_for_publish(LONG)
            assert sent.is_published(), f"{name}: paho's queue is not empty"
            lines = run(*session, "-C", str(QUEUED), "-W", str(LONG), timeout=LONG + 20).split()
            assert sorted(int(line) for line in lines) == list(range(QUEUED)), f"{name}, QoS {qos}: {len(lines)} of {QUEUED}"
            # Nothing waits any more.
            assert listen(*session) == b""
    topic = f"{place}/kept"
    run(*pub, "-t", topic, "-q", "1", "-r", "-m", "kept")
    assert run("mqtt", "sub", *common, "-t", topic, "-C", "1", "-W", "10") == b"kept\n"
    # The broker publishes the will of a killed client.
    heir = Paho(port, version, reader, [(f"{place}/gone", 1)])
    mortal = subprocess.Popen(
        [PROGRAM, "mqtt", "sub", *common, "--state", f"{place}.will", "--publisher", "mortal", "-t", f"{place}/x", "--will-topic",
         f"{place}/gone", "--will-payload", "gone", "--will-qos", "1"]
    )
    time.sleep(1)
    mortal.kill()
    mortal.wait()
    heir.wait((f"{place}/gone", b"gone"))
    for one in (heir, writer):
        one.stop()
    theirs.close()


def broker(word):
    """One broker, over all versions that it has."""
    name, program = word.split("=", 1)
    started, port = time.time(), free_port()
    versions, most = ABLE[name]
    with open(f"{name}.log", "wb") as log:
        process = subprocess.Popen(command(name, program, port), stdout=log, stderr=log)
    try:
        assert until_open(port, 40), f"{name} does not start: {open(f'{name}.log').read()[-2000:]}"
        for version in versions:
            over(name, port, version, most)
    finally:
        process.kill()
        process.wait()
    return f"   {name}: QoS 0 to {most}, {QUEUED:,} queued, retained, will, over {' and '.join(versions)} ({time.time() - started:.0f} s)"


def main():
    # Much of the time is waiting. Two at once leave the clients their patience.
    with ThreadPoolExecutor(2) as two:
        for told in two.map(broker, sys.argv[4:]):
            print(told, flush=True)
    print(json.dumps({"passed": True}))


main()
