"""The Python package in applications with paho-mqtt and aiomqtt, over Debian's Mosquitto.

Runs the blocks of the book's chapter "Add it to what you have". Arguments: antedate program, empty
directory, the chapter. The last line of output is the verdict.
"""

import asyncio
import faulthandler
import json
import os
import re
import subprocess
import sys
import threading
import time

import antedate

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from broker import Broker  # noqa: E402
from envelope import Group  # noqa: E402

PROGRAM, WORK, CHAPTER = (os.path.abspath(word) for word in sys.argv[1:4])
os.chdir(WORK)
TOPIC = "plant/line4/press7/force"
# The least payloads a second that one core seals and opens.
LEAST = 200_000
BLOCKS = re.findall(r"^```python\n(.*?)^```", open(CHAPTER).read(), re.M | re.S)


def good(*words, **more):
    done = subprocess.run([PROGRAM, *words], capture_output=True, timeout=60, **more)
    if done.returncode != 0:
        raise SystemExit(f"antedate {' '.join(words)}: {done.returncode} {done.stderr.decode()}")
    return done.stdout


def refusal(kind, call):
    """The exception of a call, which must be of exactly this kind and have a remedy."""
    try:
        result = call()
    except antedate.AntedateError as error:
        assert type(error) is kind and error.remedy, (kind, error)
        return error
    raise SystemExit(f"no {kind.__name__}, but {result!r}")


class Program:
    """A block of the chapter as a program, with its lines of output."""

    def __init__(self, block, broker, **more):
        assert "1883" in block
        text = block.replace("1883", str(broker.port))
        self.process = subprocess.Popen(
            [sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more
        )
        self.lines, self.errors = [], []
        for stream, lines in ((self.process.stdout, self.lines), (self.process.stderr, self.errors)):
            threading.Thread(target=lambda s=stream, to=lines: to.extend(line.strip() for line in s), daemon=True).start()

    def wait(self, count, seconds=40):
        end = time.time() + seconds
        while len(self.lines) < count and time.time() < end:
            assert self.process.poll() is None, self.errors
            time.sleep(0.02)
        return self.lines

    def kill(self):
        self.process.kill()
        self.process.wait()


def chapter():
    """A publisher, a subscriber that is killed, and a program between, as printed."""
    publisher, subscriber, both, frames = BLOCKS
    broker = Broker("chapter")
    good("keygen", "mqtt", "--group", "line4", "--topic", "plant/line4/#", "--out", "line4.toml")
    for state in ("press7", "scada", "limits", "other"):
        antedate.create_state(state)
    reader, alarms = Program(subscriber, broker), Program(both, broker)
    other = antedate.Guard(["line4.toml"], state="other", publisher="other")
    import paho.mqtt.client as mqtt

    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
    client.connect("localhost", broker.port)
    client.loop_start()

    def send(topic, message):
        client.publish(topic, message, 1).wait_for_publish(40)

    # Both listen: the one prints, the other publishes an alarm.
    for filter in ("plant/line4/#", "plant/line4/+/force"):
        broker.subscribed(filter)
    done = Program(publisher, broker)
    assert done.process.wait(40) == 0, done.errors
    lines = reader.wait(4)
    expected = [f'{TOPIC} press7 {{"kN":{force}}}' for force in (81.5, 82.0, 83.5)]
    alarm = f'{TOPIC.replace("force", "alarm")} limits {{"kN":83.5}}'
    assert sorted(lines) == sorted([*expected, alarm]), lines
    # Killed, it misses nothing and repeats nothing; forgeries are told.
    reader.kill()
    again, changed = other.seal(TOPIC, b"once"), other.seal(TOPIC, b"changed")
    for message in (again, again, changed[:-1] + bytes([changed[-1] ^ 1]), b"clear"):
        send(TOPIC, message)
    good("mqtt", "pub", "-p", str(broker.port), "--keys", "line4.toml", "--state", "press7", "--publisher", "press7", "-q", "1",
         "-t", TOPIC, "-m", "from the program")
    reader = Program(subscriber, broker)
    assert reader.wait(2) == [f"{TOPIC} other once", f"{TOPIC} press7 from the program"], reader.lines
    end, reasons = time.time() + 20, []
    while len(reasons) < 3 and time.time() < end:
        time.sleep(0.02)
        reasons = [line.split()[1] for line in list(reader.errors) if line.startswith("plant/")]
    assert reasons == ["repeated", "unauthentic", "not-envelope"] and len(reader.lines) == 2, (reasons, reader.lines)
    for one in (reader, alarms):
        one.kill()
    other.close()
    # The block without the package.
    names = {}
    os.environ["PATH"] = f"{os.path.dirname(PROGRAM)}:{os.environ['PATH']}"
    exec(frames, names)  # noqa: S102
    sealed = names["seal"](TOPIC.encode(), b"by frames")
    names["sealer"].stdin.close()
    assert names["sealer"].wait(10) == 0
    with antedate.Guard(["line4.toml"]) as guard:
        assert guard.open(TOPIC, sealed).payload == b"by frames"
    client.disconnect()
    client.loop_stop()
    broker.kill()
    return f"{len(BLOCKS)} blocks of the chapter, as printed: paho-mqtt, aiomqtt, frames; a killed subscriber misses and repeats nothing"


def exceptions():
    """Each refusal is an exception of its kind; no number is used twice after fork."""
    good("keygen", "mqtt", "--group", "e", "--topic", "plant/#", "--algorithm", "aes-128-gcm", "--max-age", "plant/now=60", "--out", "e.toml")
    antedate.create_state("e.state")
    antedate.create_state("e.reader")
    guard = antedate.Guard(["e.toml"], state="e.state", publisher="press7")
    reader = antedate.Guard(["e.toml"], state="e.reader")
    sealed = guard.seal("plant/a", b"x")
    secret = bytes.fromhex(re.search(r'secret = "([0-9a-f]{64})"', open("e.toml").read()).group(1))
    independent = Group("e", "aes-128-gcm", {1: secret})
    assert independent.open("plant/a", sealed)[0] == b"x"
    message = reader.open("plant/a", sealed)
    assert (message.payload, message.publisher, message.epoch, message.sequence, message.time) == (b"x", "press7", 1, 1, None)
    assert abs(reader.open("plant/now", guard.seal("plant/now", bytearray(b"x"))).time - time.time()) < 30
    for reason, topic, envelope in (("repeated", "plant/a", sealed), ("moved", "plant/now", sealed), ("not-envelope", "plant/a", b"21.5")):
        error = refusal(antedate.RefusedError, lambda: reader.open(topic, envelope))
        assert error.reason == reason, (reason, error.reason)
    refusal(antedate.NoGroupError, lambda: guard.seal("other", b"x"))
    refusal(antedate.NoGroupError, lambda: reader.open("other", sealed))
    refusal(antedate.PayloadError, lambda: guard.seal("plant/+", b"x"))
    refusal(antedate.ConfigurationError, lambda: reader.seal("plant/a", b"x"))
    refusal(antedate.ConfigurationError, lambda: antedate.Guard(["missing.toml"]))
    refusal(antedate.ConfigurationError, lambda: antedate.Guard([]))
    refusal(antedate.StateError, lambda: antedate.Guard(["e.toml"], state="e.state"))
    refusal(antedate.StateError, lambda: antedate.Guard(["e.toml"], state="missing"))
    refusal(antedate.StateError, lambda: antedate.create_state("e.state"))
    opened = reader.open_many([("plant/a", guard.seal("plant/a", b"1")), ("plant/a", sealed), ("other", sealed)])
    assert opened[0].payload == b"1" and [type(one) for one in opened[1:]] == [antedate.RefusedError, antedate.NoGroupError], opened
    child = os.fork()
    if child == 0:
        kinds = [refusal(antedate.StateError, call) for call in (lambda: guard.seal("plant/a", b"x"), lambda: reader.open("plant/a", b"x"), guard.close)]
        del guard, reader
        os._exit(0 if all("fork" in str(kind) for kind in kinds) else 1)
    assert os.waitpid(child, 0)[1] == 0, "the child's calls were not refused"
    # Threads share a guard: each number is used once, and none is lost.
    envelopes = []
    threads = [threading.Thread(target=lambda: envelopes.extend(guard.seal("plant/a", b"x") for _ in range(500))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Read without a window: threads put theirs into the list in any order.
    numbers = {independent.open("plant/a", one)[3] for one in envelopes}
    assert len(numbers) == 2000, len(numbers)
    # What is durable is known after a kill; what is not asked for comes again at most.
    reader.open("plant/b", guard.seal("plant/b", b"kept"))
    kept = guard.seal("plant/b", b"kept")
    text = (
        "import antedate, os, sys; r = antedate.Guard(['e.toml'], state='e.reader');"
        "print(r.open('plant/b', bytes.fromhex(sys.argv[1])).payload); sys.stdout.flush(); os.kill(os.getpid(), 9)"
    )
    reader.close()
    subprocess.run([sys.executable, "-c", text, kept.hex()], stdout=subprocess.DEVNULL)
    with antedate.Guard(["e.toml"], state="e.reader") as reader:
        assert refusal(antedate.RefusedError, lambda: reader.open("plant/b", kept)).reason in ("repeated", "late")
    guard.close()
    refusal(antedate.StateError, lambda: guard.seal("plant/a", b"x"))
    return "each refusal an exception of its kind; fork refused; four threads, a kill: no number twice"


def rotation():
    """A member's guard follows its manager."""
    public = good("keygen", "mqtt", "--device", "press7", "--out", "press7.device").split()[-1].decode()
    good("keygen", "mqtt", "--group", "managed", "--topic", "plant/#", "--member", f"press7={public}", "--out", "manager.toml")
    good("keygen", "mqtt", "--for-members", "manager.toml", "--out", "members.toml")
    antedate.create_state("member")
    broker = Broker("managed")
    with antedate.Guard(["members.toml"], state="member", device="press7.device") as guard:
        topic, own = guard.rotation_topics
        assert own == topic + "/press7"
        refusal(antedate.NoKeyError, lambda: guard.seal("plant/a", b"x"))
        assert not guard.has_keys

        async def follow():
            import aiomqtt

            async with aiomqtt.Client("localhost", broker.port) as client:
                await client.subscribe(topic, qos=1)
                async for message in client.messages:
                    return guard.open(str(message.topic), message.payload)

        for epoch in (2, 3):
            good("mqtt", "rotate", "-p", str(broker.port), "--group", "manager.toml")
            found = asyncio.run(follow())
            assert isinstance(found, antedate.Rotation) and (found.group, found.epoch) == ("managed", epoch), found
            assert guard.has_keys and guard.seal("plant/a", b"x")
        assert refusal(antedate.RefusedError, lambda: guard.open(topic, b"x")).reason == "not-rotation"
    broker.kill()
    return "a member follows its manager's rotations"


def types():
    """The type stub is true, and the chapter's typed program is right by it."""
    open("program.py", "w").write(BLOCKS[2])
    # The stub is of the package, whose only module it re-exports.
    open("allowed", "w").write("antedate\\.antedate\n")
    for words in (["mypy.stubtest", "antedate", "--allowlist", "allowed"], ["mypy", "--no-error-summary", "--strict", "program.py"]):
        done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    return "types: the stub is that of the module, the typed program passes mypy"


def speed():
    """Payloads of 64 octets a second, one thread: in the CPU's time at least LEAST, and in that of a clock, with the disk and other work."""
    good("keygen", "mqtt", "--group", "speed", "--topic", "plant/#", "--out", "speed.toml")
    antedate.create_state("speed.state")
    antedate.create_state("speed.reader")
    count, payload, made, told = int(os.environ.get("COUNT", "20000")), bytes(64), [], []
    with antedate.Guard(["speed.toml"], state="speed.state", publisher="p") as guard, antedate.Guard(["speed.toml"], state="speed.reader") as reader:
        for name, call in (
            ("seal", lambda: [guard.seal(TOPIC, payload) for _ in range(count)]),
            ("open", lambda: [reader.open(TOPIC, one, durable=False) for one in made[-1]]),
            ("seal_many", lambda: guard.seal_many([(TOPIC, payload)] * count)),
            ("open_many", lambda: reader.open_many([(TOPIC, one) for one in made[-1]])),
        ):
            cpu, clock = time.process_time(), time.perf_counter()
            made.append(call())
            cpu, clock = count / (time.process_time() - cpu), count / (time.perf_counter() - clock)
            told.append(f"{cpu:,.0f} by {name} ({clock:,.0f})")
            assert cpu >= LEAST, told
        assert all(isinstance(one, antedate.Message) for one in made[1] + made[3])
    return "a second of CPU (of the clock): " + ", ".join(told)


def main():
    faulthandler.dump_traceback_later(100, exit=True)
    for part in (chapter, exceptions, rotation, types, speed):
        if sys.argv[4:] and part.__name__ not in sys.argv[4:]:
            continue
        started = time.time()
        print(f"   {part()} ({time.time() - started:.0f} s)", flush=True)
    print(json.dumps({"passed": True}))


main()
