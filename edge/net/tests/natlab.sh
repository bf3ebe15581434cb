#!/usr/bin/env bash
# Two peers behind routers, in network namespaces of one machine, and somebody who listens.
#
#   natlab.sh PATH-OF-TG-NATLAB
#
# public network 203.0.113.0/24 with the relay at .1; routers at .11 and .12, each with one peer at
# 192.168.1.2 or 192.168.2.2 behind it. Routers let nothing in that nobody asked for. An easy router
# keeps the port of an outgoing connection, a hard one takes another port for every destination.
#
# Checked: behind easy routers peers find a direct path, behind hard ones they are relayed, and the
# traffic in the public network never shows the text that calls and blob are full of. That the
# capture would show it is checked first, with one packet that carries it openly.
# Ends with 0 if all is well, 77 if this machine cannot run it, anything else if a check fails.
set -euo pipefail

skip() { echo "natlab: SKIPPED: $1" >&2; exit 77; }
[ "$(id -u)" = 0 ] || skip "namespaces need root"
for tool in ip nft tcpdump timeout; do
  command -v "$tool" >/dev/null || skip "$tool is missing"
done
unshare --net nft add table ip probe 2>/dev/null || skip "this kernel has no nftables"
[ -x "${1:-}" ] || { echo "natlab: usage: natlab.sh PATH-OF-TG-NATLAB" >&2; exit 2; }

bin=$1
mark="canary-$RANDOM-$RANDOM-$RANDOM"
dir=$(mktemp -d)
tag=tgnl$$
pids=()

clean() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  for space in a b ra rb pub; do ip netns del "$tag$space" 2>/dev/null || true; done
}
trap 'clean; rm -rf "$dir"' EXIT

inside() { local space=$1; shift; ip netns exec "$tag$space" "$@"; }

# In the background. The number is that of the program itself: `ip` and `exec` leave none behind.
start() { local space=$1; shift; (exec ip netns exec "$tag$space" "$@") & pids+=($!); }

router() { # peer number kind
  local peer=$1 number=$2 flag=""
  [ "$3" = hard ] && flag=fully-random
  local router=$tag"r"$peer
  ip netns add "$router"
  ip netns add "$tag$peer"
  ip link add wan netns "$router" type veth peer name "p$peer" netns "${tag}pub"
  ip link add lan netns "$router" type veth peer name eth netns "$tag$peer"
  ip -n "${tag}pub" link set "p$peer" master br0 up
  ip -n "$router" addr add "203.0.113.1$number/24" dev wan
  ip -n "$router" addr add "192.168.$number.1/24" dev lan
  for link in lo wan lan; do ip -n "$router" link set "$link" up; done
  ip -n "$tag$peer" addr add "192.168.$number.2/24" dev eth
  for link in lo eth; do ip -n "$tag$peer" link set "$link" up; done
  ip -n "$tag$peer" route add default via "192.168.$number.1"
  inside "r$peer" sysctl -qw net.ipv4.ip_forward=1
  inside "r$peer" nft -f - <<RULES
table ip nat {
  chain post { type nat hook postrouting priority 100; oifname "wan" masquerade $flag; }
}
table inet filter {
  chain input {
    type filter hook input priority 0; policy drop;
    iifname "lo" accept
    ct state established,related accept
  }
  chain forward {
    type filter hook forward priority 0; policy drop;
    iifname "lan" accept
    ct state established,related accept
  }
}
RULES
}

listen() { # file
  start pub tcpdump -q -U -Z root -s 0 -i any -w "$1" 2>"$1.log"
  for _ in $(seq 100); do
    grep -q 'listening on' "$1.log" 2>/dev/null && return
    sleep 0.1
  done
  echo "natlab: tcpdump does not listen" >&2
  return 1
}

lab() { # kind expected
  echo "natlab: routers are $1, expecting peers to be $2" >&2
  local here=$dir/$1
  mkdir "$here"
  ip netns add "${tag}pub"
  ip -n "${tag}pub" link add br0 type bridge
  ip -n "${tag}pub" addr add 203.0.113.1/24 dev br0
  for link in lo br0; do ip -n "${tag}pub" link set "$link" up; done
  router a 1 "$1"
  router b 2 "$1"
  listen "$here/open.pcap"
  inside a bash -c "echo $mark >/dev/udp/203.0.113.1/9"
  for _ in $(seq 50); do grep -aqs "$mark" "$here/open.pcap" && break; sleep 0.1; done
  grep -aq "$mark" "$here/open.pcap" || { echo "natlab: the capture shows nothing" >&2; return 1; }

  listen "$here/sealed.pcap"
  start pub "$bin" relay 203.0.113.1:3340 "$here/ticket"
  start a "$bin" provider "$here/ticket" "$here/blob" "$mark"
  inside b timeout 120 "$bin" client "$here/ticket" "$here/blob" "$mark" "$2"
  sleep 1 # the capture is written in the background
  local size
  size=$(stat -c %s "$here/sealed.pcap")
  [ "$size" -gt 33554432 ] || { echo "natlab: only $size bytes were captured" >&2; return 1; }
  if grep -aq "$mark" "$here/sealed.pcap"; then
    echo "natlab: the traffic shows what was said" >&2
    return 1
  fi
  echo "natlab: $size bytes captured, nothing legible" >&2
  clean
  pids=()
}

lab easy direct
lab hard relayed
