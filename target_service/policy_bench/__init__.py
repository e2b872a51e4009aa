"""`foreword bench policy`: step policies compared in closed loops of sessions, in virtual time."""
