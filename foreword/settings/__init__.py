"""Settings of services: one frozen type each, from flags, environment, file and defaults, in this order."""
