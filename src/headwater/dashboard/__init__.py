"""How a running project is looked at from outside: health, metrics, and a page for people.

`combined`, `metrics`, `health`, `history` and `space_time` are functions of plain data; `board`
holds what was told last, `details` reads what somebody asks for, and `server` answers.
"""
