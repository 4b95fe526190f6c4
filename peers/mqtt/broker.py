"""Mosquitto as in production: with persistent sessions, in the working directory."""

import os
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

    def kill(self):
        self.process.kill()
        self.process.wait()
