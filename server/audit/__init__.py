"""What was done, by whom, and whether they were allowed to: lines that can't be changed unnoticed.

No contents, no secrets, no words that somebody searched for.
"""
