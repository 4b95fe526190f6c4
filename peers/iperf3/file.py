"""Carries a file over TCP: `file.py receive FILE ADDRESS` and `file.py send FILE ADDRESS`. Port 5202.

iperf3 can do so itself, but leaves out what is still on its way when the sender is done.
"""

import socket
import sys


def receive(path, address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 5202), family=family) as server, open(path, "wb") as file:
        print("listening", flush=True)
        connection, _ = server.accept()
        with connection:
            while part := connection.recv(1 << 20):
                file.write(part)
            # The sender waits for this, so its time is that of the whole file.
            connection.sendall(b"!")


def send(path, address):
    with socket.create_connection((address, 5202), timeout=20) as connection, open(path, "rb") as file:
        connection.sendfile(file)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)


{"receive": receive, "send": send}[sys.argv[1]](sys.argv[2], sys.argv[3])
