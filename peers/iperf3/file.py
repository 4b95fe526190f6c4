"""Transfers a file over TCP port 5202: `file.py receive FILE ADDRESS` and `file.py send FILE ADDRESS`.

iperf3's own file transfer drops data still in flight when the sender finishes.
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
            # The sender waits for this, so it measures the whole transfer.
            connection.sendall(b"!")


def send(path, address):
    with socket.create_connection((address, 5202), timeout=20) as connection, open(path, "rb") as file:
        connection.sendfile(file)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)


{"receive": receive, "send": send}[sys.argv[1]](sys.argv[2], sys.argv[3])
