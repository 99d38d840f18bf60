"""exp, log, sine and cosine in plain arithmetic, with the same bits on every processor.

C libraries differ, and a C library has several versions of these functions, with and without fused multiply-add. Their
results differ in the last bit. The functions here are sums and products of float64 in the written order, which every
processor rounds in the same way. Errors are given in units in the last place (ulp) of the result, as measured by the
tests. The errors of a C library are below 1 ulp.

Sources: Cody and Waite (Software Manual for the Elementary Functions, 1980) for the reduction by parts of a constant;
FreeBSD's msun (Sun Microsystems, 1993) for the polynomials of log, sine and cosine; Taylor's polynomial for exp.
"""

from __future__ import annotations

import math

import numpy as np

from hinged.solvers.jit.compiled import compiled

ROUNDER = np.float64(1.5 * 2.0**52)  # adding it rounds a float64 to an integer, which is then in the low bits
MANTISSA = np.int64(52)  # bits of a float64's mantissa
HALF_ROOT_BITS = np.int64(0x3FE6A09E667F3BCD)  # bits of the square root of 1/2

LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # HIGH ends in zeros, so k HIGH is exact
NEAR_ZERO = 0.34  # just below ln(2) / 2, the end of the range of exp's polynomial
EXP_LEAST = -708.0  # for smaller arguments the result of exp is not a normal float64

E2, E3, E4, E5 = 1.0 / 2.0, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0
E6, E7, E8, E9 = 1.0 / 720.0, 1.0 / 5040.0, 1.0 / 40320.0, 1.0 / 362880.0
E10, E11, E12, E13 = 1.0 / 3628800.0, 1.0 / 39916800.0, 1.0 / 479001600.0, 1.0 / 6227020800.0

L1, L2, L3, L4 = 6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01, 2.222219843214978396e-01
L5, L6, L7 = 1.818357216161805012e-01, 1.531383769920937332e-01, 1.479819860511658591e-01

ANGLE_MOST = 2.0**20  # largest angle for which k times the first part of pi / 2 is exact
TWO_PI = 6.283185307179586
TWO_OVER_PI = 6.36619772367581382433e-01
PI_2_HIGH, PI_2_MIDDLE, PI_2_LOW = 1.57079632673412561417e00, 6.07710050630396597660e-11, 2.02226624879595063154e-21

S1, S2, S3 = -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04
S4, S5, S6 = 2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10
C1, C2, C3 = 4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05
C4, C5, C6 = -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11


@compiled
def exp(x):
    """Return e to the power of x <= 700, within 1 ulp; 0 below EXP_LEAST.

    exp(x) = 2^k exp(r) with |r| <= ln(2) / 2. Taylor's polynomial up to r^13 gives exp(r) within 5e-18. Adding the
    rounder puts k into the low bits of `shifted`. From there k is moved into the exponent.
    """
    v = x if x > EXP_LEAST else EXP_LEAST
    shifted = np.float64(v * LOG2_E + ROUNDER)
    k = shifted - ROUNDER
    r = (v - k * LN2_HIGH) - k * LN2_LOW
    r2 = r * r
    r4 = r2 * r2
    low = (E2 + E3 * r) + (E4 + E5 * r) * r2
    middle = (E6 + E7 * r) + (E8 + E9 * r) * r2
    high = (E10 + E11 * r) + (E12 + E13 * r) * r2
    q = (low + middle * r4) + high * (r4 * r4)
    power = np.float64(1.0 + (r + r2 * q))
    scaled = np.int64(power.view(np.int64) + (shifted.view(np.int64) << MANTISSA)).view(np.float64)
    return scaled if x > EXP_LEAST else 0.0


@compiled
def expm1(x):
    """Return exp(x) - 1 for x <= 700, within 4 ulp.

    Near 0, the polynomial leaves out its 1, which would lose digits.
    """
    if abs(x) > NEAR_ZERO:
        return exp(x) - 1.0
    r2 = x * x
    r4 = r2 * r2
    low = (E2 + E3 * x) + (E4 + E5 * x) * r2
    middle = (E6 + E7 * x) + (E8 + E9 * x) * r2
    high = (E10 + E11 * x) + (E12 + E13 * x) * r2
    return x + r2 * ((low + middle * r4) + high * (r4 * r4))


@compiled
def log(x):
    """Return the natural logarithm of a finite, normal x > 0, within 1 ulp.

    x = 2^k (1 + f) with 1 + f from sqrt(1/2) to sqrt(2); log(1 + f) is a polynomial of s = f / (2 + f).
    """
    bits = np.float64(x).view(np.int64)
    k = (bits - HALF_ROOT_BITS) >> MANTISSA
    f = np.int64(bits - (k << MANTISSA)).view(np.float64) - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    even = w * (L2 + w * (L4 + w * L6))
    odd = z * (L1 + w * (L3 + w * (L5 + w * L7)))
    square = 0.5 * f * f
    exponent = np.float64(k)
    return exponent * LN2_HIGH - ((square - (s * (square + (odd + even)) + exponent * LN2_LOW)) - f)


@compiled
def log1p(x):
    """Return log(1 + x) for 0 <= x <= 1, within 2 ulp. The rounding error of 1 + x is added back."""
    u = 1.0 + x
    return log(u) + (x - (u - 1.0))


@compiled
def cosine_and_sine(x):
    """Return (cos x, sin x) for |x| <= ANGLE_MOST, each within 1e-16 + 1 ulp.

    x = k pi/2 + r with |r| <= pi/4. pi/2 is split in three parts, and k times the first part is exact. k mod 4
    determines which polynomial of r is the sine and which the cosine, and their signs.
    """
    shifted = np.float64(x * TWO_OVER_PI + ROUNDER)
    k = shifted - ROUNDER
    r = ((x - k * PI_2_HIGH) - k * PI_2_MIDDLE) - k * PI_2_LOW
    z = r * r
    sine = r + (z * r) * (S1 + z * (S2 + z * (S3 + z * (S4 + z * (S5 + z * S6)))))
    half = 0.5 * z
    most = 1.0 - half
    cosine = most + (((1.0 - most) - half) + z * (z * (C1 + z * (C2 + z * (C3 + z * (C4 + z * (C5 + z * C6)))))))
    quarter = shifted.view(np.int64)
    swapped = (quarter & 1) != 0
    c, s = sine if swapped else cosine, cosine if swapped else sine
    return -c if ((quarter + 1) & 2) != 0 else c, -s if (quarter & 2) != 0 else s


@compiled
def angle_within(x):
    """Return an angle in the range of `cosine_and_sine` with the same cosine and sine as x; 0 if x is not finite.

    The remainder of two positive numbers is exact, so it has the same bits everywhere. Rounding 2 pi changes the angle
    by less than the last place of x.
    """
    if abs(x) <= ANGLE_MOST:
        return x
    return math.copysign(abs(x) % TWO_PI, x) if math.isfinite(x) else 0.0
