"""Mosquitto as in production: with persistent sessions, in the working directory."""

import os
import random
import signal
import socket
import subprocess
import time


# Names of the ports given out, for as long as this process lives.
TAKEN = []


def free_port():
    """A port that nobody else takes before its server listens, nor while that is away: below those that
    the kernel gives to connections, and of no other part that runs now."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as limits:
        above = int(limits.read().split()[0])
    while True:
        port = random.randrange(10_000, above)
        name = socket.socket(socket.AF_UNIX)
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                name.bind(f"\0antedate-port-{port}")
                s.bind(("127.0.0.1", port))
            except OSError:
                name.close()
                continue
        TAKEN.append(name)
        return port


def until_open(port, seconds=6):
    """Waits until a port takes connections. Returns whether one does."""
    for _ in range(50 * seconds):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        except OSError:
            time.sleep(0.02)
    return False


class Broker:
    def __init__(self, name, extra="", save=1):
        """`save`: the seconds between two writes of the whole queue. A kill loses what came since the last one."""
        self.port, self.conf = free_port(), f"{name}.conf"
        os.makedirs(f"{name}.db", mode=0o777)
        os.chmod(f"{name}.db", 0o777)
        with open(self.conf, "w") as conf:
            conf.write(
                f"listener {self.port} 127.0.0.1\nallow_anonymous true\npersistence true\n"
                f"persistence_location {os.getcwd()}/{name}.db/\nautosave_interval {save}\nmax_queued_messages 0\n"
                f"max_inflight_messages 100\nuser root\nlog_dest stderr\n"
                f"log_type error\nlog_type warning\nlog_type notice\nlog_type information\nlog_type subscribe\n{extra}"
            )
        self.start()

    def start(self):
        with open(f"{self.conf}.log", "ab") as log:
            self.process = subprocess.Popen(["/usr/sbin/mosquitto", "-c", self.conf], stderr=log)
        if not until_open(self.port, 20):
            raise SystemExit("mosquitto does not start")

    def subscriptions(self, filter):
        """How often a client has subscribed to a filter."""
        with open(f"{self.conf}.log", "rb") as log:
            return sum(line.rstrip().endswith(f" {filter}".encode()) for line in log)

    def subscribed(self, filter, count=1, seconds=40):
        """Waits until clients have subscribed to a filter so often. What is published then reaches them."""
        end = time.time() + seconds
        while self.subscriptions(filter) < count:
            if time.time() > end:
                raise SystemExit(f"{self.subscriptions(filter)} of {count} subscriptions to {filter}")
            time.sleep(0.02)

    def save(self):
        """Writes the queue now."""
        before, end = self.saved(), time.time() + 60
        self.process.send_signal(signal.SIGUSR1)
        while self.saved() == before:
            assert time.time() < end, "mosquitto writes nothing"
            time.sleep(0.02)

    def saved(self):
        """What tells one written queue from the next."""
        try:
            told = os.stat(f"{self.conf.removesuffix('.conf')}.db/mosquitto.db")
            return told.st_ino, told.st_mtime_ns
        except FileNotFoundError:
            return None

    def kill(self):
        self.process.kill()
        self.process.wait()
