"""The public API: requests are checked, made into sessions, and answered as a stream of events."""
