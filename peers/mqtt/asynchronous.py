"""gmqtt and aiomqtt, asynchronous clients of PyPI, at the other end of our client over Debian's Mosquitto, with
an independent reader of the envelopes.

Arguments: antedate program, empty directory. The last line of output is the verdict.
"""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import time

import aiomqtt
import gmqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

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
    await asyncio.wait_for(ready.wait(), 30)
    return one


async def until(got, count):
    end = time.time() + 30
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
        sub = asyncio.create_task(run("mqtt", "sub", *common, "-q", "2", "-t", f"{place}/in/+", "-C", "1", "-W", "60", "-v"))
        await asyncio.to_thread(broker.subscribed, f"{place}/in/+", qos + 1)
        topic = f"{place}/in/{qos}"
        writer.publish(topic, group.seal(topic, b"theirs %d" % qos, b"theirs", 1, qos + 1), qos=qos)
        assert await sub == f"{topic} theirs {qos}\n".encode()
    topic = f"{place}/kept"
    writer.publish(topic, group.seal(topic, b"kept", b"theirs", 1, 10), qos=1, retain=True)
    assert await run("mqtt", "sub", *common, "-t", topic, "-C", "1", "-W", "60") == b"kept\n"
    topic = f"{place}/gone"
    mortal = await client(broker, version, f"{place}-mortal", will=gmqtt.Message(topic, group.seal(topic, b"gone", b"mortal", 1, 1), qos=1))
    sub = asyncio.create_task(run("mqtt", "sub", *common, "-t", topic, "-C", "1", "-W", "60"))
    await asyncio.to_thread(broker.subscribed, topic)
    # A lost connection, without DISCONNECT.
    mortal._connection._transport.abort()
    mortal.stop_reconnect() if hasattr(mortal, "stop_reconnect") else None
    assert await sub == b"gone\n"
    for one in (reader, writer):
        await one.disconnect()


async def services(broker, version):
    """aiomqtt: each QoS both ways, a shared subscription, wildcards, retained, a will; aliases and expiry of version 5."""
    place, five = f"a{version}", version == "5"
    await run("keygen", "mqtt", "--group", place, "--topic", f"{place}/#", "--out", f"{place}.toml")
    group = Group(place, "aes-ccm-16-64-128", {1: bytes.fromhex(re.search(r'secret = "([0-9a-f]{64})"', open(f"{place}.toml").read()).group(1))})
    for state in ("ours", "sub"):
        await run("mqtt", "init", f"{place}.{state}")
    common = ["-p", str(broker.port), "-V", version, "--keys", f"{place}.toml"]
    protocol = aiomqtt.ProtocolVersion.V5 if five else aiomqtt.ProtocolVersion.V311
    numbers = iter(range(1, 1000))

    def envelope(topic, payload, publisher=b"theirs"):
        return group.seal(topic, payload, publisher, 1, next(numbers))

    def more(**fields):
        """Properties, or nothing in version 3.1.1."""
        of = Properties(PacketTypes.PUBLISH)
        for name, value in fields.items():
            setattr(of, name, value)
        return {"properties": of} if five else {}

    def client(name, **options):
        return aiomqtt.Client("127.0.0.1", broker.port, identifier=f"{place}-{name}", protocol=protocol, **options)

    async with client("writer") as writer, client("reader") as reader:
        await reader.subscribe(f"{place}/+/out/#", qos=2)
        for qos in range(3):
            # Ours to theirs.
            await run("mqtt", "pub", *common, "--state", f"{place}.ours", "--publisher", "ours", "-t", f"{place}/x/out/{qos}", "-q", str(qos), "-m", f"ours {qos}")
            message = await asyncio.wait_for(anext(reader.messages), 30)
            assert group.open(str(message.topic), message.payload)[0] == b"ours %d" % qos and message.qos == qos
        # Theirs to ours, over a shared subscription: each message to one of two.
        shared = f"$share/pair/{place}/+/in"
        both = [await asyncio.create_subprocess_exec(PROGRAM, "mqtt", "sub", *common, "-q", "2", "-t", shared, stdout=open(f"{place}.{one}", "wb")) for one in range(2)]
        await asyncio.to_thread(broker.subscribed, shared, 2)
        for number in range(30):
            topic = f"{place}/{number % 3}/in"
            await writer.publish(topic, envelope(topic, b"%d" % number), qos=number % 3)
        end, got = time.time() + 30, []
        while sum(map(len, got)) < 30 and time.time() < end:
            await asyncio.sleep(0.05)
            got = [open(f"{place}.{one}").read().split() for one in range(2)]
        # What else comes would be a repetition.
        await asyncio.sleep(0.3)
        for one in both:
            one.terminate()
            assert await one.wait() == 0
        got = [open(f"{place}.{one}").read().split() for one in range(2)]
        assert all(got) and sorted(int(word) for one in got for word in one) == list(range(30)), got
        # Retained, with an end in version 5; and a topic by its alias.
        topic = f"{place}/kept"
        await writer.publish(topic, envelope(topic, b"kept"), qos=1, retain=True)
        assert await run("mqtt", "sub", *common, "-t", topic, "-C", "1", "-W", "60") == b"kept\n"
        if five:
            short, alias = f"{place}/short", f"{place}/alias"
            await writer.publish(short, envelope(short, b"short"), qos=1, retain=True, **more(MessageExpiryInterval=1))
            sub = asyncio.create_task(run("mqtt", "sub", *common, "-q", "1", "-t", alias, "-C", "2", "-W", "60"))
            await asyncio.to_thread(broker.subscribed, alias)
            await writer.publish(alias, envelope(alias, b"first"), qos=1, **more(TopicAlias=1))
            await writer.publish("", envelope(alias, b"second"), qos=1, **more(TopicAlias=1))
            assert await sub == b"first\nsecond\n"
            await asyncio.sleep(1.2)
            ended = await asyncio.create_subprocess_exec(PROGRAM, "mqtt", "sub", *common, "-t", short, "-W", "1", stdout=subprocess.PIPE)
            assert (await ended.communicate())[0] == b""
    # The broker publishes a will of theirs, which is sealed.
    topic = f"{place}/gone"
    mortal = client("mortal", will=aiomqtt.Will(topic, envelope(topic, b"gone", b"mortal"), qos=1))
    await mortal.__aenter__()
    sub = asyncio.create_task(run("mqtt", "sub", *common, "-t", topic, "-C", "1", "-W", "60"))
    await asyncio.to_thread(broker.subscribed, topic)
    mortal._client._sock.shutdown(socket.SHUT_RDWR)
    assert await sub == b"gone\n"


async def main():
    broker = Broker("asynchronous")
    started = time.time()
    for version in ("311", "5"):
        await over(broker, version)
    print(f"   gmqtt: each QoS both ways, retained, will, over 3.1.1 and 5 ({time.time() - started:.0f} s)", flush=True)
    started = time.time()
    await asyncio.gather(*(services(broker, version) for version in ("311", "5")))
    broker.kill()
    print(f"   aiomqtt: each QoS both ways, shared, wildcards, retained, will, aliases, expiry, over 3.1.1 and 5 ({time.time() - started:.0f} s)", flush=True)
    print(json.dumps({"passed": True}), flush=True)
    # A client that was cut off goes on trying.
    os._exit(0)


asyncio.run(main())
