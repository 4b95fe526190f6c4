"""Our client and Python package over brokers other than Mosquitto, with paho-mqtt at the other end.

A queue waits for two sessions: ours, and one of mosquitto_sub. Both must get each message once. (mosquitto_sub
cannot with mochi.)

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
# Seconds for a queue to pass, on a slow machine.
LONG = max(60, QUEUED // 100)
# mochi gives a message its packet identifier when it comes into the queue, and MQTT has 65,535 of them (MQTT 5.0,
# section 2.2.1). It refuses what comes then ("packet ids exhausted" in its log).
# With 65,000 it mixed more than a window's messages at the end, and denied our next SUBSCRIBE.
MOST = {"mochi": 5_000}
# It also takes a client's packet identifiers for its own (MQTT 5.0, section 2.2.1: they are apart), and denies a
# SUBSCRIBE with one that a queued message has. mosquitto_sub always subscribes again, and ends then.
DENIES = ["mochi"]
# It gives out a queue by the second of a message's arrival, and mixes those of one second. A receive window has 1,024
# numbers, so no more than that may come in a second.
PACE = {"mochi": 900}
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


def mosquitto_sub(port, version, session, topic, qos, *words):
    """Mosquitto's own subscriber, with a session of the broker."""
    protocol = "mqttv5" if version == "5" else "mqttv311"
    words = ["-p", str(port), "-V", protocol, "-i", session, "-c", "-q", str(qos), "-t", topic, *words]
    return subprocess.run(["/usr/bin/mosquitto_sub", *words], capture_output=True, check=True, timeout=LONG + 60).stdout


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
        assert ready.wait(40), "paho does not connect"

    def wait(self, what):
        end = time.time() + 40
        while what not in self.got and time.time() < end:
            time.sleep(0.01)
        assert what in self.got, (what, self.got[-5:])

    def stop(self):
        self.client.disconnect()
        self.client.loop_stop()


def over(name, port, version, most):
    """Each QoS both ways, a retained message, a session's queue, a will. Returns what the queues were."""
    queued, told = min(QUEUED, MOST.get(name, QUEUED)), []
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
            topic = f"{place}/in{qos}"
            listen(*session)
            other = (port, version, f"{place}-{qos}-mosquitto", topic, qos)
            if name not in DENIES:
                mosquitto_sub(*other, "-E")
            envelopes, started = theirs.seal_many([(topic, b"%d" % number) for number in range(queued)]), time.time()
            for number, envelope in enumerate(envelopes):
                if number and number % PACE.get(name, queued) == 0:
                    # All of them have come, and the next ones come in another second.
                    sent.wait_for_publish(LONG)
                    time.sleep(1.001 - time.time() % 1)
                # As many on their way as paho has.
                sent = writer.client.publish(topic, envelope, qos)
                if number % 10_000 == 9_999:
                    # Packet identifiers are of 16 bits.
                    sent.wait_for_publish(LONG)
            sent.wait_for_publish(LONG)
            assert sent.is_published(), f"{name}: paho's queue is not empty"
            times = [time.time() - started]
            started = time.time()
            lines = run(*session, "-C", str(queued), "-W", str(LONG), timeout=LONG + 60).split()
            times.append(time.time() - started)
            assert sorted(int(line) for line in lines) == list(range(queued)), f"{name}, QoS {qos}: {len(lines)} of {queued}"
            if name not in DENIES:
                started = time.time()
                lines = mosquitto_sub(*other, "-C", str(queued), "-W", str(LONG), "-F", "%x").split()
                times.append(time.time() - started)
                assert sorted(lines) == sorted(one.hex().encode() for one in envelopes), f"{name}, QoS {qos}: {len(lines)} at mosquitto_sub"
            told.append((qos, version, [queued / one for one in times]))
            # Nothing waits any more.
            assert listen(*session) == b""
    topic = f"{place}/kept"
    run(*pub, "-t", topic, "-q", "1", "-r", "-m", "kept")
    assert run("mqtt", "sub", *common, "-t", topic, "-C", "1", "-W", "60") == b"kept\n"
    # The broker publishes the will of a killed client.
    heir = Paho(port, version, reader, [(f"{place}/gone", 1)])
    run(*pub, "-t", f"{place}/x", "-q", "1", "-r", "-m", "there")
    mortal = subprocess.Popen(
        [PROGRAM, "mqtt", "sub", *common, "--state", f"{place}.will", "--publisher", "mortal", "-t", f"{place}/x", "--will-topic",
         f"{place}/gone", "--will-payload", "gone", "--will-qos", "1"], stdout=subprocess.PIPE
    )
    # It is connected when a retained message comes.
    assert mortal.stdout.readline() == b"there\n"
    mortal.kill()
    mortal.wait()
    heir.wait((f"{place}/gone", b"gone"))
    for one in (heir, writer):
        one.stop()
    theirs.close()
    return told


def broker(word):
    """One broker, over all versions that it has."""
    name, program = word.split("=", 1)
    started, port = time.time(), free_port()
    (versions, most), told = ABLE[name], []
    with open(f"{name}.log", "wb") as log:
        process = subprocess.Popen(command(name, program, port), stdout=log, stderr=log)
    try:
        assert until_open(port, 90), f"{name} does not start: {open(f'{name}.log').read()[-2000:]}"
        for version in versions:
            told += over(name, port, version, most)
    finally:
        process.kill()
        process.wait()
    queued = min(QUEUED, MOST.get(name, QUEUED))
    why = f" (no more than {queued:,}: it gives each its packet identifier at once)" if queued < QUEUED else ""
    lines = [f"   {name}: QoS 0 to {most}, {queued:,} queued{why}, retained, will, over {' and '.join(versions)} ({time.time() - started:.0f} s)"]
    if QUEUED >= 10_000:
        lines += [
            f"      QoS {qos} over {version}, a second: {', '.join(f'{what} {rate:,.0f}' for what, rate in zip(('queued', 'read', 'by mosquitto_sub'), rates))}"
            for qos, version, rates in told
        ]
    return "\n".join(lines)


def main():
    # Much of the time is waiting. Two at once leave the clients their patience.
    with ThreadPoolExecutor(2) as two:
        for told in two.map(broker, sys.argv[4:]):
            print(told, flush=True)
    print(json.dumps({"passed": True}))


main()
