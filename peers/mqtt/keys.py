"""A group's life at Mosquitto: devices that enrol, a man in the broker, devices lost and replaced, ten
thousand members, retained messages that are cleared, a bridge with a prefix.

Arguments: antedate program, empty directory; then, optionally, names of parts to run. The last line of
output is the verdict.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import time

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from broker import Broker  # noqa: E402

ANTEDATE, WORK = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
os.chdir(WORK)
MEMBERS = 10_000


def antedate(*words, seconds=60, **more):
    return subprocess.run([ANTEDATE, *words], capture_output=True, timeout=seconds, **more)


def good(*words, **more):
    done = antedate(*words, **more)
    if done.returncode != 0:
        raise SystemExit(f"antedate {' '.join(words)[:400]}: {done.returncode} {done.stderr.decode()[-2000:]}")
    return done.stdout.decode()


def bad(said, *words, **more):
    done = antedate(*words, **more)
    if done.returncode == 0 or said not in done.stderr.decode():
        raise SystemExit(f"antedate {' '.join(words)}: {done}")


def client(broker, name, handle=None, filters=()):
    one = paho.Client(CallbackAPIVersion.VERSION2, name)
    one.on_message = lambda _c, _u, message: handle(message)
    one.on_connect = lambda c, *_: c.subscribe([(filter, 1) for filter in filters]) if filters else None
    one.connect("127.0.0.1", broker.port)
    one.loop_start()
    return one


def retained(broker, filter, seconds=1.0):
    """What the broker retains, by topic."""
    kept = {}
    reader = client(broker, f"reader-{time.time()}", lambda m: kept.__setitem__(m.topic, m.payload), [filter])
    time.sleep(seconds)
    reader.loop_stop()
    return kept


class Enrolling:
    """A device that waits for the manager."""

    def __init__(self, broker, name, group="line4", more=()):
        words = ["mqtt", "enrol", "-p", str(broker.port), "--group", group, "--device", f"{name}.device", "--name", name,
                 "--keys", f"{name}.toml", "-W", "60", *more]
        self.process = subprocess.Popen([ANTEDATE, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        first, second = self.process.stdout.readline(), self.process.stdout.readline()
        self.fingerprint, self.code = first.split("fingerprint ")[1].strip(), second.split()[1]

    def end(self):
        out, err = self.process.communicate(timeout=70)
        assert self.process.returncode == 0, (out, err)
        return out


def say(broker, name, text, group=None):
    return antedate("mqtt", "pub", "-p", str(broker.port), "--keys", group or f"{name}.toml", "--device", f"{name}.device", "--state", f"{name}.state",
                    "-q", "1", "-t", "plant/a", "-m", text)


def hear(broker, name, *words):
    return good("mqtt", "sub", "-p", str(broker.port), "--keys", f"{name}.toml", "--device", f"{name}.device", "-t", "plant/#", "-C", "1", "-W", "10", *words)


def enrolment():
    """Two devices enrol, one reads what the other says; a man in the broker gains nothing; files; replay."""
    broker = Broker("enrol")
    at = ("-p", str(broker.port))
    good("keygen", "mqtt", "--group", "line4", "--topic", "plant/#", "--managed", "--past-epochs", "2", "--out", "manager.toml")
    recorded = {}
    tap = client(broker, "tap", lambda m: recorded.setdefault(m.topic, []).append(m.payload), ["antedate/enrol/#"])
    press7 = Enrolling(broker, "press7")
    bad("another code", "mqtt", "admit", *at, "--group", "manager.toml", "--code", "00000-00000-00000-00000", "-W", "2", "press7")
    assert "press7" not in open("manager.toml").read(), "nobody without the code"
    said = good("mqtt", "admit", *at, "--group", "manager.toml", "press7", input=press7.code.lower().encode())
    assert press7.fingerprint in said, (press7.fingerprint, said)
    press7.end()
    good("mqtt", "init", "press7.state")
    assert say(broker, "press7", "hello").returncode == 0
    assert retained(broker, "antedate/enrol/#") == {}, "nothing is left"

    # A man in the broker puts his own request and answer there: with another code, and cut from the true ones.
    mallory = client(broker, "mallory")
    scada = Enrolling(broker, "scada")
    other = antedate("mqtt", "enrol", "--group", "line4", "--name", "scada", "--device", "mallory.device", "--keys", "mallory.toml", "--request", "mallory.request")
    assert other.returncode == 0, other
    theirs = open("mallory.request", "rb").read()
    for topic, payload in (("antedate/enrol/line4/scada", theirs), ("antedate/enrol/line4/scada/answer", recorded["antedate/enrol/line4/press7/answer"][0]),
                           ("antedate/enrol/line4/scada/answer", theirs)):
        mallory.publish(topic, payload, 1, retain=True).wait_for_publish(5)
    # The device repeats its own request, and the manager waits for it.
    said = good("mqtt", "admit", *at, "--group", "manager.toml", "--code", scada.code, "-W", "30", "--reader", "scada")
    assert scada.fingerprint in said, (scada.fingerprint, said)
    scada.end()
    members = re.findall(r'name = "(\w+)"\npublic', open("manager.toml").read())
    assert members == ["press7", "scada"], members
    # A recorded request: the code was used.
    mallory.publish("antedate/enrol/line4/scada", recorded["antedate/enrol/line4/scada"][0], 1, retain=True).wait_for_publish(5)
    good("mqtt", "remove", *at, "--group", "manager.toml", "scada")
    bad("used before", "mqtt", "admit", *at, "--group", "manager.toml", "--code", scada.code, "-W", "3", "scada")

    # Files, for a device without the broker.
    shown = good("mqtt", "enrol", "--group", "line4", "--name", "hand", "--device", "hand.device", "--keys", "hand.toml", "--request", "hand.request")
    code = re.search(r"code (\S+)", shown).group(1)
    good("mqtt", "admit", *at, "--group", "manager.toml", "--code", code, "--request", "hand.request", "--answer", "hand.answer", "hand")
    bad("this code", "mqtt", "enrol", "--group", "line4", "--device", "hand.device", "--keys", "hand.toml", "--request", "hand.request",
        "--answer", "hand.answer", "--code", press7.code)
    good("mqtt", "enrol", "--group", "line4", "--device", "hand.device", "--keys", "hand.toml", "--request", "hand.request", "--answer", "hand.answer", "--code", code)
    # A newcomer reads what was retained two epochs before.
    good("mqtt", "pub", *at, "--keys", "press7.toml", "--device", "press7.device", "--state", "press7.state", "-q", "1", "-r", "-t", "plant/kept", "-m", "kept")
    for _ in range(2):
        good("mqtt", "rotate", *at, "--group", "manager.toml")
    assert hear(broker, "hand") == "kept\n"

    # The device is replaced: one command, and the old one is out.
    os.rename("press7.device", "old.device")
    os.rename("press7.toml", "old.toml")
    os.rename("press7.state", "old.state")
    again = Enrolling(broker, "press7")
    bad("antedate mqtt replace", "mqtt", "admit", *at, "--group", "manager.toml", "--code", again.code, "press7")
    good("mqtt", "replace", *at, "--group", "manager.toml", "--code", again.code, "press7")
    again.end()
    good("mqtt", "init", "press7.state")
    assert say(broker, "press7", "new").returncode == 0
    refused = say(broker, "old", "old", "old.toml")
    assert refused.returncode != 0 and b"another key than it has" in refused.stderr, refused
    mallory.loop_stop()
    tap.loop_stop()
    broker.kill()
    return "enrolment at the broker and by files; a man in the broker, a wrong code and a recorded request admit nobody; a device replaced"


def many():
    """A rotation for 10,000 members: messages that do not grow."""
    broker = Broker("many")
    at = ("-p", str(broker.port))
    public = good("keygen", "mqtt", "--device", "press7", "--out", "m7.device").split()[-1]
    names = [f"device-line4-press{i:05}" for i in range(MEMBERS - 1)]
    members = [f"--member={name}={hashlib.sha256(name.encode()).hexdigest()}" for name in names]
    good("keygen", "mqtt", "--group", "many", "--topic", "plant/#", *members, f"--member=press7={public}", "--out", "many.toml")
    good("keygen", "mqtt", "--for-members", "many.toml", "--out", "m7.toml")
    started = time.time()
    said = good("mqtt", "rotate", *at, "--group", "many.toml", seconds=300)
    took = time.time() - started
    count, longest = map(int, re.search(r"(\d+) messages of at most (\d+) octets", said).groups())
    assert count == MEMBERS + 1 and longest < 400, said
    good("mqtt", "init", "m7.state")
    assert say(broker, "m7", "hello").returncode == 0, "a member has its key"
    good("mqtt", "remove", *at, "--group", "many.toml", "press7", seconds=300)
    refused = say(broker, "m7", "hello")
    assert refused.returncode != 0 and b"no member any more" in refused.stderr, refused
    broker.kill()
    return f"{MEMBERS:,} members: {count:,} messages of at most {longest} octets in {took:.1f} s, one removed"


def clearing():
    """A retained message that is cleared for all, and one that a stranger clears."""
    broker = Broker("clear")
    at = ("-p", str(broker.port))
    good("keygen", "mqtt", "--group", "clear", "--topic", "plant/#", "--out", "clear.toml")
    good("mqtt", "init", "clear.state")
    pub = ["mqtt", "pub", *at, "--keys", "clear.toml", "--state", "clear.state", "--publisher", "press7", "-q", "1", "-r", "-t", "plant/a"]
    sub = ["mqtt", "sub", *at, "--keys", "clear.toml", "-t", "plant/#"]
    good(*pub, "-m", "kept")
    assert good(*sub, "-C", "1", "-W", "5") == "kept\n"
    live = subprocess.Popen([ANTEDATE, *sub, "-v", "-C", "2", "-W", "60"], stdout=subprocess.PIPE)
    broker.subscribed("plant/#", 2)
    good(*pub, "-n")
    assert live.communicate(timeout=70)[0] == b"plant/a kept\nplant/a (null)\n"
    late = antedate(*sub, "-v", "-W", "1")
    assert (late.stdout, late.stderr) == (b"", b""), late
    good(*pub, "-m", "again")
    live = subprocess.Popen([ANTEDATE, *sub], stdout=subprocess.PIPE, stderr=open("live.err", "wb"))
    # The retained message shows that it listens.
    out = live.stdout.readline()
    stranger = client(broker, "stranger")
    stranger.publish("plant/a", b"", 1, retain=True).wait_for_publish(20)
    end = time.time() + 20
    while not os.path.getsize("live.err") and time.time() < end:
        time.sleep(0.02)
    live.terminate()
    out, err = out + live.communicate(timeout=20)[0], open("live.err", "rb").read()
    assert out == b"again\n" and b"nobody of the group signed" in err, (out, err)
    stranger.loop_stop()
    broker.kill()
    return "retained messages cleared for all members, and a stranger's clearing told"


def bridge():
    """A bridge that puts a prefix in front of all topics, in both directions, with a manager."""
    home = Broker("home")
    far = Broker("far", f"connection home\naddress 127.0.0.1:{home.port}\ntopic # both 1 site2/ \"\"\n")
    public = {name: good("keygen", "mqtt", "--device", name, "--out", f"{name}.device").split()[-1] for name in ("near", "away")}
    members = [f"--member={name}={key}" for name, key in public.items()]
    good("keygen", "mqtt", "--group", "bridged", "--topic", "plant/#", *members, "--out", "bridged.toml")
    good("keygen", "mqtt", "--for-members", "bridged.toml", "--out", "near.toml")
    open("away.toml", "w").write(open("near.toml").read() + '\n[[topic_map]]\nhere = "site2/"\nsealed = ""\n')
    good("mqtt", "rotate", "-p", str(home.port), "--group", "bridged.toml")
    for name in public:
        good("mqtt", "init", f"{name}.state")
    home.subscribed("#")
    end = time.time() + 30
    while len(retained(far, "site2/antedate/keys/#", 0.3)) < 1:
        assert time.time() < end, "the bridge brings no key"

    def both(sender, to, topic_to, reader, at, topic_at):
        words = ["mqtt", "sub", "-p", str(at.port), "--keys", f"{reader}.toml", "--device", f"{reader}.device", "-t", topic_at, "-C", "1", "-W", "60", "-v"]
        sub = subprocess.Popen([ANTEDATE, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        at.subscribed(topic_at)
        good("mqtt", "pub", "-p", str(to.port), "--keys", f"{sender}.toml", "--device", f"{sender}.device", "--state", f"{sender}.state", "-q", "1",
             "-t", topic_to, "-m", "over the bridge")
        out, err = sub.communicate(timeout=70)
        assert out == f"{topic_at} over the bridge\n".encode(), (out, err)

    both("near", home, "plant/a", "away", far, "site2/plant/a")
    both("away", far, "site2/plant/b", "near", home, "plant/b")
    for broker in (far, home):
        broker.kill()
    return "a bridge with a prefix: rotations and payloads pass both ways"


def main():
    parts = (enrolment, many, clearing, bridge)
    for part in [part for part in parts if not sys.argv[3:] or part.__name__ in sys.argv[3:]]:
        started = time.time()
        print(f"   {part()} ({time.time() - started:.0f} s)", flush=True)
    print(json.dumps({"passed": True}))


main()
