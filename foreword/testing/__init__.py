"""Tools for tests of Foreword and of what is built on it; nothing here needs torch."""
