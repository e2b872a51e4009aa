"""All services on one machine, as child processes that are watched and restarted."""
