#!/bin/sh
# Three mirrored balls over a chequered floor, by tracing rays in awk. Nothing but + - * / is used,
# so that the picture is the same on every machine.
# Reads WIDTH, HEIGHT and BOUNCES; writes picture.ppm into the current folder.
set -eu

awk -v width="${WIDTH:-160}" -v height="${HEIGHT:-120}" -v bounces="${BOUNCES:-3}" '
# A square root by the method of Newton method, for the awks that have none.
function root(a,    r, next_r) {
    if (a <= 0) return 0
    r = a > 1 ? a : 1
    while ((next_r = (r + a / r) / 2) < r) r = next_r
    return r
}
function ball(x, y, z, radius, red, green, blue) {
    n++; bx[n] = x; by[n] = y; bz[n] = z; br[n] = radius
    cr[n] = red; cg[n] = green; cb[n] = blue
}
# Which ball a ray meets first; `far` is set to how far that is. Zero is none.
function meet(ox, oy, oz, dx, dy, dz,    i, px, py, pz, along, rest, half, near, best) {
    far = 1000000; best = 0
    for (i = 1; i <= n; i++) {
        px = bx[i] - ox; py = by[i] - oy; pz = bz[i] - oz
        along = px * dx + py * dy + pz * dz
        rest = br[i] * br[i] - (px * px + py * py + pz * pz - along * along)
        if (along <= 0 || rest < 0) continue
        half = root(rest); near = along - half
        if (near > 0.001 && near < far) { far = near; best = i }
    }
    return best
}
# Sets red, green and blue to what is seen along a ray.
function trace(ox, oy, oz, dx, dy, dz,
               weight, bounce, hit, px, py, pz, nx, ny, nz, light, along, sky, r, g, b, square) {
    red = 0; green = 0; blue = 0; weight = 1
    for (bounce = 0; bounce <= bounces; bounce++) {
        hit = meet(ox, oy, oz, dx, dy, dz)
        if (hit == 0 && dy >= -0.001) {
            sky = dy > 0 ? dy : 0
            red += weight * (0.75 - 0.5 * sky); green += weight * (0.85 - 0.4 * sky); blue += weight
            return
        }
        if (hit == 0 || -oy / dy > 0.001 && dy < 0 && -oy / dy < far) {
            far = -oy / dy
            px = ox + far * dx; py = 0; pz = oz + far * dz; nx = 0; ny = 1; nz = 0
            square = int(px + 1000) + int(pz + 1000)
            r = g = b = square % 2 ? 0.9 : 0.2
            hit = 0
        } else {
            px = ox + far * dx; py = oy + far * dy; pz = oz + far * dz
            nx = (px - bx[hit]) / br[hit]; ny = (py - by[hit]) / br[hit]
            nz = (pz - bz[hit]) / br[hit]
            r = cr[hit]; g = cg[hit]; b = cb[hit]
        }
        light = nx * lx + ny * ly + nz * lz
        if (light < 0) light = 0
        if (light > 0 && meet(px + nx / 1000, py + ny / 1000, pz + nz / 1000, lx, ly, lz)) light = 0
        light = 0.25 + 0.75 * light
        mirror = hit ? 0.45 : 0.15
        if (bounce == bounces) mirror = 0
        red += weight * (1 - mirror) * light * r
        green += weight * (1 - mirror) * light * g
        blue += weight * (1 - mirror) * light * b
        weight *= mirror
        if (weight < 0.01) return
        along = 2 * (dx * nx + dy * ny + dz * nz)
        dx -= along * nx; dy -= along * ny; dz -= along * nz
        ox = px + nx / 1000; oy = py + ny / 1000; oz = pz + nz / 1000
    }
}
function shade(part) { return part >= 1 ? 255 : int(255 * part) }
BEGIN {
    ball(-1.4, 1, 5, 1, 0.95, 0.30, 0.25)
    ball(0.9, 0.8, 4, 0.8, 0.25, 0.70, 0.35)
    ball(0.2, 1.4, 7, 1.4, 0.30, 0.40, 0.95)
    length_of = root(0.6 * 0.6 + 1 + 0.7 * 0.7)
    lx = 0.6 / length_of; ly = 1 / length_of; lz = -0.7 / length_of
    printf "P3\n%d %d\n255\n", width, height
    for (row = 0; row < height; row++) for (column = 0; column < width; column++) {
        vx = (column + 0.5 - width / 2) / height
        vy = (height / 2 - row - 0.5) / height - 0.05; vz = 1.1
        size = root(vx * vx + vy * vy + vz * vz)
        trace(0, 1.3, 0, vx / size, vy / size, vz / size)
        print shade(red), shade(green), shade(blue)
    }
}' > picture.ppm
