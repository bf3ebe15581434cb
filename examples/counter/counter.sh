#!/bin/sh
# Counts up to $UNTIL, one every $PAUSE seconds, and goes on where it was saved last.
set -eu
state="${TG_CHECKPOINT:-.}/state"
count=0
if [ -f "$state" ]; then
    count=$(cat "$state")
    echo "goes on at $count"
fi
mkdir -p out
echo "$count" > out/began_at
while [ "$count" -lt "$UNTIL" ]; do
    sleep "$PAUSE"
    count=$((count + 1))
    # A file is replaced as a whole: whoever copies the folder now sees the old or the new one.
    echo "$count" > "$state.next"
    mv "$state.next" "$state"
    echo "$count"
done
echo "$count" > out/count
