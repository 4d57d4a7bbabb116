"""Cubic Bézier curves of edges: points on them, and an end cut off to make room for an arrowhead."""

from __future__ import annotations

from collections.abc import Sequence

Point = tuple[float, float]
Curve = tuple[Point, Point, Point, Point]


def point_at(curve: Curve, t: float) -> Point:
    """Return the point at t in [0, 1]."""
    a, b, c, e = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
    p, q, r, s = curve
    return a * p[0] + b * q[0] + c * r[0] + e * s[0], a * p[1] + b * q[1] + c * r[1] + e * s[1]


def points_along(curves: Sequence[Curve], each: int = 8) -> list[Point]:
    """Return `each` + 1 points of every curve, from start to end, joints once."""
    points = [curves[0][0]] if curves else []
    for curve in curves:
        points += [point_at(curve, k / each) for k in range(1, each + 1)]
    return points


def backwards(curves: Sequence[Curve]) -> tuple[Curve, ...]:
    """Return the same line from its end to its start."""
    return tuple((s, r, q, p) for p, q, r, s in reversed(curves))


def without_end(curves: Sequence[Curve], length: float) -> tuple[Curve, ...]:
    """Return the line without its last `length`, as the crow flies; a tenth of its last curve stays at least."""
    *first, last = curves
    end, low, high = last[3], 0.1, 1.0
    for _ in range(24):
        middle = (low + high) / 2
        x, y = point_at(last, middle)
        if (x - end[0]) ** 2 + (y - end[1]) ** 2 > length**2:
            low = middle
        else:
            high = middle
    return (*first, _start_of(last, low))


def _start_of(curve: Curve, t: float) -> Curve:
    def between(a: Point, b: Point) -> Point:
        return a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t

    p, q, r, s = curve
    pq, qr, rs = between(p, q), between(q, r), between(r, s)
    pqr, qrs = between(pq, qr), between(qr, rs)
    return p, pq, pqr, between(pqr, qrs)
