#!/bin/sh
# The Sun and five planets under their own gravity, by the leapfrog method. Nothing but awk, and
# nothing but + - * /, which are the same on every machine.
# Reads YEARS and STEPS_PER_YEAR; writes orbits.csv and energy.txt into the current folder.
set -eu

awk -v years="${YEARS:-12}" -v steps="${STEPS_PER_YEAR:-365}" '
# A square root by the method of Newton method, for the awks that have none.
function root(a,    r, next_r) {
    if (a <= 0) return 0
    r = a > 1 ? a : 1
    while ((next_r = (r + a / r) / 2) < r) r = next_r
    return r
}
function body(name, m, px, py, pz, qx, qy, qz) {
    n++; label[n] = name; mass[n] = m
    x[n] = px; y[n] = py; z[n] = pz; u[n] = qx; v[n] = qy; w[n] = qz
}
function accelerate(    i, j, dx, dy, dz, square, pull) {
    for (i = 1; i <= n; i++) { ax[i] = 0; ay[i] = 0; az[i] = 0 }
    for (i = 1; i < n; i++) for (j = i + 1; j <= n; j++) {
        dx = x[j] - x[i]; dy = y[j] - y[i]; dz = z[j] - z[i]
        square = dx * dx + dy * dy + dz * dz
        pull = gravity / (square * root(square))
        ax[i] += pull * mass[j] * dx; ay[i] += pull * mass[j] * dy; az[i] += pull * mass[j] * dz
        ax[j] -= pull * mass[i] * dx; ay[j] -= pull * mass[i] * dy; az[j] -= pull * mass[i] * dz
    }
}
function kick(time,    i) {
    for (i = 1; i <= n; i++) { u[i] += time * ax[i]; v[i] += time * ay[i]; w[i] += time * az[i] }
}
function drift(time,    i) {
    for (i = 1; i <= n; i++) { x[i] += time * u[i]; y[i] += time * v[i]; z[i] += time * w[i] }
}
function energy(    i, j, dx, dy, dz, sum) {
    for (i = 1; i <= n; i++) {
        sum += mass[i] * (u[i] * u[i] + v[i] * v[i] + w[i] * w[i]) / 2
        for (j = i + 1; j <= n; j++) {
            dx = x[j] - x[i]; dy = y[j] - y[i]; dz = z[j] - z[i]
            sum -= gravity * mass[i] * mass[j] / root(dx * dx + dy * dy + dz * dz)
        }
    }
    return sum
}
function report(day,    i) {
    for (i = 1; i <= n; i++)
        printf "%d,%s,%.6f,%.6f,%.6f\n", day, label[i], x[i], y[i], z[i] > "orbits.csv"
}
BEGIN {
    # Distances from the Sun in astronomical units, times in days, masses in Suns.
    gravity = 0.000295912208286
    body("Sun", 1, 0, 0, 0, 0, 0, 0)
    body("Earth", 0.000003003, 1, 0, 0, 0, 0.0172021, 0)
    body("Jupiter", 0.000954786, 4.841431, -1.160320, -0.103622,
         0.000606326, 0.00281199, -0.0000252182)
    body("Saturn", 0.000285584, 8.343367, 4.124799, -0.403523,
         -0.00101077, 0.00182566, 0.0000084158)
    body("Uranus", 0.0000436624, 12.894370, -15.111151, -0.223308,
         0.00108279, 0.000868713, -0.0000108326)
    body("Neptune", 0.0000515139, 15.379697, -25.919315, 0.179259,
         0.000979090, 0.000594699, -0.0000347596)
    print "day,body,x,y,z" > "orbits.csv"
    days = 365.25 / steps
    total = years * steps
    before = energy()
    accelerate()
    for (step = 1; step <= total; step++) {
        kick(days / 2); drift(days); accelerate(); kick(days / 2)
        if (step % int(steps / 12 + 1) == 0) report(step * days)
    }
    after = energy()
    printf "energy before %.12g\nenergy after  %.12g\nchange        %.2g of the whole\n",
        before, after, (after - before) / before > "energy.txt"
}'
