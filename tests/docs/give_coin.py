"""give_coin.py RPC ADDRESS...: gives test addresses coin on a development chain, as a faucet does on a public one."""

from __future__ import annotations

import sys

import httpx

url, *addresses = sys.argv[1:]
for address in addresses:
    call = {"jsonrpc": "2.0", "id": 1, "method": "anvil_setBalance", "params": [address, hex(10**19)]}
    answer = httpx.post(url, json=call, timeout=10).json()
    if "error" in answer:
        raise SystemExit(str(answer["error"]))
