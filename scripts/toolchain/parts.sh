# Sourced by the scripts that run several checks: every part runs, one line each sums them up.
# shellcheck shell=bash

parts_logs=build/logs
parts_lines=()
parts_passed=0
parts_failed=0

# part NAME COMMAND...: runs COMMAND, shows its output and keeps it in build/logs/NAME.log.
part() {
    local name=$1 status=0 started=$SECONDS
    shift
    mkdir -p "$parts_logs"
    printf '\n== %s: %s\n' "$name" "$*"
    "$@" 2>&1 | tee "$parts_logs/$name.log" || status=$?
    if [ "$status" -eq 0 ]; then
        parts_passed=$((parts_passed + 1))
        parts_lines+=("PASS  $name  $((SECONDS - started)) s")
    else
        parts_failed=$((parts_failed + 1))
        parts_lines+=("FAIL  $name  $((SECONDS - started)) s  (exit $status, $parts_logs/$name.log)")
    fi
}

# parts_end WHAT: prints the summary; fails when a part failed or none ran.
parts_end() {
    printf '\n'
    printf '%s\n' "${parts_lines[@]}"
    printf '%s: %d passed, %d failed\n' "$1" "$parts_passed" "$parts_failed"
    [ "$parts_failed" -eq 0 ] && [ "$parts_passed" -gt 0 ]
}
