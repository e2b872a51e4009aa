"""Grammars: what may come next of a text that has to have a form. `foreword.grammars.library` needs llguidance."""
