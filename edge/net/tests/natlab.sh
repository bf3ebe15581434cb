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
lab=natlab
. "$(dirname "${BASH_SOURCE[0]}")/lab.sh"
[ -x "${1:-}" ] || { echo "natlab: usage: natlab.sh PATH-OF-TG-NATLAB" >&2; exit 2; }
bin=$1

home() { # peer number kind
  local peer=$1 number=$2
  local router=$tag"r"$peer
  space "r$peer" "$peer"
  ip link add wan netns "$router" type veth peer name "p$peer" netns "${tag}pub"
  ip link add lan netns "$router" type veth peer name eth netns "$tag$peer"
  ip -n "${tag}pub" link set "p$peer" master br0 up
  ip -n "$router" addr add "203.0.113.1$number/24" dev wan
  ip -n "$router" addr add "192.168.$number.1/24" dev lan
  for link in wan lan; do ip -n "$router" link set "$link" up; done
  ip -n "$tag$peer" addr add "192.168.$number.2/24" dev eth
  ip -n "$tag$peer" link set eth up
  ip -n "$tag$peer" route add default via "192.168.$number.1"
  guard "r$peer" "$3"
}

round() { # kind expected
  echo "natlab: routers are $1, expecting peers to be $2" >&2
  local here=$dir/$1
  mkdir "$here"
  space pub
  ip -n "${tag}pub" link add br0 type bridge
  ip -n "${tag}pub" addr add 203.0.113.1/24 dev br0
  ip -n "${tag}pub" link set br0 up
  home a 1 "$1"
  home b 2 "$1"
  listen pub any "$here/open.pcap"
  shows_what_is_open a "$here/open.pcap"

  listen pub any "$here/sealed.pcap"
  start pub "$bin" relay 203.0.113.1:3340 "$here/ticket"
  start a "$bin" provider "$here/ticket" "$here/blob" "$mark"
  inside b timeout 120 "$bin" client "$here/ticket" "$here/blob" "$mark" "$2"
  hides "$here/sealed.pcap" 33554432 "$mark"
  clean
}

round easy direct
round hard relayed
