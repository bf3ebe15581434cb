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

round() { # kind expected
  echo "natlab: routers are $1, expecting peers to be $2" >&2
  local here=$dir/$1
  mkdir "$here"
  space pub
  ip -n "${tag}pub" link add br0 type bridge
  ip -n "${tag}pub" addr add 203.0.113.1/24 dev br0
  ip -n "${tag}pub" link set br0 up
  home ra a pub pa 11 1 "$1"
  home rb b pub pb 12 2 "$1"
  for link in pa pb; do ip -n "${tag}pub" link set "$link" master br0 up; done
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
