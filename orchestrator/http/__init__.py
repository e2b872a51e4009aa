"""The public API over HTTP, in the shapes of OpenAI's: it reads requests, hands them to the front, writes answers.

`settings` needs the extra `serve` alone, everything else the extra `http`.
"""
