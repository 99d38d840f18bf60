"""Kernel machines that learn one example at a time: arrays in, arrays out, no I/O."""

if __name__ != "hinged.solvers":  # a second name would make every class of it twice
    raise ImportError("this folder is imported as hinged.solvers")
