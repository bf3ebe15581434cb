#!/usr/bin/env bash
# A provider at home behind a router, a network and a client outside, in network namespaces of one
# machine, and somebody who listens on the router's outer side.
#
#   nat.sh PATH-OF-TENSORGRID
#
# outside 203.0.113.0/24: validators and client at .1, the router at .2; home 192.168.77.0/24: the
# provider at .2. The router translates addresses and lets nothing in that nobody asked for; outside
# there is no way to the home network at all.
#
# Checked: the provider joins with a ticket, a client's command runs on it and its files come back,
# the provider leaves well, and what is in inputs, streams and outputs never shows on the wire. That
# the capture would show it is checked first, with one packet that carries it openly.
# Ends with 0 if all is well, 77 if this machine cannot run it, anything else if a check fails.
set -euo pipefail

lab=nat
. "$(dirname "${BASH_SOURCE[0]}")/../../net/tests/lab.sh"
[ -x "${1:-}" ] || { echo "nat: usage: nat.sh PATH-OF-TENSORGRID" >&2; exit 2; }
bin=$1

# A user of its own, who is asked for nothing.
as() {
  local home=$dir/$1; shift
  mkdir -p "$home"
  echo env HOME="$home" XDG_STATE_HOME="$home/state" XDG_DATA_HOME="$home/share" \
    TENSORGRID_PASSPHRASE=test "$@"
}

await() { # what file
  for _ in $(seq 300); do [ -s "$2" ] && return; sleep 0.1; done
  cat "$2.err" >&2 || true
  fail "waited in vain: $1"
}

space out
home router home out eth 2 77 easy
ip -n "${tag}out" addr add 203.0.113.1/24 dev eth
ip -n "${tag}out" link set eth up

listen router wan "$dir/wire.pcap"
shows_what_is_open home "$dir/wire.pcap"
if inside out timeout 2 bash -c 'echo >/dev/tcp/192.168.77.2/22' 2>/dev/null; then
  fail "the home network can be reached from outside"
fi

start out $(as validator "$bin" --json up --port 0 --no-demo --relay 203.0.113.1) \
  >"$dir/up" 2>"$dir/up.err"
await "the network is up" "$dir/up"
ticket=$(sed -n 's/.*"ticket":"\([^"]*\)".*/\1/p' "$dir/up")
[ -n "$ticket" ] || fail "there is no ticket"
start home $(as provider "$bin" --json provide --join "$ticket") \
  >"$dir/provide" 2>"$dir/provide.err"
provider=${pids[-1]}
await "the provider has joined" "$dir/provide"

echo "sealed-$mark" >"$dir/input"
inside out timeout 60 $(as client "$bin" run --join "$ticket" -i "given=$dir/input" \
  -o "$dir/result" --) \
  sh -c 'cat /in/given; tr a-z A-Z </in/given >/out/loud; cp /in/given /out/same' \
  >"$dir/run" 2>"$dir/run.err" || { cat "$dir/run.err" >&2; fail "the job failed"; }
cmp "$dir/input" "$dir/result/same" || fail "another file came back"
grep -q "SEALED-" "$dir/result/loud" || fail "the command did not run"

kill -INT "$provider"
wait "$provider" || fail "the provider did not leave well"
hides "$dir/wire.pcap" 20000 "sealed-$mark" "SEALED-"
