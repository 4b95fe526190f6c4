"""gmqtt, an asynchronous client of PyPI, at the other end of our client over Debian's Mosquitto, with an
independent reader of the envelopes.

Arguments: antedate program, empty directory. The last line of output is the verdict.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import time

import gmqtt

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from broker import Broker  # noqa: E402
from envelope import Group  # noqa: E402

PROGRAM, WORK = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
os.chdir(WORK)


async def run(*words):
    process = await asyncio.create_subprocess_exec(PROGRAM, *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = await asyncio.wait_for(process.communicate(), 60)
    if process.returncode != 0:
        raise SystemExit(f"antedate {' '.join(words)}: {process.returncode} {err.decode()}")
    return out


async def client(broker, version, name, got=None, filter=None, will=None):
    one = gmqtt.Client(name, will_message=will)
    ready = asyncio.Event()
    one.on_connect = lambda c, *_: c.subscribe(filter, qos=2) if filter else ready.set()
    one.on_subscribe = lambda *_: ready.set()

    async def message(_client, topic, payload, qos, _properties):
        got.append((topic, bytes(payload), qos))
        return 0

    one.on_message = message
    await one.connect("127.0.0.1", broker.port, version=gmqtt.constants.MQTTv50 if version == "5" else gmqtt.constants.MQTTv311)
    await asyncio.wait_for(ready.wait(), 10)
    return one


async def until(got, count):
    end = time.time() + 15
    while len(got) < count and time.time() < end:
        await asyncio.sleep(0.02)
    assert len(got) == count, got
    return got[-1]


async def over(broker, version):
    place = f"g{version}"
    await run("keygen", "mqtt", "--group", place, "--topic", f"{place}/#", "--out", f"{place}.toml")
    group = Group(place, "aes-ccm-16-64-128", {1: bytes.fromhex(re.search(r'secret = "([0-9a-f]{64})"', open(f"{place}.toml").read()).group(1))})
    await run("mqtt", "init", f"{place}.state")
    common = ["-p", str(broker.port), "-V", version, "--keys", f"{place}.toml"]
    got = []
    reader = await client(broker, version, f"{place}-reader", got, f"{place}/out/#")
    writer = await client(broker, version, f"{place}-writer")
    for qos in range(3):
        await run("mqtt", "pub", *common, "--state", f"{place}.state", "--publisher", "ours", "-t", f"{place}/out/{qos}", "-q", str(qos), "-m", f"ours {qos}")
        topic, message, of = await until(got, qos + 1)
        assert group.open(topic, message)[0] == b"ours %d" % qos and of == qos, (topic, of)
        sub = asyncio.create_task(run("mqtt", "sub", *common, "-q", "2", "-t", f"{place}/in/+", "-C", "1", "-W", "20", "-v"))
        await asyncio.sleep(1)
        topic = f"{place}/in/{qos}"
        writer.publish(topic, group.seal(topic, b"theirs %d" % qos, b"theirs", 1, qos + 1), qos=qos)
        assert await sub == f"{topic} theirs {qos}\n".encode()
    topic = f"{place}/kept"
    writer.publish(topic, group.seal(topic, b"kept", b"theirs", 1, 10), qos=1, retain=True)
    assert await run("mqtt", "sub", *common, "-t", topic, "-C", "1", "-W", "10") == b"kept\n"
    topic = f"{place}/gone"
    mortal = await client(broker, version, f"{place}-mortal", will=gmqtt.Message(topic, group.seal(topic, b"gone", b"mortal", 1, 1), qos=1))
    sub = asyncio.create_task(run("mqtt", "sub", *common, "-t", topic, "-C", "1", "-W", "20"))
    await asyncio.sleep(1)
    # A lost connection, without DISCONNECT.
    mortal._connection._transport.abort()
    mortal.stop_reconnect() if hasattr(mortal, "stop_reconnect") else None
    assert await sub == b"gone\n"
    for one in (reader, writer):
        await one.disconnect()


async def main():
    broker = Broker("asynchronous")
    started = time.time()
    for version in ("311", "5"):
        await over(broker, version)
    broker.kill()
    print(f"   gmqtt: each QoS both ways, retained, will, over 3.1.1 and 5 ({time.time() - started:.0f} s)", flush=True)
    print(json.dumps({"passed": True}), flush=True)
    # A client that was cut off goes on trying.
    os._exit(0)


asyncio.run(main())
