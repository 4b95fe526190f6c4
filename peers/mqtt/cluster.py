"""Three NATS servers as one cluster: our publisher and subscriber go on while servers are killed, and each
message is printed once.

Arguments: antedate program, empty directory, nats-server. The last line of output is the verdict.
"""

import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from broker import free_port, until_open  # noqa: E402

PROGRAM, WORK, NATS = (os.path.abspath(word) for word in sys.argv[1:4])
os.chdir(WORK)
COUNT = 3000


def call(*words, seconds=60):
    return subprocess.run([PROGRAM, *words], capture_output=True, timeout=seconds)


def good(*words, **more):
    done = call(*words, **more)
    if done.returncode != 0:
        raise SystemExit(f"antedate {' '.join(words)}: {done.returncode} {done.stderr.decode()[-2000:]}")
    return done.stdout


class Node:
    def __init__(self, number, routes):
        self.name, self.port = f"n{number}", free_port()
        with open(f"{self.name}.conf", "w") as conf:
            conf.write(
                f"listen: 127.0.0.1:{free_port()}\nserver_name: {self.name}\njetstream {{ store_dir: {json.dumps(f'{WORK}/{self.name}')} }}\n"
                f"cluster {{ name: plant, listen: 127.0.0.1:{routes[number]}, routes: [{', '.join(f'nats://127.0.0.1:{port}' for port in routes)}] }}\n"
                f"mqtt {{ listen: 127.0.0.1:{self.port}, ack_wait: \"2s\", max_ack_pending: 1000 }}\n"
            )
        self.start()

    def start(self):
        with open(f"{self.name}.log", "ab") as log:
            self.process = subprocess.Popen([NATS, "-c", f"{self.name}.conf"], stdout=log, stderr=log)

    def kill(self):
        self.process.kill()
        self.process.wait()


def lines(name):
    with open(name, "rb") as out:
        return out.read().split()


def until(count, process, seconds=120):
    end = time.time() + seconds
    while len(lines("sub.out")) < count:
        assert time.time() < end and process.poll() is None, f"{len(lines('sub.out'))} of {count}: {open('sub.err').read()[-2000:]}"
        time.sleep(0.02)


def main():
    routes = [free_port() for _ in range(3)]
    nodes = [Node(number, routes) for number in range(3)]
    try:
        assert all(until_open(node.port) for node in nodes), open("n0.log").read()[-2000:]
        good("keygen", "mqtt", "--group", "cluster", "--topic", "plant/#", "--out", "cluster.toml")
        for state in ("pub", "sub"):
            good("mqtt", "init", state)
        sub = ["mqtt", "sub", "-p", str(nodes[1].port), "--keys", "cluster.toml", "--state", "sub", "-i", "reader", "-c", "-q", "1", "-k", "5",
               "-t", "plant/#", "--keep-trying"]
        # The cluster chooses its leaders first.
        for _ in range(30):
            if call(*sub, "-W", "2").returncode == 0:
                break
            time.sleep(1)
        else:
            raise SystemExit(f"no cluster: {open('n0.log').read()[-2000:]}")
        reader = subprocess.Popen([PROGRAM, *sub], stdout=open("sub.out", "ab"), stderr=open("sub.err", "ab"))
        writer = subprocess.Popen(
            [PROGRAM, "mqtt", "pub", "-p", str(nodes[0].port), "--keys", "cluster.toml", "--state", "pub", "--publisher", "p", "-q", "1", "-k", "5",
             "-t", "plant/a", "-l", "--keep-trying"], stdin=subprocess.PIPE, stderr=open("pub.err", "ab"))

        def send(first, last):
            for number in range(first, last):
                writer.stdin.write(b"m%d\n" % number)
                if number % 20 == 0:
                    writer.stdin.flush()
                    time.sleep(0.02)
            writer.stdin.flush()

        send(0, COUNT // 3)
        until(COUNT // 6, reader)
        # A server that neither of them talks to, under traffic.
        nodes[2].kill()
        send(COUNT // 3, COUNT * 2 // 3)
        until(COUNT // 2, reader)
        nodes[2].start()
        assert until_open(nodes[2].port)
        time.sleep(5)
        # The subscriber's server, which comes back: the session goes on.
        nodes[1].kill()
        send(COUNT * 2 // 3, COUNT)
        time.sleep(2)
        nodes[1].start()
        until(COUNT, reader)
        writer.stdin.close()
        assert writer.wait(60) == 0, open("pub.err").read()[-2000:]
        time.sleep(3)
        got = lines("sub.out")
        twice, lost = len(got) - len(set(got)), set(b"m%d" % number for number in range(COUNT)) - set(got)
        assert not lost and twice == 0, f"{twice} twice, {len(lost)} lost: {open('sub.err').read()[-2000:]}"
        reader.terminate()
        assert reader.wait(20) == 0
    finally:
        for node in nodes:
            node.kill()
    print(f"   three NATS servers, two killed under traffic: {COUNT} messages at QoS 1, each once", flush=True)
    print(json.dumps({"passed": True}))


main()
