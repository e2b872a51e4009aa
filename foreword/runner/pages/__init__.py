"""Which page holds what: the bookkeeping of a paged cache, without the device that the pages are on."""
