"""The orchestrator's own sessions, pools and policy in virtual time, between modelled targets, drafts and networks.

What is simulated are steps, links and texts; what is judged is the code that serves. The same seed gives the same run,
and the same text whatever γ is: which of a session's candidates are right depends on the position alone.
"""
