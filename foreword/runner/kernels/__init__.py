"""Loops over rows that are compiled for the CPU when they are first called, and kept on disk from then on (Numba).

Between two matrix products a layer has a dozen small operations, which torch dispatches one by one: at the size of a
step that takes longer than their arithmetic. Here they are four. Every row is computed by the same instructions
whatever it comes with, so that its bits do not depend on the batch.
"""

from foreword.kernel_cache import share_kernels

share_kernels()
