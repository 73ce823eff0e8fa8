#!/usr/bin/env bash
# Runs every test suite (`make test`), or those named: run_tests.sh [brownie] [forge] [pytest].
# FOUNDRY_PROFILE=long (`make test-long`) makes forge's fuzzing and invariants longer.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
. scripts/toolchain/parts.sh
export PATH="$PWD/scripts/toolchain:$PATH"
export FOUNDRY_PROFILE=${FOUNDRY_PROFILE:-ci}

# forge exits 0 when it finds no test at all. Gas is measured apart: `--isolate` makes each call a whole transaction.
run_forge() {
    forge test --no-match-contract GasTest | tee build/forge-tests.txt || return
    forge test --isolate --match-contract GasTest | tee build/forge-gas.txt || return
    local file
    for file in build/forge-tests.txt build/forge-gas.txt; do
        grep -Eq 'Ran [0-9]+ test suites?.* [1-9][0-9]* tests passed, 0 failed' "$file" || return
    done
}

mkdir -p build
for suite in "${@:-brownie forge pytest}"; do
    for name in $suite; do
        case $name in
            brownie) part brownie brownie test ;;
            forge) part forge run_forge ;;
            pytest) part pytest .venv/bin/python -m pytest -q -n 3 --dist loadfile --durations=15 ;;
            *) echo "no test suite '$name': brownie, forge, pytest" >&2; exit 2 ;;
        esac
    done
done
parts_end tests
