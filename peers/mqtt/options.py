"""Options of mosquitto_pub and mosquitto_sub, against Debian's Mosquitto with TLS and client certificates.

Arguments: antedate program, empty directory. The last line of output is the verdict.
"""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from broker import Broker, free_port  # noqa: E402
from certificates import authority, certificates  # noqa: E402

PROGRAM, WORK = (os.path.abspath(word) for word in sys.argv[1:3])
os.chdir(WORK)
TOPIC = "plant/a"


def antedate(*words, **more):
    return subprocess.run([PROGRAM, *words], capture_output=True, timeout=60, **more)


def good(*words, **more):
    done = antedate(*words, **more)
    if done.returncode != 0:
        raise SystemExit(f"antedate {' '.join(words)}: {done.returncode} {done.stderr.decode()}")
    return done.stdout


def authorities():
    certificates()
    os.makedirs("authorities")
    open("authorities/one.pem", "w").write(open("ca.pem").read())
    open("authorities/README", "w").write("none\n")


def main():
    authorities()
    good("keygen", "mqtt", "--group", "g", "--topic", "plant/#", "--out", "g.toml")
    good("mqtt", "init", "state")
    port = free_port()
    broker = Broker("options", f"listener {port} 127.0.0.1\nallow_anonymous true\ncafile {WORK}/ca.pem\ncertfile {WORK}/broker.pem\n"
                    f"keyfile {WORK}/broker.key\nrequire_certificate true\n")
    mine = ["--cert", "client.pem", "--key", "client.key"]
    ours = ["mqtt", "pub", "--keys", "g.toml", "--state", "state", "--publisher", "press7", "-q", "1"]
    tls = [*ours, "-h", "localhost", "-p", str(port), "-t", TOPIC, "-m", "x"]
    # Client certificates, with both ways to name the authority, over both versions.
    for version in ("311", "5"):
        for trusted in (["--cafile", "ca.pem"], ["--capath", "authorities"]):
            good(*tls, *trusted, *mine, "-V", version)
    good(*ours, "-L", f"mqtts://localhost:{port}/{TOPIC}", "-m", "x", "--cafile", "ca.pem", *mine)
    wrong = (
        (1, "", [*tls, "--cafile", "ca.pem"]),
        (1, "UnknownIssuer", [*ours, "-L", f"mqtts://localhost:{port}/{TOPIC}", "-m", "x", *mine]),
        (1, "not valid for name", [word if word != "localhost" else "127.0.0.1" for word in [*tls, "--cafile", "ca.pem", *mine]]),
        (2, "is not the key of the certificate", [*tls, "--cafile", "ca.pem", "--cert", "client.pem", "--key", "broker.key"]),
        (2, "which is not on", [*tls, *mine]),
        (2, "has no certificate", [*tls, "--capath", "options.db"]),
        (2, "both have a topic", [*ours, "-L", f"mqtt://localhost/{TOPIC}", "-t", TOPIC, "-m", "x"]),
        (2, "pre-shared keys", [*ours, "-t", TOPIC, "-m", "x", "--psk", "00", "--psk-identity", "press7"]),
        (2, "there is no topic", [*ours, "-L", "mqtt://localhost", "-m", "x"]),
    )
    for status, text, words in wrong:
        done = antedate(*words)
        assert done.returncode == status and text in done.stderr.decode(), (text, done)
    # Another name is taken with a warning, another authority is not.
    other = [word if word != "localhost" else "127.0.0.1" for word in tls]
    done = antedate(*other, "--cafile", "ca.pem", *mine, "--insecure")
    assert done.returncode == 0 and b"not compared" in done.stderr, done
    authority("eve")
    assert antedate(*other, "--cafile", "eve.pem", *mine, "--insecure").returncode == 1
    # A key that others can read is refused.
    os.chmod("client.key", 0o644)
    assert b"others than its owner" in antedate(*tls, "--cafile", "ca.pem", *mine).stderr
    os.chmod("client.key", 0o600)
    # Passwords from files, and in the URL.
    subprocess.run(["mosquitto_passwd", "-c", "-b", "passwords", "press7", "p@ss:w"], check=True)
    os.chmod("passwords", 0o600)
    locked = Broker("locked", f"password_file {WORK}/passwords\n")
    text = open("locked.conf").read().replace("allow_anonymous true", "allow_anonymous false")
    open("locked.conf", "w").write(text)
    locked.kill()
    locked.start()
    open("password", "w").write("p@ss:w\n")
    os.chmod("password", 0o600)
    here = [*ours, "-p", str(locked.port), "-t", TOPIC, "-m", "x", "-u", "press7"]
    good(*here, "--pw-file", "password")
    assert antedate(*here).returncode == 1
    os.chmod("password", 0o640)
    assert b"others than its owner" in antedate(*here, "--pw-file", "password").stderr
    good(*ours, "-L", f"mqtt://press7:p@ss:w@localhost:{locked.port}/{TOPIC}", "-m", "x")
    locked.kill()
    # A payload forges no line.
    here = [*ours, "-p", str(broker.port), "-t", TOPIC]
    listen = ["mqtt", "sub", "--keys", "g.toml", "-p", str(broker.port), "-t", "plant/#", "-W", "20"]
    good(*here, "-r", "-m", 'old\nplant/b "new"')
    assert good(*listen, "-v", "-C", "1") == b'plant/a old\\nplant/b "new"\n'
    assert good(*listen, "--origin", "-C", "1").split()[0] == b"press7"
    assert good(*listen, "-F", "%t|%l|%q|%r|%x\\t%p", "-C", "1") == b'plant/a|17|0|1|' + b'old\nplant/b "new"'.hex().encode() + b'\told\nplant/b "new"\n'
    for words in (["--json"], ["-F", "%j"]):
        (line,) = good(*listen, *words, "-C", "1").splitlines()
        found = json.loads(line)
        assert (found["topic"], found["payload"], found["publisher"], found["retain"]) == ("plant/a", 'old\nplant/b "new"', "press7", 1), found
    # The fields of mosquitto_sub 2.0.
    assert {"tst", "topic", "qos", "retain", "payloadlen", "payload"} <= set(found), found
    # -R leaves retained ones out.
    sub = subprocess.Popen([PROGRAM, *listen, "-R", "-C", "1"], stdout=subprocess.PIPE)
    while sub.poll() is None:
        good(*here, "-m", "fresh")
        try:
            sub.wait(0.2)
        except subprocess.TimeoutExpired:
            pass
    assert sub.stdout.read() == b"fresh\n"
    broker.kill()
    print("   client certificates, authorities, --insecure, -L, passwords of files, -F, --json, -R; a payload forges no line")
    print(json.dumps({"passed": True}))


main()
