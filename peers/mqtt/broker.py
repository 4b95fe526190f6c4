"""Mosquitto as in production: with persistent sessions, in the working directory."""

import os
import signal
import socket
import subprocess
import time


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


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
                f"max_inflight_messages 100\nuser root\n{extra}"
            )
        self.start()

    def start(self):
        self.process = subprocess.Popen(["/usr/sbin/mosquitto", "-c", self.conf], stderr=subprocess.DEVNULL)
        if not until_open(self.port):
            raise SystemExit("mosquitto does not start")

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
