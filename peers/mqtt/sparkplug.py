"""A Sparkplug B edge node and a host application of pysparkplug, unchanged, behind two proxies.

Arguments: antedate program, empty directory. The last line of output is the verdict.
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
import pysparkplug as psp

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from broker import Broker, free_port, until_open  # noqa: E402

PROGRAM, WORK = (os.path.abspath(word) for word in sys.argv[1:3])
os.chdir(WORK)
GROUP, NODE, DEVICE = "plant", "line4", "press7"
KINDS = psp.MessageType


def run(*words):
    subprocess.run([PROGRAM, *words], check=True, timeout=60, stdout=subprocess.DEVNULL)


def proxy(name, broker):
    port = free_port()
    run("mqtt", "init", name)
    log = open(f"{name}.log", "wb")
    words = ["-h", "127.0.0.1", "-p", str(broker), "--state", name, "--publisher", name, "--listen", f"127.0.0.1:{port}"]
    process = subprocess.Popen([PROGRAM, "mqtt", "proxy", "--keys", "sparkplug.toml", *words], stderr=log)
    assert until_open(port), open(f"{name}.log").read()
    return process, port


class Host:
    """A host application: what comes, decoded by the library and in order."""

    def __init__(self, port):
        self.got, subscribed = [], threading.Event()
        self.client = psp.Client(client_id="host")
        self.client.subscribe(
            topic=psp.Topic(message_type=psp.SINGLE_LEVEL_WILDCARD, group_id=GROUP, edge_node_id=psp.MULTI_LEVEL_WILDCARD),
            qos=psp.QoS.AT_MOST_ONCE,
            callback=lambda _, message: self.got.append(message),
        )
        self.client._client.on_subscribe = lambda *_: subscribed.set()
        self.client.connect("127.0.0.1", port=port)
        assert subscribed.wait(10)

    def wait(self, kinds, seconds=20):
        end = time.time() + seconds
        while [m.topic.message_type for m in self.got] != kinds and time.time() < end:
            time.sleep(0.01)
        assert [m.topic.message_type for m in self.got] == kinds, [str(m.topic) for m in self.got]
        return self.got


def metrics(message):
    return {metric.name: metric.value for metric in message.payload.metrics}


def main():
    broker = Broker("sparkplug")
    run("keygen", "mqtt", "--group", "sparkplug", "--topic", "spBv1.0/#", "--out", "sparkplug.toml")
    (near, near_port), (far, far_port) = proxy("edge", broker.port), proxy("scada", broker.port)
    sealed = []
    witness = paho.Client("witness")
    witness.on_message = lambda _c, _u, message: sealed.append(message.payload)
    witness.on_connect = lambda client, *_: client.subscribe("spBv1.0/#")
    witness.connect("127.0.0.1", broker.port)
    witness.loop_start()

    host = Host(far_port)
    commands = []
    device = psp.Device(
        DEVICE,
        metrics=[psp.Metric(timestamp=psp.get_current_timestamp(), name="force", datatype=psp.DataType.FLOAT, value=81.5)],
        cmd_callback=lambda _node, message: commands.append(metrics(message)),
    )
    node = psp.EdgeNode(
        GROUP,
        NODE,
        metrics=[psp.Metric(timestamp=psp.get_current_timestamp(), name="uptime", datatype=psp.DataType.INT64, value=1)],
        client=psp.Client(client_id="edge"),
    )
    node.register(device)
    node.connect("127.0.0.1", port=near_port)
    birth, device_birth = host.wait([KINDS.NBIRTH, KINDS.DBIRTH])
    assert (birth.payload.seq, device_birth.payload.seq) == (0, 1)
    sequence = metrics(birth)["bdSeq"]
    for number in range(100):
        value = psp.Metric(timestamp=psp.get_current_timestamp(), name="force", datatype=psp.DataType.FLOAT, value=number / 4)
        node.update_device(DEVICE, [value])
    data = host.wait([KINDS.NBIRTH, KINDS.DBIRTH] + [KINDS.DDATA] * 100)[2:]
    # No gap in the library's own numbers, and the values are exact.
    assert [message.payload.seq for message in data] == list(range(2, 102))
    assert [metrics(message)["force"] for message in data] == [number / 4 for number in range(100)]
    # A command from the host to the device.
    topic = psp.Topic(message_type=KINDS.DCMD, group_id=GROUP, edge_node_id=NODE, device_id=DEVICE)
    command = psp.DCmd(
        timestamp=psp.get_current_timestamp(),
        metrics=(psp.Metric(timestamp=psp.get_current_timestamp(), name="force", datatype=psp.DataType.FLOAT, value=12.5),),
    )
    host.client.publish(psp.Message(topic=topic, payload=command, qos=psp.QoS.AT_LEAST_ONCE, retain=False), include_dtypes=True)
    end = time.time() + 10
    while not commands and time.time() < end:
        time.sleep(0.01)
    assert commands == [{"force": 12.5}], commands
    # The host hears its own command too, and may hear it after the device has.
    host.wait([KINDS.NBIRTH, KINDS.DBIRTH] + [KINDS.DDATA] * 100 + [KINDS.DCMD])
    host.got.clear()
    # The edge node dies on its connection: the will is its NDEATH, with the number of its birth.
    inner = node._client._client
    inner._reconnect_on_failure = False
    inner._sock.shutdown(socket.SHUT_RDWR)
    (death,) = host.wait([KINDS.NDEATH])
    assert death.payload.bd_seq_metric.value == sequence, (death, sequence)
    # At the broker nothing was readable.
    assert len(sealed) >= 104
    for payload in sealed:
        assert payload[0] == 0x83 and not re.search(b"force|uptime|bdSeq", payload), payload
    for process in (near, far):
        process.terminate()
        assert process.wait(10) == 0
    witness.loop_stop()
    broker.kill()
    print(f"   sparkplug: NBIRTH, DBIRTH, 100 DDATA, DCMD, NDEATH of pysparkplug; {len(sealed)} envelopes at the broker")
    print(json.dumps({"passed": True}))


main()
os._exit(0)
