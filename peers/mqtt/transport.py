"""WebSockets, properties of MQTT 5 and the broker's limit, against Debian's Mosquitto and paho-mqtt.

Arguments: antedate program, empty directory. The last line of output is the verdict.
"""

import json
import os
import re
import subprocess
import sys
import time

import paho.mqtt.client as paho

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from broker import Broker, free_port, until_open  # noqa: E402
from certificates import certificates  # noqa: E402
from envelope import Group  # noqa: E402

PROGRAM, WORK = (os.path.abspath(word) for word in sys.argv[1:3])
os.chdir(WORK)
TOPIC = "plant/a"
OURS = ["mqtt", "pub", "--keys", "g.toml", "--state", "state", "--publisher", "press7", "-q", "1"]
LISTEN = ["mqtt", "sub", "--keys", "g.toml", "-t", "plant/#", "-q", "2", "-W", "60"]


def antedate(*words, **more):
    return subprocess.run([PROGRAM, *words], capture_output=True, timeout=90, **more)


def good(*words, **more):
    done = antedate(*words, **more)
    if done.returncode != 0:
        raise SystemExit(f"antedate {' '.join(words)}: {done.returncode} {done.stderr.decode()}")
    return done.stdout


def refused(status, text, *words, **more):
    done = antedate(*words, **more)
    assert done.returncode == status and text in done.stderr.decode(), (text, done)


def paho_client(port, **more):
    """A client of version 5, which keeps its messages."""
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, f"paho-{time.time_ns()}", protocol=paho.MQTTv5, **more)
    client.got = []
    client.on_message = lambda _c, _u, message: client.got.append(message)
    client.connect("127.0.0.1", port)
    client.loop_start()
    return client


def wait(what, text):
    end = time.time() + 40
    while not what():
        assert time.time() < end, text
        time.sleep(0.01)


def websockets():
    clear, secret = free_port(), free_port()
    tls = f"cafile {WORK}/ca.pem\ncertfile {WORK}/broker.pem\nkeyfile {WORK}/broker.key\n"
    broker = Broker("web", f"listener {clear} 127.0.0.1\nprotocol websockets\nallow_anonymous true\n"
                    f"listener {secret} 127.0.0.1\nprotocol websockets\nallow_anonymous true\n{tls}")
    assert until_open(clear) and until_open(secret), "Mosquitto has no WebSockets"
    for version in ("311", "5"):
        for qos in ("0", "1", "2"):
            topic, text = f"plant/{version}/{qos}", f"over a WebSocket {version} {qos}"
            good(*OURS[:-1], qos, "-V", version, "-L", f"wss://localhost:{secret}/{topic}", "--cafile", "ca.pem", "-r", "-m", text)
            # By the options, and over the other listeners.
            for place in (["--ws", "-h", "127.0.0.1", "-p", str(clear)], ["-L", f"ws://127.0.0.1:{clear}"], ["-p", str(broker.port)]):
                assert good(*LISTEN[:4], "-t", topic, "-V", version, *place, "-C", "1", "-W", "60") == text.encode() + b"\n"
    # A megabyte passes in one publish. Mosquitto 2.0 sends 4,096 octets each 100 ms to a WebSocket, so what is read is shorter.
    for length, at, place in ((1 << 20, "long", ["-p", str(broker.port)]), (20_000, "shorter", ["-L", f"wss://localhost:{secret}", "--cafile", "ca.pem"])):
        open("long", "wb").write(b"x" * length)
        good(*OURS, "-L", f"wss://localhost:{secret}/plant/{at}", "--cafile", "ca.pem", "-r", "-f", "long")
        assert good(*LISTEN[:4], "-t", f"plant/{at}", *place, "-C", "1", "-W", "60") == b"x" * length + b"\n"
    # A place that is no WebSocket, and one whose authority is another.
    refused(1, "no connection to", *OURS, "-L", f"ws://127.0.0.1:{broker.port}/{TOPIC}", "-m", "x")
    refused(1, "UnknownIssuer", *OURS, "-L", f"wss://localhost:{secret}/{TOPIC}", "-m", "x")
    refused(2, "is no address of a WebSocket", *OURS, "--ws", "-h", "a b", "-t", TOPIC, "-m", "x")
    # The proxy's way to the broker, for an unchanged application; the broker sees envelopes.
    good("mqtt", "init", "proxy")
    secrets = re.search(r'secret = "([0-9a-f]{64})"', open("g.toml").read()).group(1)
    reader = Group("g", "aes-ccm-16-64-128", {1: bytes.fromhex(secrets)})
    witness = paho_client(broker.port)
    witness.subscribe("plant/proxy/#", 1)
    for place in (["-L", f"ws://127.0.0.1:{clear}"], ["-L", f"wss://localhost:{secret}", "--cafile", "ca.pem"]):
        port = free_port()
        words = ["mqtt", "proxy", "--keys", "g.toml", "--state", "proxy", "--publisher", "proxy", "--listen", f"127.0.0.1:{port}", *place]
        proxy = subprocess.Popen([PROGRAM, *words], stderr=open("proxy.log", "ab"))
        assert until_open(port), open("proxy.log").read()
        application = paho_client(port)
        application.subscribe("plant/proxy/#", 2)
        for number in range(50):
            application.publish(f"plant/proxy/{port}", b"%d" % number, number % 3).wait_for_publish(10)
        wait(lambda: len(application.got) == 50, f"{len(application.got)} of 50: {open('proxy.log').read()}")
        assert sorted(int(one.payload) for one in application.got) == list(range(50))
        application.disconnect()
        application.loop_stop()
        proxy.terminate()
        assert proxy.wait(10) == 0
    wait(lambda: len(witness.got) == 100, f"{len(witness.got)} of 100 at the broker")
    assert [int(reader.open(one.topic, one.payload)[0]) for one in witness.got] == 2 * list(range(50))
    witness.loop_stop()
    broker.kill()
    return "WebSockets with and without TLS: each QoS over both versions, a megabyte, wrong places; the proxy's broker behind one"


def properties():
    broker = Broker("properties")
    here = ["-p", str(broker.port)]
    # Ours at their client.
    theirs = paho_client(broker.port)
    theirs.subscribe("plant/#", 1)
    broker.subscribed("plant/#")
    given = [("content-type", "text/plain"), ("response-topic", "plant/answers"), ("correlation-data", "47"), ("message-expiry-interval", "600")]
    words = [word for name, value in given for word in ("-D", "publish", name, value)]
    words += ["-D", "publish", "user-property", "unit", "kN", "-D", "publish", "user-property", "unit", "0.5"]
    good(*OURS, *here, "-t", TOPIC, "-m", "81.5", "-r", *words)
    wait(lambda: theirs.got, "no message")
    seen = theirs.got[0].properties
    assert (seen.ContentType, seen.ResponseTopic, seen.CorrelationData, seen.UserProperty) == (
        "text/plain", "plant/answers", b"47", [("unit", "kN"), ("unit", "0.5")]), seen
    assert seen.MessageExpiryInterval <= 600
    assert not hasattr(seen, "PayloadFormatIndicator")
    # Ours at our client: letters, JSON, identifiers of subscriptions.
    listen = [*LISTEN, *here, "-D", "subscribe", "subscription-identifier", "7", "-C", "1"]
    assert good(*listen, "-F", "%C|%R|%D|%P|%S|%p") == b"text/plain|plant/answers|47|unit:kN unit:0.5|7|81.5\n"
    found = json.loads(good(*listen, "--json"))
    assert found["properties"]["user-properties"] == [{"unit": "kN"}, {"unit": "0.5"}] and found["properties"]["content-type"] == "text/plain", found
    # A message ends at the broker, and a will comes late with its properties.
    good(*OURS, *here, "-t", "plant/short", "-r", "-m", "x", "-D", "publish", "message-expiry-interval", "1")
    heir = paho_client(broker.port)
    heir.subscribe("plant/gone", 1)
    will = ["--will-topic", "plant/gone", "--will-payload", "gone", "-D", "will", "will-delay-interval", "1", "-D", "will", "content-type", "text/plain"]
    sub = subprocess.Popen([PROGRAM, *LISTEN[:4], "-t", "plant/none", *here, "--state", "state", "--publisher", "press7", *will, "-D", "connect",
                            "session-expiry-interval", "60", "-i", "mortal", "-C", "2", "-W", "60"], stdout=subprocess.DEVNULL)
    broker.subscribed("plant/none")
    sub.kill()
    sub.wait()
    killed = time.time()
    wait(lambda: heir.got, "no will")
    assert heir.got[0].properties.ContentType == "text/plain" and time.time() - killed > 0.8, time.time() - killed
    time.sleep(max(0, 2.2 - (time.time() - killed)))
    assert b"x" not in antedate(*LISTEN[:4], "-t", "plant/short", *here, "-W", "1").stdout
    # A queue bounded by Receive Maximum, and a session that ends with its disconnect.
    session = [*LISTEN[:4], "-t", "plant/queue", "-q", "1", *here, "-i", "session", "-c"]
    good(*session, "-W", "1", "-D", "connect", "receive-maximum", "2")
    good(*OURS, *here, "-t", "plant/queue", "-l", input=b"".join(b"%d\n" % number for number in range(20)))
    got = good(*session, "-W", "60", "-C", "20", "-D", "connect", "receive-maximum", "2", "-D", "disconnect", "session-expiry-interval", "0")
    assert got.split() == [b"%d" % number for number in range(20)], got
    good(*OURS, *here, "-t", "plant/queue", "-m", "unheard")
    assert good(*session, "-V", "5", "-W", "1") == b""
    for text, words in (
        ("no text", ["publish", "payload-format-indicator", "1"]),
        ("no such property", ["connect", "content-type", "x"]),
        ("from 1 to 65535", ["connect", "receive-maximum", "65536"]),
        ("the packet is", ["unsubscribe", "user-property", "a", "b"]),
    ):
        refused(2, text, *OURS, *here, "-t", TOPIC, "-m", "x", "-D", *words)
    refused(2, "has no properties", *OURS, *here, "-V", "311", "-t", TOPIC, "-m", "x", "-D", "publish", "content-type", "x")
    for one in (theirs, heir):
        one.loop_stop()
    broker.kill()
    return "properties of publishes, wills, subscriptions, connections and disconnects, at paho-mqtt and here; wrong ones refused"


def limits():
    """A payload of the exact limit arrives, and one octet more is an error before the broker cuts the connection."""
    most = 2000
    broker = Broker("limits", f"max_packet_size {most}\n")
    here = ["-p", str(broker.port), "-t", "plant/limit"]
    # The packet: its header, the topic, an identifier, no properties and the envelope.
    told = antedate(*OURS, *here, "-V", "5", "-m", "x" * 2500).stderr.decode()
    length = int(re.search(r"has ([0-9]+) octets, and the broker takes packets of 2000 at most", told).group(1))
    fits = 2500 - (length - most)
    listen = subprocess.Popen([PROGRAM, *LISTEN, "-p", str(broker.port), "-V", "5", "-C", "2", "-F", "%l"], stdout=subprocess.PIPE)
    broker.subscribed("plant/#")
    good(*OURS, *here, "-V", "5", "-m", "y" * fits)
    refused(2, f"has {most + 1} octets", *OURS, *here, "-V", "5", "-m", "y" * (fits + 1))
    # Line by line: those before it are sent, and the connection stays.
    refused(2, f"has {most + 1} octets", *OURS, *here, "-V", "5", "-l", input=b"%b\n%b\n" % (b"z" * fits, b"z" * (fits + 1)))
    assert listen.communicate(timeout=70)[0].split() == [b"%d" % fits] * 2
    # Version 3.1.1 tells no limit: the broker cuts the connection, and the end says why that may be.
    refused(1, "message that is too long", *OURS, *here, "-m", "x" * 2500)
    broker.kill()
    quiet = Broker("quiet", "message_size_limit 2000\n")
    refused(1, "a publish is longer than the broker takes", *OURS, "-p", str(quiet.port), "-V", "5", "-t", "plant/limit", "-m", "x" * 2500)
    quiet.kill()
    return f"a payload of {fits} octets fits a broker's packets of {most}, one more is refused before it is sent; the same by lines and without a told limit"


def main():
    certificates()
    good("keygen", "mqtt", "--group", "g", "--topic", "plant/#", "--out", "g.toml")
    good("mqtt", "init", "state")
    for part in (websockets, properties, limits):
        if sys.argv[3:] and part.__name__ not in sys.argv[3:]:
            continue
        started = time.time()
        print(f"   {part()} ({time.time() - started:.0f} s)", flush=True)
    print(json.dumps({"passed": True}))


main()
