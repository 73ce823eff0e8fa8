"""start_chain.py CHAIN_ID: starts a chain with five blocks a second that outlives this command, notes its process in `pids`, prints its RPC."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import httpx

from millpond.chain.devnet import free_port

port = free_port()
url = f"http://127.0.0.1:{port}"
command = [os.environ["ANVIL"], "--port", str(port), "--chain-id", sys.argv[1], "--block-time", "0.2", "--silent"]
process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
with Path("pids").open("a") as pids:
    pids.write(f"{process.pid}\n")
deadline = time.monotonic() + 20
while True:
    try:
        httpx.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": []}, timeout=2)
        break
    except httpx.TransportError:
        if time.monotonic() > deadline:
            raise
        time.sleep(0.1)
print(url)
