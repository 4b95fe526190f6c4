"""Debian's Mosquitto between our client and paho-mqtt, with an independent reader of the envelopes.

Arguments: antedate program, empty directory, number of kills of the publisher, broker plugin; then,
optionally, names of parts to run. The last line of output is the verdict.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from broker import Broker  # noqa: E402
from envelope import ALGORITHMS, Group, open_rotation, signed, signing_key, split_kid, verified  # noqa: E402

import cbor2  # noqa: E402

ANTEDATE, WORK, KILLS = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), int(sys.argv[3])
PLUGIN = os.path.abspath(sys.argv[4])
os.chdir(WORK)
TOPIC = "plant/press7/force"


def antedate(*words, **more):
    done = subprocess.run([ANTEDATE, *words], capture_output=True, timeout=90, **more)
    return done


def good(*words, **more):
    done = antedate(*words, **more)
    if done.returncode != 0:
        raise SystemExit(f"antedate {' '.join(words)}: {done.returncode} {done.stderr.decode()}")
    return done.stdout.decode()


def secrets(file):
    text = open(file).read()
    return {int(e): bytes.fromhex(s) for e, s in re.findall(r'epoch = (\d+)\nsecret = "([0-9a-f]{64})"', text)}


class Paho:
    """A paho client that collects messages."""

    def __init__(self, broker, version, name, clean=True, filters=(), qos=2, will=None, user=None):
        self.messages, self.ready = [], threading.Event()
        five = version == 5
        self.client = paho.Client(
            CallbackAPIVersion.VERSION2, name, protocol=paho.MQTTv5 if five else paho.MQTTv311, **({} if five else {"clean_session": clean})
        )
        self.client.on_message = lambda _c, _u, m: self.messages.append((m.topic, m.payload, m.retain))
        self.client.on_connect = lambda c, *_: c.subscribe([(f, qos) for f in filters]) if filters else self.ready.set()
        self.client.on_subscribe = lambda *_: self.ready.set()
        if will:
            self.client.will_set(*will)
        if user:
            self.client.username_pw_set(user)
        more = {}
        if five:
            more["clean_start"] = clean
            if not clean:
                more["properties"] = paho.Properties(paho.PacketTypes.CONNECT)
                more["properties"].SessionExpiryInterval = 3600
        self.client.reconnect_delay_set(1, 1)
        self.client.connect("127.0.0.1", broker.port, **more)
        self.client.loop_start()
        assert self.ready.wait(30), "paho does not connect"

    def wait(self, count, seconds=40):
        end = time.time() + seconds
        while len(self.messages) < count and time.time() < end:
            time.sleep(0.02)
        return self.messages

    def stop(self):
        self.client.disconnect()
        self.client.loop_stop()

    def die(self):
        """Closes the socket without DISCONNECT, so that the broker publishes the will."""
        self.client.loop_stop()
        self.client.socket().close()


def group(name, algorithm):
    """Makes a group file with static keys and a publisher's state; returns an independent reader."""
    good("keygen", "mqtt", "--group", name, "--topic", "plant/#", "--algorithm", algorithm, "--out", f"{name}.toml")
    good("mqtt", "init", f"{name}.state")
    return Group(name, algorithm, secrets(f"{name}.toml"))


def pub(broker, name, *words, publisher="press7", **more):
    return antedate(
        "mqtt", "pub", "-p", str(broker.port), "--keys", f"{name}.toml", "--state", f"{name}.state",
        "--publisher", publisher, "-t", TOPIC, *words, **more,
    )


def start_sub(broker, name, *words):
    command = [ANTEDATE, "mqtt", "sub", "-p", str(broker.port), "--keys", f"{name}.toml", *words]
    sub = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return sub


def until_subscribed(broker, name, words, probe):
    """Starts our subscriber and waits for a probe message."""
    sub = start_sub(broker, name, *words)
    lines = []
    reader = threading.Thread(target=lambda: [lines.append(line.rstrip(b"\n")) for line in sub.stdout], daemon=True)
    errors = []
    other = threading.Thread(target=lambda: [errors.append(line.decode()) for line in sub.stderr], daemon=True)
    reader.start()
    other.start()
    for _ in range(100):
        probe()
        time.sleep(0.1)
        if any(line.startswith(b"probe") for line in lines):
            break
    else:
        raise SystemExit(f"our subscriber hears nothing: {errors}")
    return sub, lines, errors


def both_ways():
    """Every AEAD, both versions, both directions; then each forgery with its reason."""
    broker = Broker("both")
    shown = []
    for algorithm in ALGORITHMS:
        g = group(f"g-{algorithm}", algorithm)
        for version in (4, 5):
            reader = Paho(broker, version, f"reader-{version}", filters=["plant/#"])
            protocol = "5" if version == 5 else "311"
            for qos, payload in enumerate([b"21.5", b'{"kN":81.5}', os.urandom(600).hex().encode()]):
                done = pub(broker, g.name, "-V", protocol, "-q", str(qos), "-m", payload.decode())
                assert done.returncode == 0, done.stderr
                topic, message, _ = reader.wait(qos + 1)[qos]
                opened = g.open(topic, message)
                assert opened[0] == payload and opened[1] == b"press7", opened
                try:
                    g.open("plant/press8/force", message)
                except Exception:  # depends on the library
                    pass
                else:
                    raise SystemExit("a moved topic was believed")
            # A template with late values has the same form.
            done = pub(broker, g.name, "-V", protocol, "--template", '{"kN":@@@@@@,"ok":@}', input=b"81.5 1\n")
            assert done.returncode == 0, done.stderr
            topic, message, _ = reader.wait(4)[3]
            assert g.open(topic, message)[0] == b'{"kN":  81.5,"ok":1}', g.open(topic, message)
            reader.stop()
            # The other direction.
            writer = Paho(broker, version, f"writer-{version}")
            count = [0]

            def send(payload, topic=TOPIC, publisher=b"scada", sequence=None, epoch=1):
                count[0] += sequence is None
                message = g.seal(topic, payload, publisher, epoch, sequence or 10_000 * version + count[0])
                writer.client.publish(TOPIC, message, 1).wait_for_publish(20)
                return message

            sub, lines, errors = until_subscribed(
                broker, g.name, ["-V", protocol, "-q", "1", "-t", "plant/#"], lambda: send(b"probe")
            )
            again = send(b"genuine")
            changed = g.seal(TOPIC, b"x", b"scada", 1, 10_000 * version + 5_000)
            changed = changed[:-1] + bytes([changed[-1] ^ 1])
            wrong = [
                ("received before", lambda: writer.client.publish(TOPIC, again, 1)),
                ("sealed for the topic", lambda: writer.client.publish("plant/elsewhere", again, 1)),
                ("not a protected payload", lambda: writer.client.publish(TOPIC, b"21.5", 1)),
                ("not authentic", lambda: writer.client.publish(TOPIC, changed, 1)),
            ]
            stranger = Group(g.name, algorithm, {1: bytes(32), 7: bytes(32)})
            later, eve = stranger.seal(TOPIC, b"x", b"scada", 7, 1), stranger.seal(TOPIC, b"x", b"eve", 1, 1)
            # Sealed by another known publisher under this one's name.
            send(b"hello", publisher=b"other", sequence=version)
            protected, _, ciphertext = cbor2.loads(g.seal(TOPIC, b"x", b"other", 1, 90_000 + version))
            forged = cbor2.dumps([protected, {4: b"\x01scada", 6: (90_000 + version).to_bytes(3, "big")}, ciphertext])
            wrong += [
                ("epoch 7 is not known", lambda: writer.client.publish(TOPIC, later, 1)),
                ("not authentic", lambda: writer.client.publish(TOPIC, eve, 1)),
                ('but "other" sealed it', lambda: writer.client.publish(TOPIC, forged, 1)),
            ]
            for reason, act in wrong:
                before = sum(reason in line for line in errors)
                act()
                end = time.time() + 20
                while sum(reason in line for line in errors) <= before and time.time() < end:
                    time.sleep(0.01)
                assert sum(reason in line for line in errors) > before, f"{reason}: {errors}"
            send(b"still here")
            end = time.time() + 20
            while b"still here" not in lines and time.time() < end:
                time.sleep(0.01)
            assert lines.count(b"genuine") == 1 and lines.count(b"still here") == 1, lines
            assert all("remedy:" in line for line in errors if "refused:" in line), errors
            sub.terminate()
            assert sub.wait(10) == 0, "our subscriber did not end with 0"
            writer.stop()
        shown.append(algorithm)
    broker.kill()
    return f"{', '.join(shown)}: both ways over 3.1.1 and 5, 7 forgeries refused with their reasons"


def retained_and_wills():
    broker = Broker("retained")
    g = group("retained", "aes-ccm-16-64-128")
    good("mqtt", "init", "will.state")
    assert pub(broker, "retained", "-r", "-q", "1", "-m", "kept").returncode == 0
    for version in ("311", "5"):
        out = good("mqtt", "sub", "-p", str(broker.port), "-V", version, "--keys", "retained.toml", "-t", "plant/#", "-C", "1", "-W", "60")
        assert out == "kept\n", out
        # The will is sealed at the connection and published after the kill.
        reader = Paho(broker, 5 if version == "5" else 4, "will-reader", filters=["plant/gone"])
        sub = start_sub(
            broker, "retained", "-V", version, "--state", "will.state", "--publisher", "mortal", "-t", "plant/x",
            "--will-topic", "plant/gone", "--will-payload", "killed", "--will-qos", "1",
        )
        alone = 3 if version == "5" else 0
        broker.subscribed("plant/x", alone + 1)
        sub.kill()
        sub.wait()
        topic, message, _ = reader.wait(1)[0]
        assert g.open(topic, message)[0] == b"killed"
        # Another client takes its identifier twice. Each connection seals a new will.
        sub = start_sub(
            broker, "retained", "-V", version, "-i", f"mortal-{version}", "--state", "will.state", "--publisher", "mortal", "-t", "plant/x",
            "--will-topic", "plant/gone", "--will-payload", "taken", "--will-qos", "1",
        )
        for count in (2, 3):
            broker.subscribed("plant/x", alone + count)
            Paho(broker, 4, f"mortal-{version}").stop()
            topic, message, _ = reader.wait(count)[count - 1]
            assert g.open(topic, message)[0] == b"taken"
        assert len({message for _, message, _ in reader.messages}) == 3
        sub.terminate()
        sub.wait()
        reader.stop()
        # Larger than the library's default limit.
        big = "x" * 20_000
        assert pub(broker, "retained", "-V", version, "-q", "1", "-m", big).returncode == 0
        assert pub(broker, "retained", "-V", version, "-q", "1", "-r", "-m", big).returncode == 0
        out = good("mqtt", "sub", "-p", str(broker.port), "-V", version, "--keys", "retained.toml", "-t", TOPIC, "-C", "1", "-W", "60")
        assert out == big + "\n", len(out)
        # Longer than CCM counts: AES-GCM, with the derivation of a group of that algorithm.
        long, other = "x" * 70_000, Group("retained", "aes-128-gcm", secrets("retained.toml"))
        reader = Paho(broker, 4, "long", filters=["plant/long"])
        assert antedate("mqtt", "pub", "-p", str(broker.port), "-V", version, "--keys", "retained.toml", "--state", "retained.state",
                        "--publisher", "press7", "-t", "plant/long", "-q", "1", "-f", "-", input=long.encode()).returncode == 0
        opened = other.open(*reader.wait(1)[0][:2])
        assert opened[0] == long.encode(), opened[1:]
        sealed = other.seal("plant/long", long.encode(), b"scada", 1, 5 if version == "5" else 4)
        sub, lines, errors = until_subscribed(
            broker, "retained", ["-V", version, "-t", "plant/#"], lambda: pub(broker, "retained", "-m", "probe")
        )
        reader.client.publish("plant/long", sealed, 1).wait_for_publish(20)
        end = time.time() + 20
        while long.encode() not in lines and time.time() < end:
            time.sleep(0.02)
        assert long.encode() in lines, errors
        sub.kill()
        sub.wait()
        reader.stop()
        assert pub(broker, "retained", "-r", "-q", "1", "-m", "kept").returncode == 0
    # Two files with one key would repeat numbers.
    open("twin.toml", "w").write(open("retained.toml").read().replace("plant/#", "other/#"))
    os.chmod("twin.toml", 0o600)
    twins = pub(broker, "retained", "--keys", "twin.toml", "-m", "x")
    assert twins.returncode == 2 and b"in one file" in twins.stderr, twins
    # As with mosquitto_pub, an empty line publishes nothing.
    reader = Paho(broker, 4, "lines", filters=[TOPIC])
    before = len(reader.wait(1, 40))
    assert pub(broker, "retained", "-l", "-q", "1", input=b"one\n\ntwo\n").returncode == 0
    reader.wait(before + 2)
    time.sleep(0.3)
    assert len(reader.messages) == before + 2, reader.messages
    reader.stop()
    broker.kill()
    return "retained messages and wills over 3.1.1 and 5"


def exactly_once():
    """Kills our subscriber repeatedly while paho publishes with QoS 2: each payload is printed once."""
    broker = Broker("once")
    total = 0
    for version in ("311", "5"):
        name = f"once-{version}"
        g = group(name, "aes-128-gcm")
        words = [
            "-V", version, "-q", "2", "-i", f"sub-{version}", "-c", "-k", "5", "--state", f"{name}.state", "-t", "plant/#",
        ]
        writer = Paho(broker, 5 if version == "5" else 4, f"writer-{version}")
        sent = [0]

        def send(text):
            sent[0] += 1
            writer.client.publish(TOPIC, g.seal(TOPIC, text.encode(), b"scada", 1, sent[0]), 2)

        out = open(f"{name}.out", "ab")

        def start():
            command = [ANTEDATE, "mqtt", "sub", "-p", str(broker.port), "--keys", f"{name}.toml", *words]
            return subprocess.Popen(command, stdout=out, stderr=open(f"{name}.err", "ab"))

        sub = start()
        # Wait for the subscription.
        for i in range(200):
            send(f"w{i}")
            time.sleep(0.1)
            if os.path.getsize(f"{name}.out"):
                break
        published = 0
        for _ in range(8):
            for _ in range(40):
                send(f"m{published}")
                published += 1
                time.sleep(0.004)
            sub.kill()
            sub.wait()
            sub = start()
        end = time.time() + 30
        expected = [f"m{i}" for i in range(published)]
        while time.time() < end:
            got = [one for one in open(f"{name}.out").read().split() if one[0] == "m"]
            if len(got) >= published:
                break
            time.sleep(0.1)
        time.sleep(1)
        got = [one for one in open(f"{name}.out").read().split() if one[0] == "m"]
        twice = {one for one in got if got.count(one) > 1}
        lost = set(expected) - set(got)
        assert not twice and not lost, f"{version}: twice {sorted(twice)[:9]}, lost {sorted(lost)[:9]} of {published}, {open(f'{name}.err').read()[-600:]}"
        total += published
        sub.terminate()
        sub.wait(10)
        writer.stop()
    broker.kill()
    return f"QoS 2 to a subscriber killed 16 times: {total} payloads, none twice, none lost"


PAHO_SUBSCRIBER = """
import sys, paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
five = sys.argv[2] == "5"
c = paho.Client(CallbackAPIVersion.VERSION2, "killed-" + sys.argv[2], protocol=paho.MQTTv5 if five else paho.MQTTv311, **({} if five else {"clean_session": False}))
def message(c, u, m):
    sys.stdout.buffer.write(m.payload.hex().encode() + b"\\n")
    sys.stdout.flush()
c.on_message = message
c.on_connect = lambda c, *_: c.subscribe("plant/#", 2)
more = {}
if five:
    more = {"clean_start": False, "properties": paho.Properties(paho.PacketTypes.CONNECT)}
    more["properties"].SessionExpiryInterval = 3600
c.connect("127.0.0.1", int(sys.argv[1]), **more)
c.loop_forever()
"""


def theirs_killed():
    """Kills a paho subscriber repeatedly while we publish with QoS 2: no payload is delivered twice.

    paho keeps no messages over a restart, so those it held undelivered are lost; all others arrive.
    """
    broker = Broker("theirs")
    shown = []
    for version in ("311", "5"):
        name = f"theirs-{version}"
        g = group(name, "aes-ccm-16-64-128")
        out = open(f"{name}.out", "ab")

        def start():
            return subprocess.Popen([sys.executable, "-c", PAHO_SUBSCRIBER, str(broker.port), version], stdout=out)

        before = broker.subscriptions("plant/#")
        sub = start()
        broker.subscribed("plant/#", before + 1)
        writer = subprocess.Popen(
            [ANTEDATE, "mqtt", "pub", "-p", str(broker.port), "-V", version, "--keys", f"{name}.toml", "--state", f"{name}.state",
             "--publisher", "press7", "-i", f"writer-{version}", "-q", "2", "-t", TOPIC, "-l"],
            stdin=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        published, kills = 0, 5
        for _ in range(kills):
            for _ in range(40):
                writer.stdin.write(f"m{published}\n".encode())
                writer.stdin.flush()
                published += 1
                time.sleep(0.004)
            sub.kill()
            sub.wait()
            sub = start()
            time.sleep(0.4)
        writer.stdin.close()
        assert writer.wait(60) == 0, writer.stderr.read()
        end, lines, got = time.time() + 4, [], []
        while time.time() < end and len(got) < published:
            time.sleep(0.2)
            before, lines = len(lines), open(f"{name}.out").read().split()
            # Some are lost, so it ends when nothing comes any more.
            if len(lines) > before:
                end = time.time() + 4
            got = [g.open(TOPIC, bytes.fromhex(line)) for line in lines if len(line) % 2 == 0 and line]
        sequences = [one[3] for one in got]
        texts = [one[0] for one in got]
        assert len(set(sequences)) == len(sequences) and len(set(texts)) == len(texts), "something came out twice"
        lost = published - len(set(texts))
        # A killed paho holds some of the at most 100 messages in flight, on a busy machine more of them.
        assert lost <= 10 * kills, f"{version}: {lost} of {published} lost over {kills} kills"
        shown.append(f"{published - lost} of {published} over {version}")
        sub.kill()
        sub.wait()
    broker.kill()
    return f"QoS 2 from us to a paho that is killed 5 times: {', '.join(shown)}, none twice"


def ours_killed():
    """Kills our publisher with QoS 2 repeatedly: no retransmission is accepted twice."""
    broker = Broker("ours")
    shown = []
    for version in ("311", "5"):
        name = f"ours-{version}"
        g = group(name, "chacha20-poly1305")
        reader = Paho(broker, 5 if version == "5" else 4, f"reader-{version}", filters=["plant/#"])
        for i in range(10):
            writer = subprocess.Popen(
                [ANTEDATE, "mqtt", "pub", "-p", str(broker.port), "-V", version, "--keys", f"{name}.toml", "--state", f"{name}.state",
                 "--publisher", "press7", "-i", f"mortal-{version}", "-q", "2", "-t", TOPIC, "-l"],
                stdin=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )
            writer.stdin.write(b"".join(b"%d.%d\n" % (i, j) for j in range(500)))
            writer.stdin.flush()
            before, end = len(reader.messages), time.time() + 20
            while len(reader.messages) < before + 5 * i and time.time() < end:
                time.sleep(0.001)
            writer.kill()
            writer.wait()
        time.sleep(1)
        opened = [g.open(topic, message) for topic, message, _ in reader.messages]
        numbers = [one[3] for one in opened]
        assert len(set(numbers)) == len(numbers), "a message was delivered twice"
        assert len({one[0] for one in opened}) == len(opened), "a payload came under two numbers"
        assert len(opened) >= 100, f"only {len(opened)} messages of 10 runs"
        shown.append(f"{len(opened)} over {version}")
        reader.stop()
    broker.kill()
    return f"QoS 2 from a publisher of ours that is killed 20 times: {', '.join(shown)}, none twice"


def broker_killed():
    """Kills and restarts the broker while we publish: all payloads arrive, none is accepted twice."""
    broker = Broker("killed")
    g = group("killed", "chacha20-poly1305")
    reader = Paho(broker, 4, "reader", clean=False, filters=["plant/#"], qos=1)
    broker.save()
    writer = subprocess.Popen(
        [ANTEDATE, "mqtt", "pub", "-p", str(broker.port), "--keys", "killed.toml", "--state", "killed.state", "--publisher", "press7",
         "-i", "press7", "-q", "1", "-t", TOPIC, "-l"], stdin=subprocess.PIPE, stderr=subprocess.PIPE,
    )
    for i in range(300):
        writer.stdin.write(f"m{i}\n".encode())
        writer.stdin.flush()
        time.sleep(0.01)
        if i in (100, 200):
            broker.kill()
            time.sleep(0.3)
            broker.start()
    writer.stdin.close()
    assert writer.wait(60) == 0, writer.stderr.read()
    end = time.time() + 20
    seen = {}
    while time.time() < end:
        for topic, message, _ in list(reader.messages):
            payload, _, _, sequence = g.open(topic, message)
            seen.setdefault(sequence, payload)
            assert seen[sequence] == payload, "one number for two payloads"
        if len(seen) >= 300:
            break
        time.sleep(0.1)
    payloads = sorted(int(p[1:]) for p in seen.values())
    assert payloads == list(range(300)), f"lost: {sorted(set(range(300)) - set(payloads))[:9]}"
    reader.stop()
    broker.kill()
    return "broker killed twice during 300 publishes: none lost, one number for each"


def nonces():
    """Kills our publisher at random times; collects every envelope that reached the broker."""
    broker = Broker("nonces", "max_inflight_messages 0\n")
    g = group("nonces", "aes-ccm-16-64-128")
    reader = Paho(broker, 4, "collector", filters=["plant/#"], qos=0)
    wait = 0.03
    for i in range(KILLS):
        process = subprocess.Popen(
            [ANTEDATE, "mqtt", "pub", "-p", str(broker.port), "--keys", "nonces.toml", "--state", "nonces.state", "--publisher", "press7",
             "-t", TOPIC, "-l"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )
        process.stdin.write(b"".join(b"%d.%d\n" % (i, j) for j in range(3000)))
        process.stdin.flush()
        before = len(reader.messages)
        end = time.time() + 30
        while len(reader.messages) == before and time.time() < end:
            time.sleep(0.001)
        time.sleep(wait * (i % 10) / 10)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    time.sleep(1)
    used = {}
    for topic, message, _ in reader.messages:
        _, unprotected, _ = cbor2.loads(message)
        nonce = (split_kid(unprotected[4]), unprotected[6])
        assert nonce not in used, f"the nonce of {nonce} was used twice"
        used[nonce] = message
    assert len(used) >= KILLS, f"only {len(used)} messages of {KILLS} runs"
    for message in list(used.values())[:: max(1, len(used) // 500)]:
        g.open(TOPIC, message)
    reader.stop()
    broker.kill()
    return f"publisher killed {KILLS} times: {len(used)} envelopes, no nonce twice"


def rotation():
    """A manager rotates for three members and revokes one; an offline member catches up."""
    broker = Broker("rotation")
    public = {}
    for name in ("press7", "press8", "scada"):
        said = good("keygen", "mqtt", "--device", name, "--out", f"{name}.device")
        public[name] = said.split()[-1]
    members = [word for name in public for word in ("--member", f"{name}={public[name]}")]
    good("keygen", "mqtt", "--group", "line4", "--topic", "plant/#", *members, "--out", "manager.toml")
    good("keygen", "mqtt", "--for-members", "manager.toml", "--out", "line4.toml")
    good("mqtt", "init", "p7.state")
    good("mqtt", "init", "p8.state")
    good("mqtt", "rotate", "-p", str(broker.port), "--group", "manager.toml")
    retained = Paho(broker, 5, "keys", filters=["antedate/keys/line4"])
    manager_key = bytes.fromhex(re.search(r'manager = "([0-9a-f]{64})"', open("line4.toml").read()).group(1))

    def read(message, name):
        own = bytes.fromhex(re.search(r'secret = "([0-9a-f]{64})"', open(f"{name}.device").read()).group(1))
        return open_rotation(message, "line4", manager_key, name.encode(), own)

    topic, message, is_retained = retained.wait(1)[0]
    for name in public:
        epoch, number, secret, grace = read(message, name)
        assert (epoch, number, grace) == (2, 10, 60) and secret == secrets("manager.toml")[2], (epoch, number, grace)
    try:
        read(message[:-1] + bytes([message[-1] ^ 1]), "press7")
    except Exception:  # depends on the libraries
        pass
    else:
        raise SystemExit("a rotation message with a changed signature was believed")

    def say(name, state):
        return antedate("mqtt", "pub", "-p", str(broker.port), "--keys", "line4.toml", "--device", f"{name}.device", "--state", state,
                        "-q", "1", "-t", TOPIC, "-m", name)

    collector = Paho(broker, 4, "collector", filters=["plant/#"])
    assert say("press7", "p7.state").returncode == 0
    manager = Group("line4", "aes-ccm-16-64-128", secrets("manager.toml"))
    assert manager.open(*collector.wait(1)[0][:2])[:3] == (b"press7", b"press7", 2)
    good("mqtt", "revoke", "-p", str(broker.port), "--group", "manager.toml", "--member", "press7")
    message = retained.wait(2)[1][1]
    assert read(message, "press8")[0] == 3 and read(message, "press8")[3] == 0
    try:
        read(message, "press7")
    except LookupError:
        pass
    else:
        raise SystemExit("the revoked member still is a recipient")
    retained.stop()
    refused = say("press7", "p7.state")
    assert refused.returncode != 0 and b"no member any more" in refused.stderr, refused
    assert say("press8", "p8.state").returncode == 0
    manager = Group("line4", "aes-ccm-16-64-128", secrets("manager.toml"))
    assert manager.open(*collector.wait(2)[1][:2])[:3] == (b"press8", b"press8", 3)
    collector.stop()
    # An absent member reads queued messages, although the key arrives after them.
    scada = ("mqtt", "sub", "-p", str(broker.port), "--keys", "line4.toml", "--device", "scada.device", "-t", "plant/#", "-c", "-i", "scada", "-q", "1")
    assert antedate(*scada, "-W", "1").returncode == 0
    # More than the broker sends without an acknowledgment.
    lines = "".join(f"m{i}\n" for i in range(300))
    good("mqtt", "pub", "-p", str(broker.port), "--keys", "line4.toml", "--device", "press8.device", "--state", "p8.state", "-q", "1",
         "-t", TOPIC, "-l", input=lines.encode())
    assert good(*scada, "-C", "300", "-W", "20") == lines
    # A will needs the key before its connection.
    assert antedate("mqtt", "pub", "-p", str(broker.port), "--keys", "line4.toml", "--device", "press8.device", "--state", "p8.state", "-q", "1",
                    "-t", TOPIC, "-m", "x", "--will-topic", "plant/gone", "--will-payload", "gone").returncode == 0
    broker.kill()
    return "rotation as a retained message, read by pycose and cryptography for three members; one revoked, one caught up"


def signed_topics():
    """Signed payloads, both ways with pycose, and a member that speaks for another."""
    devices = {}
    for name in ("signer", "liar"):
        said = good("keygen", "mqtt", "--device", name, "--out", f"{name}.device")
        devices[name] = re.search(name + "=([0-9a-f]{64}:[0-9a-f]{64})", said).group(1)
    members = [word for name, keys in devices.items() for word in ("--member", f"{name}=:{keys.split(':')[1]}")]
    good("keygen", "mqtt", "--group", "valves", "--topic", "valves/#", "--signed", "valves/main", *members, "--out", "valves.toml")
    secret = bytes.fromhex(re.search(r'secret = "([0-9a-f]{64})"', open("valves.toml").read()).group(1))
    own = lambda name: bytes.fromhex(re.search(r'secret = "([0-9a-f]{64})"', open(f"{name}.device").read()).group(1))
    (seed, public), liar = signing_key(own("signer")), signing_key(own("liar"))
    assert public.hex() == devices["signer"].split(":")[1]
    reader = Group("valves", "aes-ccm-16-64-128", {1: secret})
    topic = "valves/main"
    for state in ("signer.state", "signed.sub"):
        good("mqtt", "init", state)
    seal = ["mqtt", "seal", "--keys", "valves.toml", "-t", topic, "--publisher", "signer"]
    ours = subprocess.run([ANTEDATE, *seal, "--state", "signer.state", "--device", "signer.device"], input=b"open", capture_output=True, check=True).stdout
    plaintext, publisher, epoch, sequence = reader.open(topic, ours)
    assert verified(plaintext, public, "valves", topic, publisher, epoch, sequence) == b"open"

    def opened(message):
        done = subprocess.run([ANTEDATE, "mqtt", "open", "--keys", "valves.toml", "-t", topic, "--state", "signed.sub"], input=message, capture_output=True)
        return done.returncode, done.stdout, done.stderr.decode()

    assert opened(ours)[:2] == (0, b"open")
    theirs = signed(b"close", seed, public, "valves", topic, b"signer", 1, 70)
    assert opened(reader.seal(topic, theirs, b"signer", 1, 70))[:2] == (0, b"close")
    # Another number, a member with the group's key but not the signer's, and no signature at all.
    lie = signed(b"open", *liar, "valves", topic, b"signer", 1, 72)
    for number, plaintext in ((71, theirs), (72, lie), (73, b"open")):
        code, payload, why = opened(reader.seal(topic, plaintext, b"signer", 1, number))
        assert (code, payload) == (1, b"") and "not signed" in why, (number, code, payload, why)
    # What was refused used no number up.
    last = signed(b"close", seed, public, "valves", topic, b"signer", 1, 71)
    assert opened(reader.seal(topic, last, b"signer", 1, 71))[:2] == (0, b"close")
    return "signed topics: both ways with pycose, other numbers and other members refused"


def access():
    """Access list and password file, read by the real broker."""
    good("keygen", "mqtt", "--group", "acl", "--topic", "plant/acl/#", "--member", "writer", "--reader", "watcher", "--out", "acl.toml")
    printed = good("mqtt", "acl", "acl.toml", "--acl", "acl.list", "--passwords", "acl.passwd")
    passwords = dict(line.split() for line in printed.splitlines())
    good("mqtt", "init", "acl.state")
    broker = Broker("acl", f"password_file {WORK}/acl.passwd\nacl_file {WORK}/acl.list\n".replace("", ""))
    text = open("acl.conf").read().replace("allow_anonymous true", "allow_anonymous false")
    open("acl.conf", "w").write(text)
    broker.kill()
    broker.start()
    command = ["mqtt", "pub", "-p", str(broker.port), "--keys", "acl.toml", "--state", "acl.state", "-q", "1", "-t", "plant/acl/a", "-r", "-m", "on"]
    assert antedate(*command, "--publisher", "writer", "-u", "writer", "-P", "wrong").returncode == 1
    good(*command, "--publisher", "writer", "-u", "writer", "-P", passwords["writer"])
    read = good("mqtt", "sub", "-p", str(broker.port), "--keys", "acl.toml", "-u", "watcher", "-P", passwords["watcher"],
                "-t", "plant/acl/#", "-C", "1", "-W", "60")
    assert read == "on\n", read
    # MQTT 5 reports a denied publish; no publish stays pending.
    for qos in ("1", "2"):
        denied = antedate("mqtt", "pub", "-V", "5", "-p", str(broker.port), "--keys", "acl.toml", "--state", "acl.state", "--publisher", "watcher",
                          "-u", "watcher", "-P", passwords["watcher"], "-q", qos, "-t", "plant/acl/a", "-m", "x")
        # Mosquitto 2.0 now and then closes the connection before its answer is on the way.
        assert denied.returncode == 1, denied
        assert b"not authorized" in denied.stderr or b"ends again and again" in denied.stderr, denied
    broker.kill()
    return "access list and passwords, as Mosquitto reads them"


def plugin():
    """The broker opens payloads for subscribers without keys and drops invalid ones, in both versions."""
    g = group("plugin", "aes-128-gcm")
    broker = Broker(
        "plugin", f"log_dest file {WORK}/plugin.log\nplugin {PLUGIN}\nplugin_opt_keys {WORK}/plugin.toml\nplugin_opt_topics plant/+/force\nplugin_opt_access anyone\n"
    )
    for version in (4, 5):
        reader = Paho(broker, version, f"keyless-{version}", filters=["plant/#"])
        protocol = "5" if version == 5 else "311"
        for qos in ("0", "1", "2"):
            done = pub(broker, "plugin", "-V", protocol, "-q", qos, "-m", f"open {qos}")
            assert done.returncode == 0, done.stderr
        assert [m[1] for m in reader.wait(3)] == [b"open 0", b"open 1", b"open 2"], reader.messages
        for forged in (b"21.5", g.seal("plant/press8/force", b"x", b"eve", 1, version), b""):
            # With max_queued_messages 0, Mosquitto closes the connection after a plugin's refusal.
            forger = Paho(broker, version, f"forger-{version}")
            forger.client.publish(TOPIC, forged, 0)
            time.sleep(0.5)
            forger.stop()
        forger = Paho(broker, 4, f"other-{version}")
        # Topics outside plugin_opt_topics stay sealed.
        sealed = g.seal("plant/sealed", b"x", b"eve", 1, 10 + version)
        forger.client.publish("plant/sealed", sealed, 1).wait_for_publish(20)
        assert [m[:2] for m in reader.wait(4)[3:]] == [("plant/sealed", sealed)], reader.messages
        forger.stop()
        reader.stop()
    broker.process.terminate()
    broker.process.wait()
    log = open("plugin.log").read()
    assert "6 payloads opened, 6 messages not forwarded" in log, log[-2000:]
    # A filter without a key is an error: it would pass all payloads.
    text = open("plugin.conf").read().replace("plant/+/force", "zz/#")
    open("uncovered.conf", "w").write(text)
    broker = subprocess.run(["/usr/sbin/mosquitto", "-c", "uncovered.conf"], timeout=20)
    assert broker.returncode != 0 and "no group covers all of it" in open("plugin.log").read()
    # A manager's group without the broker's own key is an error too. With it, the log reports that the
    # retained key is missing.
    public = good("keygen", "mqtt", "--device", "broker", "--out", "broker.device").split()[-1]
    good("keygen", "mqtt", "--group", "managed", "--topic", "plant/#", "--member", f"broker={public}", "--out", "managing.toml")
    good("keygen", "mqtt", "--for-members", "managing.toml", "--out", "managed.toml")
    options = f"log_dest file {WORK}/managed.log\nplugin {PLUGIN}\nplugin_opt_keys {WORK}/managed.toml\nplugin_opt_access anyone\n"
    open("keyless.conf", "w").write(f"user root\n{options}")
    broker = subprocess.run(["/usr/sbin/mosquitto", "-c", "keyless.conf"], timeout=20)
    assert broker.returncode != 0 and "has no [[key]]" in open("managed.log").read()
    Broker("managed", f"{options}plugin_opt_device {WORK}/broker.device\n").kill()
    assert "a group has no key yet" in open("managed.log").read()
    return "the broker's plugin: opened for subscribers without keys over 3.1.1 and 5, forgeries reach nobody"


def refused_to_load(name, text):
    """The broker's log, after it has not started with a configuration."""
    log = f"{WORK}/{name}.log"
    open(f"{name}.conf", "w").write(f"user root\nlog_dest file {log}\n{text}")
    broker = subprocess.run(["/usr/sbin/mosquitto", "-c", f"{name}.conf"], timeout=20)
    assert broker.returncode != 0, text
    return open(log).read()


def plugin_bypass():
    """Clear payloads come in nowhere: bridges are asked about, or the plugin does not load."""
    g = group("bypass", "aes-128-gcm")
    plugin = f"plugin {PLUGIN}\nplugin_opt_keys {WORK}/bypass.toml\n"
    access = "plugin_opt_access anyone\n"
    origin = Broker("origin", "")

    def bridge(qos):
        return f"connection in\naddress 127.0.0.1:{origin.port}\ntopic plant/# in {qos}\ntopic $CONTROL/# in {qos}\nnotifications false\n"

    for qos in (0, 1, 2):
        # With max_queued_messages 0, Mosquitto closes the connection after a plugin's refusal.
        broker = Broker(f"bridged{qos}", f"max_queued_messages 100\n{plugin}{access}{bridge(qos)}")
        reader = Paho(broker, 4, "keyless", filters=["plant/#"])
        for filter in ("plant/#", "$CONTROL/#"):
            origin.subscribed(filter, qos + 1)
        writer = Paho(origin, 4, "writer")
        for payload in (b"forged", g.seal(TOPIC, b"opened", b"p", 1, qos + 1), b"forged"):
            writer.client.publish(TOPIC, payload, qos).wait_for_publish(20)
        time.sleep(1)
        assert [m[1] for m in reader.wait(1)] == [b"opened"], reader.messages
        for one in (reader, writer):
            one.stop()
        broker.kill()
    origin.kill()
    on = "per_listener_settings true\n"
    first, second = (f"listener {port} 127.0.0.1\nallow_anonymous true\n" for port in (1988, 1989))
    for number, (way, text) in enumerate((
        ('the bridge "in"', f"{on}{first}{plugin}{access}{bridge(1)}"),
        ("the listener 1989 127.0.0.1", f"{on}{first}{plugin}{access}{second}"),
    )):
        log = refused_to_load(f"bypass{number}", text)
        assert way in log and "remedy: set per_listener_settings false" in log, log
        # The same in an included file.
        os.makedirs(f"{WORK}/bypass{number}.d", exist_ok=True)
        open(f"{WORK}/bypass{number}.d/one.conf", "w").write(text.removeprefix(on))
        assert way in refused_to_load(f"included{number}", f"{on}include_dir {WORK}/bypass{number}.d\n")
    assert "plugin_opt_access is missing" in refused_to_load("no-access", f"{first}{plugin}")
    good("keygen", "mqtt", "--group", "control", "--topic", "$CONTROL/#", "--out", "control.toml")
    log = refused_to_load("control", f"{first}plugin {PLUGIN}\nplugin_opt_keys {WORK}/control.toml\n{access}")
    assert "the broker serves $CONTROL" in log, log
    return "no way around the broker's plugin: bridges at every QoS, settings per listener, $CONTROL"


def plugin_wills():
    """Wills are opened at the broker, once; forged ones are dropped. The access list applies."""
    g = group("testament", "aes-128-gcm")
    common = f"check_retain_source true\nplugin {PLUGIN}\nplugin_opt_keys {WORK}/testament.toml\nplugin_opt_topics plant/+/force\n"
    broker = Broker("anyone", f"log_dest file {WORK}/anyone.log\n{common}plugin_opt_access anyone\n")
    last = iter(range(1, 100))

    def seal(payload, topic=TOPIC):
        return g.seal(topic, payload, b"mortal", 1, next(last))

    def dies(version, payload, topic=TOPIC, retain=False):
        Paho(broker, version, "mortal", will=(topic, payload, 1, retain)).die()

    for version in (4, 5):
        readers = [Paho(broker, version, f"keyless-{n}", filters=[TOPIC]) for n in range(3)]
        before, sealed = seal(b"before"), seal(b"gone")
        writer = Paho(broker, version, "writer")
        writer.client.publish(TOPIC, before, 1).wait_for_publish(20)
        dies(version, sealed)
        for reader in readers:
            assert [m[1] for m in reader.wait(2)] == [b"before", b"gone"], reader.messages
        # A received message is refused as a repetition, as a will too. Forged ones are refused.
        for payload in (before, sealed, b"21.5", seal(b"x", "plant/press8/force")):
            dies(version, payload)
        # The same as publishes; the next message shows that they did not arrive.
        protocol = "5" if version == 5 else "311"
        forger = Paho(broker, version, "forger")
        forger.client.publish(TOPIC, sealed, 0)
        time.sleep(0.5)
        forger.stop()
        for qos in ("0", "1", "2"):
            done = pub(broker, "testament", "-V", protocol, "-q", qos, "-m", f"open {qos}")
            assert done.returncode == 0, done.stderr
        for reader in readers:
            assert [m[1] for m in reader.wait(5)[2:]] == [b"open 0", b"open 1", b"open 2"], reader.messages
            reader.stop()
        # A retained will is opened for late subscribers; a forged one does not replace it.
        kept = f"plant/kept{version}/force"
        writer.client.publish(kept, seal(b"kept", kept), 1, retain=True).wait_for_publish(20)
        dies(version, b"21.5", kept, retain=True)
        reader = Paho(broker, version, "later", filters=[kept])
        assert [m[1] for m in reader.wait(1)] == [b"kept"], reader.messages
        reader.stop()
        writer.stop()
        # Without subscribers at its arrival, later ones get it opened.
        late = f"plant/late{version}/force"
        dies(version, seal(b"left", late), late, retain=True)
        time.sleep(0.5)
        for name in ("late", "later"):
            reader = Paho(broker, version, name, filters=[late])
            assert [m[1] for m in reader.wait(1)] == [b"left"], reader.messages
            reader.stop()
    broker.process.terminate()
    broker.process.wait()
    log = open("anyone.log").read()
    assert "payloads opened" in log, log[-2000:]

    # Publishes that the access list refuses stay refused and are not mistaken for wills.
    open("wills.list", "w").write("user writer\ntopic readwrite plant/#\n\nuser watcher\ntopic read plant/#\n")
    os.chmod("wills.list", 0o600)
    broker = Broker("listed", f"log_dest file {WORK}/listed.log\n{common}plugin_opt_access list\nacl_file {WORK}/wills.list\n")

    def user(name, user, **more):
        return Paho(broker, 4, name, user=user, **more)

    reader = user("reader", "watcher", filters=["plant/#"])
    nobody = user("nobody", "stranger", filters=["plant/#"])
    refused = seal(b"refused")
    # A refused number far ahead does not move the window.
    for payload in (refused, g.seal(TOPIC, b"refused", b"mortal", 1, 10**6)):
        watcher = user("watcher", "watcher")
        watcher.client.publish(TOPIC, payload, 1).wait_for_publish(20)
        watcher.stop()
    user("mortal-watcher", "watcher", will=(TOPIC, seal(b"not his"), 1, False)).die()
    user("mortal-writer", "writer", will=(TOPIC, seal(b"gone"), 1, False)).die()
    assert [m[1] for m in reader.wait(1)] == [b"gone"], reader.messages
    writer = user("writer", "writer")
    writer.client.publish(TOPIC, seal(b"on"), 2).wait_for_publish(20)
    assert [m[1] for m in reader.wait(2)] == [b"gone", b"on"], reader.messages
    # Retained messages reach permitted readers, also after a restart. Forbidden ones are not stored.
    kept = "plant/kept/force"
    writer.client.publish(kept, seal(b"kept", kept), 1, retain=True).wait_for_publish(20)
    watcher = user("watcher", "watcher")
    watcher.client.publish(kept, seal(b"refused", kept), 1, retain=True).wait_for_publish(20)
    watcher.stop()
    for count in (1, 2):
        late = user(f"late-{count}", "watcher", filters=[kept])
        assert [m[1] for m in late.wait(1)] == [b"kept"], late.messages
        late.stop()
        if count == 1:
            assert nobody.messages == []
            for one in (reader, nobody, writer):
                one.stop()
            broker.process.terminate()
            broker.process.wait()
            broker.start()
    broker.kill()
    return "wills at the broker: opened once, before and after; an access list goes on deciding"


def main():
    parts = (both_ways, retained_and_wills, exactly_once, theirs_killed, ours_killed, broker_killed, nonces, rotation, signed_topics, access, plugin, plugin_bypass, plugin_wills)
    for part in [part for part in parts if not sys.argv[5:] or part.__name__ in sys.argv[5:]]:
        started = time.time()
        print(f"   {part()} ({time.time() - started:.0f} s)", flush=True)
    print(json.dumps({"passed": True}))


main()
