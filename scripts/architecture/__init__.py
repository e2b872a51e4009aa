"""The arrows between packages, checked: `python -m scripts.architecture` lists what breaks them.

`source` reads a tree of modules, `arrows` has the rules about who may import whom, `habits` those about what a module
may do, and `__main__` applies both.
"""
