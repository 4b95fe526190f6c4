"""A subscriber with a state, and many pairs of publisher and topic: its memory, and what it remembers after a kill.

Arguments: antedate program, empty directory, number of pairs, the most MiB of resident memory. The last line of
output is the verdict.
"""

import json
import os
import subprocess
import sys
import time

import antedate
import paho.mqtt.client as paho

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from broker import Broker  # noqa: E402

PROGRAM, WORK = (os.path.abspath(word) for word in sys.argv[1:3])
PAIRS, MOST = int(sys.argv[3]), int(sys.argv[4])
os.chdir(WORK)
PUBLISHERS = 100 if PAIRS > 100_000 else 10
TOPICS = PAIRS // PUBLISHERS


def good(*words):
    done = subprocess.run([PROGRAM, *words], capture_output=True, timeout=60)
    if done.returncode != 0:
        raise SystemExit(f"antedate {' '.join(words)}: {done.returncode} {done.stderr.decode()}")
    return done.stdout


def resident(process):
    """The most memory that a process had, in MiB."""
    with open(f"/proc/{process.pid}/status") as status:
        (line,) = (line for line in status if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def lines():
    with open("sub.out", "rb") as out:
        return sum(block.count(b"\n") for block in iter(lambda: out.read(1 << 20), b""))


def until(count, sub):
    end, before = time.time() + 60, -1
    while lines() < count:
        if lines() > before:
            before, end = lines(), time.time() + 60
        assert time.time() < end and sub.poll() is None, f"{lines()} of {count}: {open('sub.err').read()[-2000:]}"
        time.sleep(0.2)


def main():
    # It is not killed, so its queue of up to a million messages need not go to the disk each second. With more messages on
    # their way the subscriber writes more of them at once.
    broker = Broker("pairs", "max_inflight_messages 1000\n", save=3600)
    good("keygen", "mqtt", "--group", "g", "--topic", "plant/#", "--out", "g.toml")
    good("mqtt", "init", "sub")
    words = [PROGRAM, "mqtt", "sub", "-p", str(broker.port), "--keys", "g.toml", "--state", "sub", "-i", "reader", "-c", "-q", "1", "-t", "plant/#", "--origin"]
    out, errors = open("sub.out", "ab"), open("sub.err", "ab")
    sub = subprocess.Popen(words, stdout=out, stderr=errors)
    broker.subscribed("plant/#")
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, "writer")
    client.max_queued_messages_set(0)
    client.max_inflight_messages_set(100)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    started, first, last = time.time(), None, None
    for number in range(PUBLISHERS):
        antedate.create_state(f"p{number}")
        with antedate.Guard(["g.toml"], state=f"p{number}", publisher=f"publisher{number}") as guard:
            pairs = [(f"plant/{number}/{topic}", b"%d" % topic) for topic in range(TOPICS)]
            for (topic, _), envelope in zip(pairs, guard.seal_many(pairs)):
                last = client.publish(topic, envelope, 1)
                first = first or (topic, envelope)
        # No more waits here than the broker takes.
        last.wait_for_publish(60)
    count = PUBLISHERS * TOPICS
    until(count, sub)
    took, most = time.time() - started, resident(sub)
    time.sleep(1.5)
    sub.kill()
    sub.wait()
    # After a kill it still knows the first pair of all.
    sub = subprocess.Popen(words, stdout=out, stderr=errors)
    client.publish(*first, 1).wait_for_publish(10)
    with antedate.Guard(["g.toml"], state="p0", publisher="publisher0") as guard:
        client.publish("plant/0/0", guard.seal("plant/0/0", b"again"), 1).wait_for_publish(10)
    until(count + 1, sub)
    assert b"plant/0/0: refused" in open("sub.err", "rb").read(), open("sub.err").read()
    most = max(most, resident(sub))
    client.disconnect()
    client.loop_stop()
    sub.terminate()
    assert sub.wait(20) == 0 and lines() == count + 1
    broker.kill()
    size = os.path.getsize("sub/received.redb") / (1 << 20)
    print(f"   {count:,} pairs of publisher and topic in {took:.0f} s: {most:.0f} MiB resident at most, {size:.0f} MiB on the disk")
    assert most < MOST, f"{most:.0f} MiB, and {MOST} is the most"
    print(json.dumps({"passed": True}))


main()
