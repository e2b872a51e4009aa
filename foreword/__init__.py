"""Foreword: a distributed speculative-decoding server."""
