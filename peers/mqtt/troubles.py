"""What goes wrong at a user's: each error names its remedy, nothing is lost, and a service keeps trying with one line.

Debian's Mosquitto with passwords and with TLS, a full and a read-only medium. Arguments: antedate program, empty
directory. The last line of output is the verdict.
"""

import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from broker import Broker, free_port, until_open  # noqa: E402
from certificates import authority, certificates, openssl  # noqa: E402

PROGRAM, WORK = (os.path.abspath(word) for word in sys.argv[1:3])
os.chdir(WORK)
TOPIC = "plant/a"
NAMES = ("--keys", "g.toml", "--state", "state", "--publisher", "press7")
PUB = ("mqtt", "pub", *NAMES, "-t", TOPIC, "-q", "1")
SUB = ("mqtt", "sub", "--keys", "g.toml", "-t", "plant/#")


def antedate(*words, **more):
    return subprocess.run([PROGRAM, *words], capture_output=True, timeout=60, **more)


def good(*words, **more):
    done = antedate(*words, **more)
    if done.returncode != 0:
        raise SystemExit(f"antedate {' '.join(words)}: {done.returncode} {done.stderr.decode()}")
    return done.stdout


def wrong(status, texts, *words, **more):
    """A command that fails with these texts, a remedy, and no number of an error."""
    done = antedate(*words, **more)
    said = done.stderr.decode()
    assert done.returncode == status and "remedy" in said and "os error" not in said, (words, done)
    assert all(text in said for text in texts), (words, texts, said)


class Service:
    """A command that goes on, and what it says."""

    def __init__(self, name, *words):
        self.log, self.out = f"{name}.err", f"{name}.out"
        with open(self.log, "wb") as log, open(self.out, "wb") as out:
            self.process = subprocess.Popen([PROGRAM, *words], stdout=out, stderr=log)

    def said(self):
        return open(self.log).read()

    def until(self, text, seconds=40):
        end = time.time() + seconds
        while text not in self.said() + open(self.out).read():
            assert time.time() < end and self.process.poll() is None, (text, self.process.poll(), self.said())
            time.sleep(0.02)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)


def logins():
    subprocess.run(["mosquitto_passwd", "-c", "-b", "passwords", "press7", "right"], check=True)
    os.chmod("passwords", 0o600)
    broker = Broker("locked", f"password_file {WORK}/passwords\n")
    text = open("locked.conf").read()
    open("locked.conf", "w").write(text.replace("allow_anonymous true", "allow_anonymous false"))
    broker.kill()
    broker.start()
    here = ("-p", str(broker.port))
    for version in ("311", "5"):
        for login in ((), ("-u", "press7", "-P", "wrong"), ("-u", "nobody", "-P", "right")):
            wrong(1, ["not authorized", "-u", "--pw-file"], *PUB, *here, "-m", "x", "-V", version, *login)
    # A service waits with one line, and goes on once the broker knows it.
    service = Service("service", *SUB, *here, "-u", "scada", "-P", "new", "--keep-trying")
    service.until("trying again")
    time.sleep(2)
    assert service.process.poll() is None and service.said().count("\n") == 1, service.said()
    subprocess.run(["mosquitto_passwd", "-b", "passwords", "scada", "new"], check=True)
    broker.process.send_signal(signal.SIGHUP)
    service.until("again after")
    assert service.stop() == 0
    # The proxy tells its application, and its log.
    port = free_port()
    proxy = Service("proxy", "mqtt", "proxy", *NAMES, *here, "-u", "press7", "-P", "wrong", "--listen", f"127.0.0.1:{port}")
    assert until_open(port)
    done = antedate(*PUB[:2], "--keys", "free.toml", "--state", "other", "--publisher", "x", "-t", "free/a", "-p", str(port), "-m", "x")
    assert b"not authorized" in done.stderr, done
    proxy.until("reason 5 (not authorized)")
    assert proxy.stop() == 0
    broker.kill()


def certificates_and_clocks():
    certificates()
    authority("eve")
    # A certificate that held until yesterday: for a clock that is ahead, and one that nobody renewed.
    openssl("x509", "-req", "-in", "broker.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "-1",
            "-extfile", "broker.ext", "-out", "old.pem")
    ports = [free_port(), free_port()]
    tls = "".join(f"listener {port} 127.0.0.1\nallow_anonymous true\ncafile {WORK}/ca.pem\ncertfile {WORK}/{name}.pem\nkeyfile {WORK}/broker.key\n"
                  for port, name in zip(ports, ("broker", "old")))
    broker = Broker("tls", tls)
    new, old = (("-h", "localhost", "-p", str(port)) for port in ports)
    wrong(1, ["--cafile"], *PUB, *new, "-m", "x", "--cafile", "eve.pem")
    wrong(1, ["not valid for name", "-h"], *PUB, "-h", "127.0.0.1", "-p", str(ports[0]), "-m", "x", "--cafile", "ca.pem")
    wrong(1, ["expired", "clock"], *PUB, *old, "-m", "x", "--cafile", "ca.pem")
    # Clear to a port with TLS, and TLS to a clear one.
    wrong(1, ["--cafile"], *PUB, *new, "-m", "x")
    wrong(1, ["none"], *PUB, "-h", "localhost", "-p", str(broker.port), "-m", "x", "--cafile", "ca.pem")
    service = Service("late", *SUB, *old, "--cafile", "ca.pem", "--keep-trying")
    service.until("clock")
    assert service.stop() == 0
    port = free_port()
    proxy = Service("untrusting", "mqtt", "proxy", *NAMES, *new, "--cafile", "eve.pem", "--listen", f"127.0.0.1:{port}")
    assert until_open(port)
    wrong(1, ["not available"], *PUB[:2], "--keys", "free.toml", "--state", "other", "--publisher", "x", "-t", "free/a", "-p", str(port), "-m", "x")
    proxy.until("--cafile")
    assert proxy.stop() == 0
    broker.kill()


def keys_and_names():
    # Nobody listens there.
    wrong(1, ["connection refused", "-h and -p"], *PUB, "-p", str(free_port()), "-m", "x")
    broker = Broker("plain")
    here = ("-p", str(broker.port))
    # A group with a manager that has not rotated for this device.
    good("keygen", "mqtt", "--group", "m", "--topic", "man/#", "--managed", "--out", "m.toml")
    good("keygen", "mqtt", "--for-members", "m.toml", "--out", "members.toml")
    good("keygen", "mqtt", "--device", "d", "--out", "d.device")
    wrong(1, ["has no key here yet", "antedate mqtt rotate"], "mqtt", "sub", *here, "--keys", "members.toml", "--device", "d.device", "-t", "man/#", "-W", "2")
    # Two clients of one identifier: the first is told.
    first = Service("first", *SUB, *here, "-i", "same", "-c", "-q", "1", "-V", "5", "--keep-trying")
    broker.subscribed("plant/#")
    second = Service("second", *SUB, *here, "-i", "same", "-c", "-q", "1", "-V", "5", "--keep-trying")
    first.until("identifier")
    for one in (first, second):
        one.stop()
    # A command that was recorded: who was away refuses it when its time is over.
    good("keygen", "mqtt", "--group", "valve", "--topic", "valve/#", "--max-age", "valve/#=1", "--out", "valve.toml")
    good("mqtt", "init", "plc")
    words = ("mqtt", "seal", "--keys", "valve.toml", "--state", "plc", "--publisher", "plc", "-t", "valve/a")
    recorded = good(*words, input=b"OPEN")
    good(*words, input=b"CLOSE")
    time.sleep(2.1)
    late = Service("away", "mqtt", "sub", "--keys", "valve.toml", "-t", "valve/#", *here, "-v")
    broker.subscribed("valve/#")
    import paho.mqtt.client as paho

    client = paho.Client(paho.CallbackAPIVersion.VERSION2)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    client.publish("valve/a", recorded, 1).wait_for_publish(10)
    late.until("are refused after 1 s")
    client.publish("valve/a", good(*words, input=b"OPEN"), 1).wait_for_publish(10)
    late.until("valve/a OPEN")
    assert late.stop() == 0 and open(late.out).read() == "valve/a OPEN\n"
    client.disconnect()
    client.loop_stop()
    broker.kill()


def medium():
    """Runs in a mount namespace, with a small file system in memory."""
    os.makedirs("small", exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", "small"], check=True)
    broker = Broker("medium")
    here = ("-p", str(broker.port))
    for name in ("pub", "sub"):
        good("mqtt", "init", "--volatile-state", f"small/{name}")
    good("keygen", "mqtt", "--group", "m", "--topic", "man/#", "--managed", "--out", "small/m.toml")
    before = open("small/m.toml").read()
    pub = ("mqtt", "pub", "--keys", "g.toml", "--state", "small/pub", "--publisher", "p9", "-t", TOPIC, "-q", "1", *here)
    sub = (*SUB, "--state", "small/sub", "-i", "s", "-c", "-q", "1", *here)
    good(*sub, "-W", "1")

    def fill():
        with open("small/fill", "wb", buffering=0) as file:
            try:
                while file.write(bytes(4096)):
                    pass
            except OSError:
                pass

    fill()
    wrong(3, ["no space left", "make room"], *pub, "-m", "x")
    good(*PUB, *here, "-m", "kept")
    wrong(3, ["no space left", "make room"], *sub, "-W", "5")
    wrong(3, ["no space left", "make room"], "mqtt", "rotate", "--group", "small/m.toml", *here)
    wrong(3, ["make room"], "mqtt", "enrol", "--group", "m", "--name", "d5", "--device", "small/d5", "--keys", "small/d5.toml", *here)
    assert open("small/m.toml").read() == before and not os.path.exists("small/d5")
    os.remove("small/fill")
    assert good(*sub, "-C", "1", "-W", "10") == b"kept\n", "what did not fit came again"
    # Read-only: told at the start, also by what only writes later.
    subprocess.run(["mount", "-o", "remount,ro", "small"], check=True)
    for words in (pub + ("-m", "x"), sub + ("-W", "5"), ("mqtt", "rotate", "--group", "small/m.toml", *here),
                  ("mqtt", "proxy", "--keys", "g.toml", "--state", "small/pub", "--publisher", "p9", "--listen", f"127.0.0.1:{free_port()}", *here)):
        wrong(2, ["read-only file system"], *words)
    broker.kill()


def main():
    if sys.argv[3:] == ["medium"]:
        return medium()
    for group, topics in (("g", "plant/#"), ("free", "free/#")):
        good("keygen", "mqtt", "--group", group, "--topic", topics, "--max-age", f"{topics[:-1]}command=5", "--out", f"{group}.toml")
    for state in ("state", "other"):
        good("mqtt", "init", state)
    logins()
    certificates_and_clocks()
    keys_and_names()
    # Its own mounts, which nobody else sees.
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    subprocess.run(["unshare", *user, "--mount", sys.executable, __file__, PROGRAM, WORK, "medium"], check=True, timeout=120)
    print("   wrong logins, certificates, clocks and ports, missing keys, doubled identifiers, recorded commands, a full and a read-only medium")
    print(json.dumps({"passed": True}))


main()
