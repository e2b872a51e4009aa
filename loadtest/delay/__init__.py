"""`foreword bench delay`: what drafting ahead and shipping ahead hide of drafting time and of the network."""
