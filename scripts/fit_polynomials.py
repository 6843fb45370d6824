#!/usr/bin/env python3
"""Prints the polynomial coefficients of kernels/op/math.h, as fp32 hex literals, lowest power first.

Each is the minimax fit of the relative error of the whole function: Lawson's iteration, a weighted
least-squares fit whose weights grow where the error is large until all the peaks are level. The
coefficients are then rounded to fp32. Needs mpmath.
"""
import struct

from mpmath import cos, exp, lu_solve, log, log1p, matrix, mp, mpf, pi, polyval, sqrt, tanh

mp.prec = 200
POINTS = 300
ITERATIONS = 60


def fit(name, function, gain, low, high, degree):
    """Fits q so that gain(x) * (q(x) - function(x)), the relative error of the result, is level."""
    nodes = [(low + high) / 2 + (high - low) / 2 * cos(pi * (2 * k + 1) / (2 * POINTS))
             for k in range(POINTS)]
    targets = [function(x) for x in nodes]
    gains = [gain(x) for x in nodes]
    weights = [mpf(1) / POINTS] * POINTS
    for _ in range(ITERATIONS):
        scale = [sqrt(w) * g for w, g in zip(weights, gains)]
        rows = matrix([[s * x**k for k in range(degree + 1)] for s, x in zip(scale, nodes)])
        q = lu_solve(rows, matrix([s * t for s, t in zip(scale, targets)]))
        errors = [abs(g * (polyval(list(reversed(q)), x) - t))
                  for g, x, t in zip(gains, nodes, targets)]
        weights = [w * e for w, e in zip(weights, errors)]
        total = sum(weights)
        weights = [w / total for w in weights]
    print(f'{name}: relative error {mp.nstr(max(errors), 3)} before rounding')
    for c in q:
        print(f'  {struct.unpack("f", struct.pack("f", float(c)))[0].hex()}f')


def main():
    # exp(r) = 1 + r + r^2 q(r)
    half = log(mpf(2)) / 2
    fit('exp', lambda r: (exp(r) - 1 - r) / r**2, lambda r: r**2 / exp(r), -half, half, 4)
    # tanh(x) = x + x^3 q(x^2)
    fit('tanh', lambda z: (tanh(sqrt(z)) - sqrt(z)) / sqrt(z)**3,
        lambda z: sqrt(z)**3 / tanh(sqrt(z)), mpf(0), mpf('0.625')**2, 4)
    # log(1 + f) = f + f^2 (-1/2 + f q(f))
    fit('log', lambda f: (log1p(f) - f + f**2 / 2) / f**3, lambda f: f**3 / log1p(f),
        sqrt(mpf('0.5')) - 1, sqrt(mpf(2)) - 1, 7)


if __name__ == '__main__':
    main()
