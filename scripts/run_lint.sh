#!/usr/bin/env bash
# Runs every static check (`make lint`).
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
. scripts/toolchain/parts.sh
export PATH="$PWD/scripts/toolchain:$PWD/.venv/bin:$PATH"

part ruff ruff check .
part ruff-format ruff format --check .
part mypy mypy
part imports lint-imports --cache-dir build/importlinter --no-logo
part forge-fmt forge fmt --check
part forge-lint forge lint contracts --deny warnings
part eip712 .venv/bin/python scripts/generate_eip712.py --check
part attacks .venv/bin/python scripts/list_attacks.py --check
part bindings .venv/bin/python scripts/generate_bindings.py --check
part artefacts .venv/bin/python scripts/export_artefacts.py --check
part reference .venv/bin/python scripts/generate_reference.py --check
parts_end lint
