"""`foreword bench regret`: what choosing γ by measurement loses against having known the best one, in virtual time."""
