"""What each algorithm would cost for a view: estimated from statistics, without asking anybody.

An estimate is a dry run. The view manager that would maintain the view is given transactions as
they are expected, in virtual time, and its questions are answered with rows that are only counted.
So what is counted is what the algorithm really asks, whatever its parameters are, and the formulas
of the papers are what the tests compare it with.
"""
