#!/bin/sh
# How long deliveries take, by city: count, mean, median and 95th percentile, the slowest first.
# Reads deliveries.csv from the folder of inputs; writes summary.csv and hours.txt into the current
# folder. Sorting is by bytes, so that it does not depend on the machine's language.
set -eu
LC_ALL=C
export LC_ALL
data="${TENSORGRID_INPUT:-.}/deliveries.csv"

{
    echo "city,deliveries,mean_minutes,median_minutes,p95_minutes"
    tail -n +2 "$data" | sort -t, -k3,3 -k4,4n | awk -F, '
    function flush() {
        if (count == 0) return
        middle = int((count + 1) / 2); high = int((95 * count + 99) / 100)
        printf "%s,%d,%.2f,%d,%d\n", city, count, sum / count, minutes[middle], minutes[high]
    }
    $3 != city { flush(); city = $3; count = 0; sum = 0 }
    { count++; sum += $4; minutes[count] = $4 }
    END { flush() }' | sort -t, -k3,3nr -k1,1
} > summary.csv

# Deliveries by hour of the day, as a bar chart.
tail -n +2 "$data" | cut -d, -f2 | sort -n | uniq -c | awk '{
    bar = ""
    for (i = 0; i < $1; i++) bar = bar "#"
    printf "%02d:00 %3d %s\n", $2, $1, bar
}' > hours.txt
