"""A long queue at Mosquitto for our subscriber, which is killed under load, and so is the broker: each
message is printed once.

Arguments: antedate program, empty directory, number of messages. The last line of output is the verdict.
"""

import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from broker import Broker  # noqa: E402

PROGRAM, WORK, COUNT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), int(sys.argv[3])
os.chdir(WORK)
LONG = COUNT > 10_000
# The number of kills, and those that the broker gets instead of the subscriber.
KILLS, BROKERS = (8, (3, 6)) if LONG else (4, (1,))


def good(*words, **more):
    done = subprocess.run([PROGRAM, *words], capture_output=True, timeout=900, **more)
    if done.returncode != 0:
        raise SystemExit(f"antedate {' '.join(words)}: {done.returncode} {done.stderr.decode()[-2000:]}")
    return done.stdout


def printed(name):
    with open(f"{name}.out", "rb") as out:
        return out.read().count(b"\n")


def queue(qos, version):
    name = f"q{qos}v{version}"
    # A queue without a limit, as in production with long outages.
    broker = Broker(name, save=5)
    good("keygen", "mqtt", "--group", name, "--topic", "plant/#", "--out", f"{name}.toml")
    for state in ("pub", "sub"):
        good("mqtt", "init", f"{name}.{state}")
    words = [
        "mqtt", "sub", "-p", str(broker.port), "-V", version, "--keys", f"{name}.toml", "--state", f"{name}.sub", "-i", "reader", "-c",
        "-q", str(qos), "-t", "plant/#", "-k", "5", "--keep-trying",
    ]
    good(*words, "-W", "1")
    lines = b"".join(b"m%d\n" % number for number in range(COUNT))
    started = time.time()
    good("mqtt", "pub", "-p", str(broker.port), "-V", version, "--keys", f"{name}.toml", "--state", f"{name}.pub", "--publisher", "p",
         "-q", str(qos), "-t", "plant/a", "-l", input=lines)
    filled = time.time() - started
    # What Mosquitto acknowledged after it last wrote its queue is lost with a kill; what it delivered since comes again.
    broker.save()
    out, errors = open(f"{name}.out", "ab"), open(f"{name}.err", "ab")
    started = time.time()

    def start():
        return subprocess.Popen([PROGRAM, *words], stdout=out, stderr=errors)

    sub = start()
    for kill in range(KILLS):
        wanted, end = COUNT * (kill + 1) // (KILLS + 1), time.time() + 300
        while printed(name) < wanted:
            assert time.time() < end and sub.poll() is None, f"{printed(name)} of {COUNT}: {open(f'{name}.err').read()[-2000:]}"
            time.sleep(0.01)
        if kill in BROKERS:
            broker.kill()
            time.sleep(0.2)
            broker.start()
        else:
            sub.kill()
            sub.wait()
            sub = start()
    end, before = time.time() + 60, 0
    while printed(name) < COUNT and time.time() < end:
        if printed(name) > before:
            before, end = printed(name), time.time() + 60
        time.sleep(0.05)
    took = time.time() - started
    # What else comes would be a repetition.
    time.sleep(1.5)
    got = open(f"{name}.out").read().split()
    expected = [f"m{number}" for number in range(COUNT)]
    # A batch is printed a moment before it counts; a kill within that moment prints it again.
    twice, lost = len(got) - len(set(got)), len(set(expected) - set(got))
    assert twice == 0 and lost == 0 and len(got) == COUNT, f"QoS {qos}, {version}: {twice} twice, {lost} lost of {COUNT}: {open(f'{name}.err').read()[-2000:]}"
    sub.terminate()
    assert sub.wait(20) == 0
    broker.kill()
    return f"QoS {qos} over {version}: queued at {COUNT / filled:,.0f} a second, read at {COUNT / took:,.0f} through {KILLS} kills"


def main():
    for qos, version in ((1, "311"), (2, "5"), (1, "5"), (2, "311"))[: 4 if LONG else 2]:
        started = time.time()
        print(f"   {queue(qos, version)} ({time.time() - started:.0f} s)", flush=True)
    print(json.dumps({"passed": True}))


main()
