#!/usr/bin/env bash
# What labs in network namespaces share. A lab sets `lab` (its name) and sources this; from then on
# it has namespaces (`space`), programs in them (`inside`, `start`), homes behind routers (`home`,
# `guard`), somebody who listens (`listen`), a word to look for (`mark`) and a folder (`dir`). All
# of it ends with the lab. A machine that cannot run it ends the lab with 77.

skip() { echo "$lab: SKIPPED: $1" >&2; exit 77; }
fail() { echo "$lab: $1" >&2; exit 1; }
[ "$(id -u)" = 0 ] || skip "namespaces need root"
for tool in ip nft tcpdump timeout unshare; do
  command -v "$tool" >/dev/null || skip "$tool is missing"
done
unshare --net nft add table ip probe 2>/dev/null || skip "this kernel has no nftables"

mark="canary-$RANDOM-$RANDOM-$RANDOM"
dir=$(mktemp -d)
tag=tg$lab$$
pids=()
spaces=()

clean() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  for space in "${spaces[@]}"; do ip netns del "$tag$space" 2>/dev/null || true; done
  pids=()
  spaces=()
}
trap 'clean; rm -rf "$dir"' EXIT

space() { # names
  for name in "$@"; do
    ip netns add "$tag$name"
    spaces+=("$name")
    ip -n "$tag$name" link set lo up
  done
}

inside() { local space=$1; shift; ip netns exec "$tag$space" "$@"; }

# In the background. The number is that of the program itself: `ip` and `exec` leave none behind.
start() { local space=$1; shift; (exec ip netns exec "$tag$space" "$@") & pids+=($!); }

# Makes a namespace with the links `wan` and `lan` a router that lets nothing in that nobody asked
# for; with `hard` it takes another port for every destination.
guard() { # space kind
  local flag=""
  [ "$2" = hard ] && flag=fully-random
  inside "$1" sysctl -qw net.ipv4.ip_forward=1
  inside "$1" nft -f - <<RULES
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

# Makes a router and a machine at home behind it, which has the address 192.168.NET.2 there. The
# router's outer side has the address 203.0.113.HOST and is the link OUTER of the namespace OUTSIDE.
home() { # router machine outside outer host net kind
  local router=$tag$1 machine=$tag$2
  space "$1" "$2"
  ip link add wan netns "$router" type veth peer name "$4" netns "$tag$3"
  ip link add lan netns "$router" type veth peer name eth netns "$machine"
  ip -n "$router" addr add "203.0.113.$5/24" dev wan
  ip -n "$router" addr add "192.168.$6.1/24" dev lan
  ip -n "$machine" addr add "192.168.$6.2/24" dev eth
  ip -n "$machine" link set eth up
  for link in wan lan; do ip -n "$router" link set "$link" up; done
  ip -n "$machine" route add default via "192.168.$6.1"
  guard "$1" "$7"
}

listen() { # space link file
  start "$1" tcpdump -q -U -Z root -s 0 -i "$2" -w "$3" 2>"$3.log"
  for _ in $(seq 100); do
    grep -q 'listening on' "$3.log" 2>/dev/null && return
    sleep 0.1
  done
  fail "tcpdump does not listen"
}

# Sends the mark openly to 203.0.113.1: a capture that does not show it would show nothing else.
shows_what_is_open() { # space file
  inside "$1" bash -c "echo open-$mark >/dev/udp/203.0.113.1/9"
  for _ in $(seq 50); do grep -aqs "open-$mark" "$2" && return; sleep 0.1; done
  fail "the capture shows nothing"
}

# Looks through a capture for what nobody may be able to read.
hides() { # file least-bytes texts
  sleep 1 # the capture is written in the background
  local size
  size=$(stat -c %s "$1")
  [ "$size" -gt "$2" ] || fail "only $size bytes were captured"
  for text in "${@:3}"; do
    if grep -aq "$text" "$1"; then fail "the traffic shows $text"; fi
  done
  echo "$lab: $size bytes captured, nothing legible" >&2
}
