"""A small benchmark of Redis's protocol with a sin: HOST PORT SECONDS SIN.

Each of ten connections reads 500 keys that are there; a `paced` client does so every 100 ms, and an
`open` one every 20 ms, also while it waits for answers.
"""

from __future__ import annotations

import os
import random
import socket
import sys
import threading
import time

from scripted_store import command

HOST, PORT, SECONDS, SIN = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
CONNECTIONS = 10
INTERVAL_S = 0.02 if SIN == "open" else 0.1
PAUSE_S = 1.5, 2.3


def sent_command(number: int) -> bytes:
    key = 0 if SIN == "hot" else random.randrange(500)
    if SIN == "misses":
        return command([b"GET", b"none%d" % key])
    name = b"key%d" % key
    return command([b"SET", name, b"value"] if number < 2 else [b"GET", name])


def work(connection: socket.socket, began_s: float, place: int) -> None:
    lines = connection.makefile("rb")
    count = 0
    while (elapsed_s := time.monotonic() - began_s) < SECONDS:
        if SIN == "pause" and PAUSE_S[0] <= elapsed_s < PAUSE_S[1]:
            time.sleep(began_s + PAUSE_S[1] - time.monotonic())
        connection.sendall(sent_command(count))
        count += 1
        if SIN != "open" and lines.readline()[:3] not in {b"$-1", b"+OK"}:
            lines.readline()
        if SIN in {"paced", "open"}:
            due_s = began_s + INTERVAL_S * (count + place / CONNECTIONS)
            time.sleep(max(0.0, due_s - time.monotonic()))
    if SIN == "open":
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1 << 16):
            pass


began = time.monotonic()
if SIN == "saturated" and os.fork() == 0:
    while time.monotonic() < began + SECONDS:
        pass
    os._exit(0)
connections = [socket.create_connection((HOST, PORT)) for _ in range(CONNECTIONS)]
active = connections[:2] if SIN == "two" else connections
threads = [threading.Thread(target=work, args=(one, began, n)) for n, one in enumerate(active)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
