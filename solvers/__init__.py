"""Kernel machines that learn one example at a time: arrays in, arrays out, no I/O."""
