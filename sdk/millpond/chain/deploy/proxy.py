"""The deterministic deployment proxy (github.com/Arachnid/deterministic-deployment-proxy), the same on every chain.

Its published transaction carries a signature that nobody chose, so nobody has the key: the signer's first transaction can only be
this one, and whoever pays its gas puts the proxy at its address.
"""

from __future__ import annotations

from typing import Final

from millpond.protocol.ids import Address, address

CREATE2_DEPLOYER: Final = Address("0x4e59b44847b379578588920cA78FbF26c0B4956C")
SIGNER: Final = address("0x3fab184622dc19b6109349b94811493bf2a45362")
CODE: Final = bytes.fromhex(
    "7f" + "ff" * 31 + "e0" + "3601600081602082378035828234f58015156039578182fd5b8082525050506014600cf3"
)
_INIT_CODE: Final = bytes.fromhex("604580600e600039806000f350fe") + CODE
GAS: Final = 100_000
GAS_PRICE: Final = 100 * 10**9
COST: Final = GAS * GAS_PRICE
"""Wei that the signer must hold before the transaction is accepted."""
TRANSACTION: Final = (
    bytes.fromhex("f8a58085174876e800830186a08080b853")
    + _INIT_CODE
    + bytes.fromhex("1ba0" + "22" * 32 + "a0" + "22" * 32)
)
