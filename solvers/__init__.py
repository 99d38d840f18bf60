"""Kernel machines that learn one example at a time: arrays in, arrays out, no I/O."""

if __name__ != "hinged.solvers":  # under a second name Python would make every class twice
    raise ImportError("this folder is imported as hinged.solvers")
