"""`foreword bench speedup`: what a draft is worth to one session, with real models and real prompts."""
