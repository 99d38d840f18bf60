"""Plain loops of the online baselines, for comparison with the compiled solvers. Slow and obvious.

Each loop takes K (n, n), Y (n, columns) of +-1 and w (n,), the class weight of each example. After each example t it
yields three things: the values f(x_t) just before the example (columns,), the values at all n examples after it (n,
columns), and the examples that are points. A dictionary maps each example to its coefficients (columns,).
"""

import itertools

import numpy as np

from hinged.solvers.core.random import random_below


def values(a, K, t):
    return sum((a[i] * K[i, t] for i in a), np.zeros(1))


def everywhere(a, K):
    return np.array([values(a, K, t) for t in range(len(K))])


def perceptron(K, Y, w):
    a = {}
    for t, y in enumerate(Y):
        f = values(a, K, t)
        if (y * f <= 0).any():
            a[t] = np.where(y * f <= 0, y * w[t], 0.0)
        yield f, everywhere(a, K), list(a)


def averaged_perceptron(K, Y, w):
    a, total = {}, {}
    for t, y in enumerate(Y):
        f = values(a, K, t)
        predicted = values({i: total[i] / t for i in total}, K, t)
        if (y * f <= 0).any():
            a[t] = np.where(y * f <= 0, y * w[t], 0.0)
        for i, alpha in a.items():
            total[i] = total.get(i, 0.0) + alpha
        yield predicted, everywhere({i: total[i] / (t + 1) for i in total}, K), list(a)


def ogd(K, Y, w, eta, lam):
    a = {}
    for t, y in enumerate(Y):
        f = values(a, K, t)
        a = {i: (1 - eta * lam) * a[i] for i in a}
        if (y * f <= 1).any():
            a[t] = np.where(y * f <= 1, eta * y * w[t], 0.0)
        yield f, everywhere(a, K), list(a)


def budget_perceptron(K, Y, w, budget, beta):
    a = {}
    for t, y in enumerate(Y):
        f = values(a, K, t)
        if (y * f <= beta).any():
            a[t] = np.where(y * f <= beta, y * w[t], 0.0)
        if len(a) > budget:
            without = {i: Y[i] * (values(a, K, i) - a[i] * K[i, i]) for i in a}
            del a[max(a, key=lambda i: without[i][a[i] != 0].min())]
        yield f, everywhere(a, K), list(a)


def rbp(K, Y, w, budget, seed):
    a, random = {}, np.array([seed], np.uint64)
    for t, y in enumerate(Y):
        f = values(a, K, t)
        if (y * f <= 0).any():
            if len(a) == budget:
                del a[list(a)[random_below(random, budget)]]
            a[t] = np.where(y * f <= 0, y * w[t], 0.0)
        yield f, everywhere(a, K), list(a)


def forgetron(K, Y, w, budget):
    a, Q, M = {}, 0.0, 0
    for t, y in enumerate(Y):
        f = values(a, K, t)
        if (y * f <= 0).any():
            M += (y * f <= 0).sum()
            a[t] = np.where(y * f <= 0, y * w[t], 0.0)
            if len(a) > budget:
                r = min(a)
                R = max(K[i, i] for i in a)
                sigma, mu = np.abs(a[r]), Y[r] * values(a, K, r) / R
                # Q + Psi as a polynomial of phi, summed over the columns.
                a2, a1 = (sigma**2 * K[r, r] / R - 2 * sigma * mu).sum(), 2 * sigma.sum()
                phi = 1.0
                if a2 + a1 + Q > 15 / 32 * M:
                    phi = max(z.real for z in np.roots([a2, a1, Q - 15 / 32 * M]) if abs(z.imag) < 1e-12 and z.real < 1)
                assert 0 < phi <= 1
                Q += a2 * phi**2 + a1 * phi
                assert Q <= 15 / 32 * M + 1e-9
                a = {i: phi * a[i] for i in a if i != r}
        yield f, everywhere(a, K), list(a)


def bpas(K, Y, w, budget, C):
    a = {}
    for t, y in enumerate(Y):
        f = values(a, K, t)
        if (y * f < 1).any():
            if len(a) < budget:
                a[t] = y * np.minimum(C * w[t], np.maximum(0, 1 - y * f) / K[t, t])
            else:
                best = min(((*bpas_swap(K, a, f, y, C * w[t], r, t), r) for r in a), key=lambda swap: swap[0])
                del a[best[2]]
                a[t] = best[1]
        yield f, everywhere(a, K), list(a)


def bpas_swap(K, a, f, y, C, r, t):
    """Return the least 1/2 |f' - f|^2 + C loss of f' = f - alpha_r k_r + beta k_t over beta, and that beta."""
    objective, betas = 0.0, []
    for c, alpha in enumerate(a[r]):
        slope = alpha * K[r, t] / K[t, t]
        kink = (y[c] - f[c] + alpha * K[r, t]) / K[t, t]

        def cost(beta, c=c, alpha=alpha):
            distance = alpha**2 * K[r, r] - 2 * alpha * beta * K[r, t] + beta**2 * K[t, t]
            return distance / 2 + C * max(0.0, 1 - y[c] * (f[c] - alpha * K[r, t] + beta * K[t, t]))

        beta = min((slope, kink, slope + y[c] * C), key=cost)
        objective += cost(beta) - C * max(0.0, 1 - y[c] * f[c])
        betas.append(beta)
    return objective, np.array(betas)


def bogd(K, Y, w, budget, eta, lam, C, seed):
    a, random = {}, np.array([seed], np.uint64)
    for t, y in enumerate(Y):
        f = values(a, K, t)
        a = {i: (1 - eta * lam) * a[i] for i in a}
        if (y * f <= 1).any():
            if len(a) == budget:
                gone = list(a)[random_below(random, budget)]
                a = {i: np.clip(a[i] * budget / (budget - 1), -C * w[i], C * w[i]) for i in a if i != gone}
            a[t] = np.where(y * f <= 1, eta * y * w[t], 0.0)
        yield f, everywhere(a, K), list(a)


def projectron(K, Y, w, budget, novelty, plus=False):
    a = {}
    for t, y in enumerate(Y):
        f = values(a, K, t) + np.zeros(len(y))
        on = list(a)
        d = np.linalg.lstsq(K[np.ix_(on, on)], K[on, t], rcond=None)[0] if on else np.zeros(0)
        inside = d @ K[on, t]
        lost = np.sqrt(max(K[t, t] - inside, 0))
        least = novelty * np.sqrt(K[t, t])
        enters = (y * f <= 0).any() and len(a) < budget and lost > least
        if enters:
            a[t] = np.zeros(len(y))
        for c in range(len(y)):
            loss = 1 - y[c] * f[c]
            if y[c] * f[c] <= 0 and enters:
                a[t][c] = y[c] * w[t]
                continue
            step = 0.0
            if y[c] * f[c] <= 0:
                step = w[t]
            elif plus and loss > lost / least:
                step = min(loss / inside, 2 * (loss - lost / least) / inside, w[t])
            for i, d_i in zip(on, d, strict=True):
                a[i] = a[i] + y[c] * step * d_i * (np.arange(len(y)) == c)
        yield f, everywhere(a, K), list(a)


def nogd(K, Y, w, budget, rank, eta):
    """Do NOGD as in the paper: weights W of the features D^-1/2 V' k once there are `budget` points."""
    a, M, W = {}, None, None
    for t, y in enumerate(Y):
        on = list(a)
        f = values(a, K, t) if M is None else W @ M @ K[on, t]
        step = np.where(y * f <= 1, eta * y * w[t], 0.0)
        if M is not None:
            W += np.outer(step, M @ K[on, t])
        elif step.any():
            a[t] = step
            if len(a) == budget:
                on = list(a)
                D, V = np.linalg.eigh(K[np.ix_(on, on)])
                M = V[:, -rank:].T / np.sqrt(D[-rank:, None])
                W = np.array([a[i] for i in on]).T @ np.linalg.pinv(M)
        yield f, everywhere(a, K) if M is None else (W @ M @ K[on]).T, on if M is not None else list(a)


def fogd(X, Y, w, omega, eta):
    Z = np.concatenate([np.cos(X @ omega), np.sin(X @ omega)], axis=1) / np.sqrt(omega.shape[1])
    W = np.zeros((Y.shape[1], Z.shape[1]))
    for z, y, weight in zip(Z, Y, w, strict=True):
        f = W @ z
        for c, j in itertools.product(range(len(y)), range(len(z))):
            if y[c] * f[c] <= 1:
                W[c, j] += eta * y[c] * weight * z[j]
        yield f, Z @ W.T, []
