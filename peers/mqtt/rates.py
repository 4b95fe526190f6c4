"""Publishes a second of two builds of `antedate mqtt pub`, in turns at one Mosquitto, by clock and by CPU time.

Arguments: the newer program, an empty directory, the older program, publishes of a turn (20,000), turns (7). Prints the
median of the newer over the older for each QoS. It needs a quiet machine, and is no part of the peers.
"""

import os
import resource
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from broker import Broker  # noqa: E402

PROGRAMS = [os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[3])]
COUNT, TURNS = (int(word) for word in (sys.argv[4:6] + ["20000", "7"][len(sys.argv[4:6]):]))
os.chdir(sys.argv[2])


def turn(program, state, port, qos, lines):
    """Publishes a second, and microseconds of CPU for each."""
    words = ["mqtt", "pub", "-p", str(port), "--keys", "g.toml", "--state", state, "--publisher", state, "-q", str(qos), "-t", "plant/a", "-l"]
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([program, *words], input=lines, check=True, timeout=120)
    took, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return COUNT / took, cpu / COUNT * 1e6


def main():
    broker = Broker("rates", save=3600)
    # Files that both can read.
    subprocess.run([PROGRAMS[1], "keygen", "mqtt", "--group", "g", "--topic", "plant/#", "--out", "g.toml"], check=True)
    for program, state in zip(PROGRAMS, ("newer", "older")):
        subprocess.run([program, "mqtt", "init", state], check=True)
    lines = b"".join(b'{"kN":%016d,"text":"some sixty-four octets"}\n' % number for number in range(COUNT))
    for qos in (0, 1, 2):
        clock, cpu, rates = [], [], []
        for number in range(TURNS):
            order = list(zip(PROGRAMS, ("newer", "older")))[:: 1 if number % 2 else -1]
            found = {name: turn(program, name, broker.port, qos, lines) for program, name in order}
            clock.append(found["newer"][0] / found["older"][0])
            cpu.append(found["newer"][1] / found["older"][1])
            rates.append(found["newer"][0])
        print(f"QoS {qos}: {statistics.median(rates):,.0f} a second, {statistics.median(clock):.3f} of the older build's, "
              f"{statistics.median(cpu):.3f} of its CPU time ({TURNS} turns of {COUNT:,})", flush=True)
    broker.kill()


main()
