"""The non-zero coefficients of a machine (machine.py), listed by column while they are few, and sums over them."""

from __future__ import annotations

from hinged.solvers.core.counts import NONE
from hinged.solvers.core.simd.lanes import dot
from hinged.solvers.core.terms import TERM_WORK, count_below, sum_of_terms
from hinged.solvers.jit.compiled import in_place

LISTED_PART = 8  # a list has room for this part of the slots: beyond it, a sum over all slots is as fast


@in_place
def list_coefficient(machine, c, s, now):
    """Update the list of column c after alpha of slot s became `now`; give the list up where it has no room."""
    slots, values, m = machine.listed_slots[c], machine.listed_values[c], machine.listed[c]
    p = count_below(slots, m, s)
    there = p < m and slots[p] == s
    if now == 0.0:
        if there:
            for q in range(p + 1, m):
                slots[q - 1], values[q - 1] = slots[q], values[q]
            machine.listed[c] = m - 1
        return
    if not there:
        if m == slots.shape[0]:
            machine.listed[c] = NONE
            return
        for q in range(m, p, -1):
            slots[q], values[q] = slots[q - 1], values[q - 1]
        slots[p] = s
        machine.listed[c] = m + 1
    values[p] = now


@in_place
def list_coefficients_anew(machine, n):
    """Rebuild the list of each column, where there is room."""
    for c in range(machine.alpha.shape[0]):
        alpha, slots, values = machine.alpha[c], machine.listed_slots[c], machine.listed_values[c]
        m = 0
        for s in range(n):
            if alpha[s] != 0.0:
                if m == slots.shape[0]:
                    m = NONE
                    break
                slots[m], values[m] = s, alpha[s]
                m += 1
        machine.listed[c] = m


@in_place
def expansion_sum(machine, c, row):
    """f of column c without the bias: sum_s alpha_s row_s for a kernel row (n,), in the bits of `dot`."""
    if machine.listed[c] == NONE:
        return dot(machine.alpha[c, : row.shape[0]], row)
    slots, values = machine.listed_slots[c], machine.listed_values[c]
    return sum_of_terms(slots, slots, values, 0, machine.listed[c], 0, row.shape[0], row, 0, machine.lanes)


@in_place
def expansion_work(machine, n):
    """Work (turns.py) of `expansion_sum` over n slots in all columns."""
    work = 0
    for c in range(machine.alpha.shape[0]):
        work += n if machine.listed[c] == NONE else TERM_WORK * machine.listed[c]
    return work
