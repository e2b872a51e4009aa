"""Laws and draws as loops that are compiled for the CPU (Numba): what `foreword.laws` says of large rows, fast.

A law over a whole vocabulary is never written down. It is the row of logits, its largest, its total, and the mass of
every run of 64 ids; a probability is computed where somebody asks for it, by the same instructions every time. The
code on numpy is the reference, and runs where Numba is not installed: both compute in float64, and differ in last bits.
"""

from foreword.kernel_cache import share_kernels

share_kernels()
